/* mlxfn.h: exported functions in the .mlxfn format.
 *
 * A file is a header and traces; a trace is the graph of one call: inputs, outputs and a tape of
 * entries in an order in which operands come before users.  An entry is an input, a constant with its
 * elements, or a primitive (primitives.def) with its state.  Numbers are little-endian and packed.
 *
 * Here is what bytes mean; what primitives compute is in mlxfn_build.c, how operations of ours are
 * written in mlxfn_form.c.  A reader looks at memory, and every count, offset and length is checked
 * against what is left of it before it is used. */
#ifndef MX_MLXFN_H
#define MX_MLXFN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/array.h"
#include "io/bytes.h"
#include "ops/op.h"

/* ---- primitives */

struct wire_value {
    char kind; /* a letter of primitives.def, or '-': an older file, which has no such field */
    union {
        bool b;
        int32_t i;
        float f;
        double d;
        uint64_t u;
    };
    uint64_t n;       /* of a list or text */
    const int64_t *v; /* I, H, L, U, T and B */
    const char *s;    /* text; S: tag and value of each */
};

enum { WIRE_FIELDS = 12 };
struct wire_state {
    int n;
    struct wire_value v[WIRE_FIELDS];
};

struct building;
struct primitive {
    const char *name;
    int nin, nout;
    const char *state;
    bool follows, follows_there; /* do the shapes of results follow from those of operands: here, in the mlx package? */
    void (*build)(const struct building *b, mx y[]);
};
/* What each of them computes (mlxfn_build.c). */
#define P(name, ...) void build_##name(const struct building *b, mx y[]);
#include "mlxfn/primitives.def"
/* NULL: no such primitive. */
const struct primitive *primitive_named(const char *name, size_t length);
/* In the order of primitives.def; NULL past the last. */
const struct primitive *primitive_at(int i);

/* A primitive on operands; `narrow` are the same, but for those that Broadcast of one operand made: as they were
 * before.  `declared` are shape and dtype of each result in the file; `like` is the same where the shapes hold, NULL
 * where they follow from the operands. */
struct building {
    const struct primitive *p;
    const struct wire_state *s;
    int version, nin, nout;
    const mx *x, *narrow;
    const struct spec *declared, *like;
};

/* ---- extensions: operations of ours that primitives do not say */

/* Their names start with this, and the state is text: the fields of the arguments, described. */
#define EXTENSION "mlx.c:"
/* Behind it, before the names of operations registered at run time: their state is theirs. */
#define PLUGIN "plugin:"
/* The fields of arguments as bytes; mx_malloc'ed. NULL after a failure. */
char *extension_encode(const struct op *op, const void *args, uint64_t *length);
/* The operation called `name`, which has no prefix any more; NULL: no such extension. */
const struct op *extension_named(const char *name, size_t length);
void extension_build(const struct op *op, const char *state, uint64_t length, int nin, const mx x[], int nout, mx y[]);

/* ---- writing: the form of an operation */

struct wire_form {
    const char *name, *format; /* a format as in primitives.def */
    bool follows_there;        /* as of the primitive */
    struct wire_state s;
    int64_t store[6][MX_MAX_NDIM]; /* for its lists */
    char label[64];                /* for the name of an extension */
    char *text;                    /* for its state; free it */
    int rotate;                    /* the first operands, that many, come last */
    bool shapeless;                /* asked for in a file for any shapes, and they may vary */
    bool portable;                 /* the mlx package reads it too */
};
/* How a call with these operands and results is written; false: not by one primitive. */
bool wire_form(const struct call *c, bool shapeless, bool portable, struct wire_form *f);
/* The argument of this name: several structs are private to the files of their operations. */
const void *wire_field(const struct call *c, const char *name);
/* The same results of other operations, where there is a way. */
bool wire_composable(const struct op *op);
void wire_compose(const struct call *c, mx y[]);
/* As wire_form for an extension. */
bool wire_has_extension(const struct op *op);
bool wire_extension(const struct call *c, struct wire_form *f); /* false after a failure */
/* Does the operation say how it is written? */
bool wire_stated(const struct op *op);

/* ---- bytes to write */

static inline void put_i32(struct bytes *b, int32_t v) { put_u32(b, (uint32_t)v); }
void put_shape(struct bytes *b, int ndim, const int *shape);
void put_dtype(struct bytes *b, enum dtype t);
void put_state(struct bytes *b, const char *format, const struct wire_state *s);

/* JSON: text in quotes, bytes that are no UTF-8 replaced; printf; "[2,3]"; the values of a state. */
void put_json_text(struct bytes *b, const char *s, size_t n);
void put_format(struct bytes *b, const char *fmt, ...) MX_PRINTF(2, 3);
void put_json_shape(struct bytes *b, int ndim, const int *shape);
void put_json_state(struct bytes *b, const char *format, const struct wire_state *s);

/* ---- bytes that are read */

struct cursor {
    const uint8_t *data;
    uint64_t at, size;
    const char *label; /* for messages: the file */
};

enum { NEWEST = 0x7fffffff };
struct mlxfn_header {
    const char *version, *metadata; /* not terminated */
    uint64_t version_length, metadata_length;
    int number; /* of the version: 0.32.4 is 32004; NEWEST where the text is none */
    int count;
    bool shapeless;
};
int read_header(struct cursor *c, struct mlxfn_header *h);

/* A trace up to its tape, whose entries follow. */
struct mlxfn_trace {
    int n_keys, n_in, n_out;
    char **keys;
    uint64_t *in_ids, *out_ids;
    struct spec *in;
    uint64_t tape, entries; /* offset of the first, how many */
};
int read_trace(struct cursor *c, int version, struct mlxfn_trace *t);
void trace_free(struct mlxfn_trace *t);

struct mlxfn_entry {
    enum { AN_INPUT, A_CONSTANT, A_PRIMITIVE } kind;
    uint64_t at, id;
    /* a constant: spec[0] and, if it is the first time in the file, where its elements are */
    uint64_t data, bytes;
    /* a primitive */
    const char *name; /* not terminated */
    uint64_t name_length;
    const struct primitive *p;  /* NULL: an extension, whose state is the text in state.v[0] */
    const struct op *extension; /* NULL beside: of a library that is not registered */
    int device;
    struct wire_state state;
    int nin, nout;
    uint64_t *in, *out;
    struct spec *spec;
};
/* `known` answers whether a constant of this id has been met in the file before. */
int read_entry(struct cursor *c, int version, bool (*known)(void *ctx, uint64_t id), void *ctx, struct mlxfn_entry *e);
void entry_free(struct mlxfn_entry *e);

/* Fails as "[import_function] <label>: <what> at byte <at>"; returns 1. */
int bad_file(const struct cursor *c, uint64_t at, const char *fmt, ...) MX_PRINTF(3, 4);

/* Numbers by id: a table that grows. */
struct id_table {
    uint64_t *id;
    int *value;
    uint32_t size, used; /* a power of two, or 0 */
};
int *id_find(const struct id_table *t, uint64_t id);    /* NULL: not there */
int id_put(struct id_table *t, uint64_t id, int value); /* non-zero after a failure */
void id_free(struct id_table *t);

#endif
