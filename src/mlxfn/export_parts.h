/* export_parts.h: what the files of exporting share. */
#ifndef MX_MLXFN_EXPORT_PARTS_H
#define MX_MLXFN_EXPORT_PARTS_H

#include "io/new_file.h"
#include "mlxfn/export.h"
#include "mlxfn/mlxfn.h"
#include "transform/graph.h"

struct export_signature {
    int n_pos, n_keys;
    char **keys;
    struct spec *in;
};

struct exporter {
    struct named_function *f;
    struct export_listener *listener; /* NULL: a file */
    char *name;                       /* of the file, for messages */
    struct new_file file;
    bool shapeless, portable, closed;
    bool failed;         /* the last trace */
    pid_t owner;         /* a child made by fork has no part in the file */
    bool tracing, freed; /* at work; by what it calls meanwhile */
    bool sizes_read;     /* by the function while it was traced for any shape */
    uint64_t count_at, end;
    int n, cap;
    struct export_signature *traces;
    struct mx_list constants; /* those in the file, which must stay what they are */
    struct id_table known;    /* by address: their numbers */
    int names;                /* given to listeners */
};

/* The values of the graph; `folded` marks entries whose results are constants. */
struct export_trace {
    struct graph g;
    struct mx_list in;
    bool *folded;
};

/* ---- graphs (export.c) */

enum fate { WRITTEN, REPLACED, FOLDED, REFUSED };

/* Entry i on the values v. */
struct call export_call_of(const struct graph *g, int i, mx v[], mx x[]);
/* With `whole`, f is filled in for what is written; an extension takes some work. */
enum fate export_fate(const struct exporter *e, const struct graph *g, int i, const struct call *c, bool whole,
                      struct wire_form *f);
/* Fails for what is REFUSED. */
void export_refuse(const struct exporter *e, const struct op *op);
/* The most operands and results of an entry. */
int export_widest(const struct graph *g);
/* made[v]: v is made by an entry that is written; free it.  NULL after mx_fail. */
bool *export_made(const struct export_trace *t);
/* The number of a constant in the file or to the listener, -1 if it has not been there. */
int export_known(const struct exporter *e, mx x);
int export_remember(struct exporter *e, mx x);
/* Forgets constants from number n on, which have not got into the file. */
int export_forget(struct exporter *e, int n);

/* ---- files (export_file.c) */

int export_create(struct exporter *e, const char *path);
int export_header(struct exporter *e, const char *metadata, size_t length);
int export_write(struct exporter *e, struct export_trace *t, int n_keys, const char *const keys[]);
/* Puts the file in its place, if it is not there. */
int export_publish(struct exporter *e);
int export_file_failed(const struct exporter *e, const char *what);

/* ---- listeners (export_listen.c) */

int export_tell(struct exporter *e, struct export_trace *t, int n_keys, const char *const keys[]);

#endif
