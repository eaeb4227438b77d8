/* mlxfn_extension.c: operations that have no primitive, in files that this library alone reads.
 *
 * The state is text: for each field of the arguments its name, a byte for its kind and its value, in the
 * order of their description.  What is read is not trusted: the operation's own .fits looks at it, and then
 * its rule of shapes. */
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "mlxfn/export.h"
#include "mlxfn/mlxfn.h"
#include "ops/plugin.h"
#include "transform/graph.h"

#define AT(type, args, f) (*(type *)((char *)(uintptr_t)(args) + (f)->offset))

/* Bodies in bodies, each of some 4 KB of stack when they are read. */
enum { DEPTH = 100 };
static _Thread_local int depth;

static bool enter_body(const char *func)
{
    if (depth == DEPTH)
        return mx_fail("[%s] loops in loops more than %d deep", func, DEPTH), false;
    return ++depth;
}

static char *body_encode(struct object *body, const char *op, const char *field, uint64_t *n)
{
    struct graph *g = graph_of_object(body);
    *n = 0;
    if (!g) {
        mx_fail("[export_function] the argument %s of %s cannot be written", field, op);
        return NULL;
    }
    if (!enter_body("export_function"))
        return NULL;
    char *bytes = export_graph(g, n);
    depth--;
    return bytes;
}

char *extension_encode(const struct op *op, const void *args, uint64_t *length)
{
    struct bytes b = { 0 };
    for (const struct field *f = op->fields; f && f->kind; f++) {
        put_text(&b, f->name, strlen(f->name));
        put_u8(&b, f->kind);
        switch (f->kind) {
        case F_BOOL: put_u8(&b, AT(bool, args, f)); break;
        case F_INT:
        case F_ENUM: put_i32(&b, AT(int, args, f)); break;
        case F_I64: put_u64(&b, (uint64_t)AT(int64_t, args, f)); break;
        case F_F64: {
            uint64_t bits;
            memcpy(&bits, &AT(double, args, f), sizeof bits);
            put_u64(&b, bits);
            break;
        }
        case F_INTS:
        case F_SIZES: {
            struct ints v = AT(struct ints, args, f);
            put_u64(&b, (uint64_t)v.n);
            for (int i = 0; i < v.n; i++) put_u64(&b, (uint64_t)v.v[i]);
            break;
        }
        case F_TEXT: {
            const char *s = AT(struct text, args, f).s;
            put_text(&b, s ? s : "", s ? strlen(s) : 0);
            break;
        }
        case F_OBJECT: {
            uint64_t n;
            char *bytes = body_encode(AT(struct object *, args, f), op->label, f->name, &n);
            put_text(&b, bytes, n);
            free(bytes);
            break;
        }
        }
    }
    put_u8(&b, 0); /* so that there is something */
    *length = b.n;
    if (!b.failed && !mx_failed())
        return (char *)b.v;
    free(b.v);
    return NULL;
}

/* ---- fields that are read */

struct fields {
    const uint8_t *at, *end;
};

static bool take_number(struct fields *s, size_t n, uint64_t *v)
{
    *v = 0;
    if ((size_t)(s->end - s->at) < n)
        return false;
    for (size_t i = n; i-- > 0;) *v = *v << 8 | s->at[i];
    s->at += n;
    return true;
}

/* Bytes of a value of this kind, or of the length before it. */
static size_t bytes_of(uint64_t kind) { return kind == F_BOOL ? 1 : kind == F_INT || kind == F_ENUM ? 4 : 8; }

/* The field of this name and kind: its bytes from the value on. */
static bool find_field(const char *state, uint64_t length, const char *name, int kind, struct fields *out)
{
    struct fields s = { (const uint8_t *)state, (const uint8_t *)state + length };
    uint64_t n, k, v;
    while (take_number(&s, 8, &n) && n <= (uint64_t)(s.end - s.at)) {
        const uint8_t *text = s.at;
        s.at += n;
        if (!take_number(&s, 1, &k))
            return false;
        if (n == strlen(name) && !memcmp(text, name, n) && (int)k == kind) {
            *out = s;
            return true;
        }
        if (!take_number(&s, bytes_of(k), &v))
            return false;
        if (k == F_INTS || k == F_SIZES || k == F_TEXT || k == F_OBJECT) {
            uint64_t each = k == F_INTS || k == F_SIZES ? 8 : 1;
            if (v > (uint64_t)(s.end - s.at) / each)
                return false;
            s.at += v * each;
        }
    }
    return false;
}

/* ---- graphs: files in the file, which become functions */

struct extension_body {
    struct closure closure;
    struct imported *f;
};

static int call_body(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    return imported_call(((struct extension_body *)self)->f, n, 0, NULL, x, out);
}

enum { BODIES = 2 }; /* at most, of one operation */
struct extension_arguments {
    void *args;    /* the struct, and then what its fields point at; free it */
    int64_t *room; /* for lists and text */
    struct extension_body bodies[BODIES];
    int n_bodies;
};

static bool read_body(struct extension_arguments *a, const char *name, const uint8_t *bytes, uint64_t n)
{
    if (a->n_bodies == BODIES || !enter_body("import_function"))
        return false;
    struct extension_body *b = &a->bodies[a->n_bodies++];
    *b = (struct extension_body){ { { .refs = 1 }, call_body }, imported_of_bytes(bytes, n, name) };
    depth--;
    return b->f;
}

/* ---- arguments */

static bool read_field(struct extension_arguments *a, const struct field *f, const char *state, uint64_t length)
{
    struct fields s;
    uint64_t v, bits;
    bool numbers = f->kind == F_INTS || f->kind == F_SIZES;
    if (!find_field(state, length, f->name, f->kind, &s) || !take_number(&s, bytes_of(f->kind), &v) ||
        ((numbers || f->kind == F_TEXT || f->kind == F_OBJECT) &&
         (v > INT32_MAX || v > (uint64_t)(s.end - s.at) / (numbers ? 8 : 1)))) {
        mx_fail("[import_function] expected an argument '%s'", f->name);
        return false;
    }
    switch (f->kind) {
    case F_BOOL: AT(bool, a->args, f) = v != 0; break;
    case F_INT: AT(int, a->args, f) = (int32_t)(uint32_t)v; break;
    case F_I64: AT(int64_t, a->args, f) = (int64_t)v; break;
    case F_F64: memcpy(&AT(double, a->args, f), &v, sizeof v); break;
    case F_ENUM:
        if (v > f->last)
            mx_fail("[import_function] expected '%s' from 0 to %d, got %d", f->name, f->last, (int)(uint32_t)v);
        AT(unsigned, a->args, f) = (unsigned)v;
        return v <= f->last;
    case F_INTS:
    case F_SIZES:
        AT(struct ints, a->args, f) = (struct ints){ (int)v, a->room };
        while (v-- && take_number(&s, 8, &bits)) *a->room++ = (int64_t)bits;
        break;
    case F_TEXT:
        AT(struct text, a->args, f).s = memcpy(a->room, s.at, v);
        ((char *)a->room)[v] = 0;
        a->room += v / 8 + 1;
        break;
    default: return read_body(a, f->name, s.at, v);
    }
    return true;
}

/* Arguments as their description says.  False after a failure; arguments_free in any case. */
static bool read_arguments(struct extension_arguments *a, const struct op *op, const char *state, uint64_t length)
{
    size_t own = (op->args_size + 7) & ~(size_t)7;
    *a = (struct extension_arguments){ .args =
                                           mx_malloc(own + length + 8) }; /* in the state each list has 8 bytes more */
    if (!a->args)
        return false;
    memset(a->args, 0, own);
    a->room = (int64_t *)((char *)a->args + own);
    const struct field *f = op->fields;
    while (f && f->kind && read_field(a, f, state, length)) f++;
    return !f || !f->kind;
}

static void arguments_free(struct extension_arguments *a)
{
    for (int i = 0; i < a->n_bodies; i++) imported_release(a->bodies[i].f);
    free(a->args);
}

/* ---- calls */

/* A loop or a branch: the results that its builder pushed, and those of its node beyond them. */
static void rebuild(const struct call *c, struct extension_arguments *a, mx y[])
{
    struct closure *of[BODIES] = { &a->bodies[0].closure, &a->bodies[1].closure };
    struct mx_list out = { 0 };
    if (!c->op->rebuild(c, of, &out)) {
        struct node *n = out.n ? out.v[0].it->node : NULL;
        for (int k = 0; k < c->nout && !mx_failed(); k++) {
            if (k < out.n) {
                mx_retain(out.v[k].it);
                y[k] = scope_lend(out.v[k].it);
            } else if (n && n->op == c->op && n->nout >= c->nout) {
                y[k] = scope_lend(node_output(n, k));
            } else {
                mx_fail("[%s] expected %d results, got %d", c->op->name, out.n, c->nout);
            }
        }
    }
    list_clear(&out);
}

/* An operation registered at run time, whose rule of shapes checks its operands. */
static void infer_registered(const struct plugin *p, const char *s, uint64_t n, int nin, const mx x[], int nout, mx y[])
{
    struct object *state = p->decode(p, s, n);
    struct plugin_args args = { state };
    if (!state)
        return;
    mx_infer_n(&p->op, &args, nin, x, nout, y);
    object_release(state);
}

void extension_build(const struct op *op, const char *s, uint64_t n, int nin, const mx x[], int nout, mx y[])
{
    struct extension_arguments a;
    for (int k = 0; k < nout; k++) y[k] = MX_NIL;
    if (plugin_of(op)) {
        infer_registered(plugin_of(op), s, n, nin, x, nout, y);
        return;
    }
    if (read_arguments(&a, op, s, n)) {
        struct call c = { .op = op, .args = a.args, .nin = nin, .nout = nout, .x = x };
        if (!op->fits(&c) && !mx_failed())
            mx_fail("[%s] the arguments in the file do not go with %d operands%s%s and %d results", op->name, nin,
                    nin ? ", the first of shape " : "", nin ? shape_of(x[0]) : "", nout);
        if (mx_failed())
            ;
        else if (op->rebuild)
            rebuild(&c, &a, y);
        else if (shapeless())
            mx_infer_n(op, a.args, nin, x, nout, y);
        else
            mx_settle_n(op, a.args, nin, x, nout, y);
    }
    arguments_free(&a);
}
