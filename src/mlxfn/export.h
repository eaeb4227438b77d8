/* export.h: functions written to files, and files called as functions. */
#ifndef MX_MLXFN_EXPORT_H
#define MX_MLXFN_EXPORT_H

#include "transform/transform.h"

/* A function of positional and named arrays; x has the positional ones and then those of keys. */
struct named_function {
    struct object object;
    int (*call)(struct named_function *self, int n_pos, int n_keys, const char *const keys[], const mx x[],
                struct mx_list *out);
};

/* What an exporter that does not write a file tells: a JSON object, and the arrays of the constants it names. */
struct export_listener {
    struct object object;
    int (*hear)(struct export_listener *self, const char *json, int n, const mx constants[]);
};

struct exporter;
/* Keeps f.  The file comes into being beside `path` and takes its place with the first trace, from then on holding
 * each as soon as exporter_trace is back; an older file is replaced when the exporter is closed.  With `portable`,
 * only what other readers of the format understand is written.  NULL after mx_fail. */
struct exporter *exporter_new(const char *path, struct named_function *f, bool shapeless, bool portable,
                              const char *metadata, size_t length);
struct exporter *exporter_new_listener(struct export_listener *l, struct named_function *f, bool shapeless,
                                       bool portable);
/* Did the function look at sizes the last time that it was traced for any shape?  They stay what they were. */
bool exporter_sizes_read(const struct exporter *e);
/* Traces f on arrays like these and writes that.  Non-zero after mx_fail, with file and exporter as before. */
int exporter_trace(struct exporter *e, int n_pos, int n_keys, const char *const keys[], const mx x[]);
/* Has it traces, the last of which did not fail, and is this the process that made it? */
bool exporter_whole(const struct exporter *e);
/* Closes the file.  `keep` false: an older file stays, and one without a trace is not put in place. */
int exporter_close(struct exporter *e, bool keep);
/* Closes it, keeping what has traces unless the last one failed; what that says is not told. */
void exporter_free(struct exporter *e);

struct graph;
/* A graph as a file of its own, not portable; free it.  NULL after mx_fail. */
char *export_graph(struct graph *g, uint64_t *length);

/* A file as a function, which any thread may call. */
struct imported;
struct imported *imported_open(const char *path); /* NULL after mx_fail */
/* The same of bytes in memory, which are not looked at any more afterwards (they are copied). */
struct imported *imported_of_bytes(const void *data, size_t n, const char *label);
void imported_release(struct imported *f);
const char *imported_metadata(const struct imported *f, size_t *length);
/* Pushes the results of the trace that takes these arrays. */
int imported_call(struct imported *f, int n_pos, int n_keys, const char *const keys[], const mx x[], struct mx_list *y);

/* What is in a file, as JSON; free it.  Elements of constants are not read. */
char *inspect_file(const char *path);

#endif
