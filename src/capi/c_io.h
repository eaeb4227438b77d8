/* c_io.h: the caller's readers and writers as src/io has them. */
#ifndef MX_CAPI_C_IO_H
#define MX_CAPI_C_IO_H

#include "io/io.h"
#include "mlx/c/io_types.h"

struct port;
struct port_reader {
    struct source base;
    const struct port *port;
};
struct port_writer {
    struct writer base;
    const struct port *port;
};
/* false after mx_fail; p is the ctx of the handle `arg`. */
bool capi_open_reader(const char *func, const char *arg, const struct port *p, struct port_reader *r);
bool capi_open_writer(const char *func, const char *arg, const struct port *p, struct port_writer *w);

/* The name with the suffix, which is added where it is missing; NULL after a failure. */
char *capi_with_suffix(const char *func, const char *file, const char *suffix);

#endif
