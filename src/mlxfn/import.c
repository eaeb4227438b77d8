/* import.c: files called as functions.
 *
 * A file is mapped, privately (with MLX_MMAP=0 it is read), and stays so for as long as the function or one
 * of its constants is there: replacing or removing the file changes nothing.  (Who truncates it in place takes
 * away memory that is in use, as with every mapped file.)  Each trace is read once, on placeholders, into a
 * graph, which a call instantiates.  In a file for any shapes, a call with other shapes than the traced ones
 * goes through the entries again, and each shape follows from the operands'. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "io/source.h"
#include "mlxfn/export.h"
#include "mlxfn/mlxfn.h"
#include "ops/load.h"
#include "ops/ops.h"
#include "transform/graph.h"

struct file {
    struct source source;
    bool mapped;
    int count; /* at most that many traces: those that were all there when the size was taken */
};

struct function {
    struct mlxfn_trace t;
    struct graph *g;
};

struct imported {
    struct file *file;
    char *label, *metadata;
    size_t metadata_length;
    int version, n;
    bool shapeless;
    struct function *traces;
    struct id_table known; /* constants by id, of the whole file */
    struct mx_list constants;
    uint64_t *first; /* of each the entry that holds its elements */
    int first_cap;
};

/* ---- bytes */

static void file_destroy(struct object *o)
{
    struct file *f = (struct file *)o;
    if (f->mapped)
        munmap((void *)(uintptr_t)f->source.bytes, f->source.size);
    else
        free((void *)(uintptr_t)f->source.bytes);
    free(f);
}

/* Takes the bytes over, also on failure. */
static struct file *file_of(const void *bytes, uint64_t size, bool mapped, int count)
{
    struct file *f = mx_malloc(sizeof *f);
    if (f)
        *f = (struct file){ { .object = { 1, file_destroy }, .label = "the file", .size = size, .bytes = bytes },
                            mapped,
                            count };
    else if (mapped)
        munmap((void *)(uintptr_t)bytes, size);
    else
        free((void *)(uintptr_t)bytes);
    return f;
}

static void *fail_open(enum mx_error kind, const char *path, const char *why)
{
    mx_fail_as(kind, "[import_function] Failed to open %s: %s", path, why);
    return NULL;
}

/* All of a file in memory, at a multiple of what constants are aligned to; NULL: errno says why, 0 that it
 * ended early. */
static void *read_file(int fd, size_t n)
{
    size_t got = 0;
    char *bytes = mx_try_aligned(n);
    while (bytes && got < n) {
        ssize_t more = pread(fd, bytes + got, n - got < 1u << 30 ? n - got : 1u << 30, (off_t)got);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0) {
            errno = more ? errno : 0;
            free(bytes);
            return NULL;
        }
        got += (size_t)more;
    }
    return bytes;
}

/* How many traces the header counts; as good as any number where it is no such file, which reading it tells. */
static int count_now(int fd)
{
    uint64_t version;
    uint8_t n[4];
    if (pread(fd, &version, sizeof version, 0) != sizeof version || version > INT32_MAX ||
        pread(fd, n, sizeof n, (off_t)(sizeof version + version)) != sizeof n)
        return INT_MAX;
    return n[0] | n[1] << 8 | n[2] << 16 | (n[3] & 0x7f) << 24;
}

static struct file *open_file(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer would keep us */
    if (fd < 0)
        return fail_open(mx_error_of_system(errno), path, strerror(errno));
    const char *why = NULL;
    void *bytes = NULL;
    int count = count_now(fd); /* before its size: an exporter may be adding traces, and counts each when it is there */
    bool known = !fstat(fd, &st), mapped = source_may_map();
    size_t n = known ? (size_t)st.st_size : 0;
    if (known && !S_ISREG(st.st_mode))
        why = "not a regular file";
    else if (known && n == 0)
        why = "it is empty";
    else if (!known || (mapped && (bytes = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED))
        why = strerror(errno);
    else if (!mapped && !(bytes = read_file(fd, n)))
        why = errno ? strerror(errno) : "it was cut while it was read";
    close(fd);
    return why ? fail_open(MX_RUNTIME, path, why) : file_of(bytes, n, mapped, count);
}

/* ---- the entries of a trace, run on arrays */

struct running {
    struct imported *f;
    struct mlxfn_trace *t;
    struct cursor c;
    struct id_table at; /* values by id */
    int n, cap;
    struct value {
        mx x, narrow;
        const struct spec *declared;
        struct spec *own;
        bool read;
    } * v;
    bool again;     /* shapes follow from the operands */
    uint64_t entry; /* where the one in hand begins */
    uint64_t left;  /* entries behind it */
};

/* Was the constant held by an earlier entry than the one that is read now? */
static bool known_to_file(void *ctx, uint64_t id)
{
    const struct running *r = ctx;
    int *k = id_find(&r->f->known, id);
    return k && r->f->first[*k] != r->entry;
}

/* The first one of an id stays.  `narrow` is x before it was broadcast. */
static int define(struct running *r, uint64_t id, mx x, mx narrow, const struct spec *declared)
{
    if (id_find(&r->at, id))
        return 0;
    struct value *v = mx_grown(r->v, r->n, &r->cap, sizeof *v);
    if (!v)
        return 1;
    r->v = v;
    v[r->n] = (struct value){ x, narrow, declared, NULL, false };
    if (r->again) { /* what was declared goes with its entry */
        if (!(v[r->n].own = mx_malloc(sizeof *declared)))
            return 1;
        *v[r->n].own = *declared;
        v[r->n].declared = v[r->n].own;
    }
    return id_put(&r->at, id, r->n++);
}

static bool fits_spec(mx x, const struct spec *s)
{
    return x->ndim == s->ndim && !memcmp(x->shape, s->shape, (size_t)x->ndim * sizeof(int));
}

static int imported_constant(struct running *r, const struct mlxfn_entry *e)
{
    struct imported *f = r->f;
    int *k = id_find(&f->known, e->id);
    if (!k) {
        mx x = mx_load(&f->file->source, e->data, e->spec->ndim, e->spec->shape, e->spec->dtype);
        uint64_t *first = is_nil(x) ? NULL : mx_grown(f->first, f->constants.n, &f->first_cap, sizeof *first);
        if (!first)
            return 1;
        f->first = first;
        first[f->constants.n] = e->at;
        if (list_push(&f->constants, x) || id_put(&f->known, e->id, f->constants.n - 1))
            return 1;
        k = id_find(&f->known, e->id);
    }
    mx x = f->constants.v[*k].it;
    struct spec s = { .dtype = x->dtype, .ndim = x->ndim };
    memcpy(s.shape, x->shape, (size_t)x->ndim * sizeof(int));
    return define(r, e->id, x, x, &s);
}

/* The operation that first reads a value, but for what hands it on in another type or order. */
static void reader_of(const struct running *r, uint64_t id, char *name, size_t size)
{
    struct running ahead = *r;
    bool found = false, good = true;
    for (uint64_t i = 0; i < r->left && !found && good; i++) {
        struct mlxfn_entry e;
        bool reads = false;
        ahead.entry = ahead.c.at;
        good = !read_entry(&ahead.c, r->f->version, known_to_file, &ahead, &e);
        for (int k = 0; good && e.kind == A_PRIMITIVE && k < e.nin; k++) reads = reads || e.in[k] == id;
        bool on = reads && e.p &&
                  (e.p->build == build_AsType || e.p->build == build_Transpose || e.p->build == build_Unflatten);
        found = reads && !on;
        id = on ? e.out[0] : id;
        if (found)
            snprintf(name, size, "%.*s", (int)(e.name_length < size ? e.name_length : size - 1), e.name);
        entry_free(&e);
    }
    if (!found)
        snprintf(name, size, "what was exported");
    mx_error_clear();
}

/* An axis is unflattened to one size to say that what follows serves no other: the message speaks of what follows. */
static bool size_failed(const struct running *r, const struct mlxfn_entry *e)
{
    if (!e->p || e->p->build != build_Unflatten)
        return false;
    mx x = r->v[*id_find(&r->at, e->in[0])].x;
    int axis = e->state.v[0].i + (e->state.v[0].i < 0 ? x->ndim : 0);
    if (e->spec[0].ndim != x->ndim || axis < 0 || axis >= x->ndim || e->spec[0].shape[axis] == x->shape[axis])
        return false;
    char name[60];
    reader_of(r, e->out[0], name, sizeof name);
    mx_fail("[import_function] %s: byte %llu: expected %d elements along axis %d, for which %s was exported, got shape "
            "%s",
            r->c.label, (unsigned long long)e->at, e->spec[0].shape[axis], axis, name, shape_of(x));
    return true;
}

/* A convolution of rows of ones says how many elements there are (mlxfn/mlxfn_follow.c): the message speaks of them. */
static bool row_failed(const struct running *r, const struct mlxfn_entry *e)
{
    if (!e->p || e->p->build != build_Convolution)
        return false;
    mx x = r->v[*id_find(&r->at, e->in[0])].x, w = r->v[*id_find(&r->at, e->in[1])].x;
    if (x->ndim != 3 || w->ndim != 3 || x->shape[0] != 1 || x->shape[2] != 1 || w->shape[0] != 1 || w->shape[2] != 1)
        return false;
    char shapes[200] = "none";
    for (int i = 0, at = 0; i < r->t->n_in && at < (int)sizeof shapes; i++)
        at += snprintf(shapes + at, sizeof shapes - (size_t)at, "%s%s", i ? ", " : "", shape_of(r->v[i].x));
    mx_fail("[import_function] %s: byte %llu: expected more elements along an axis, of which a slice, a median or a "
            "diagonal takes some, got arguments of shapes %s",
            r->c.label, (unsigned long long)e->at, shapes);
    return true;
}

/* What a builder said, with the place in the file; of bodies in bodies the innermost, which comes last. */
static int entry_failed(const struct running *r, const struct mlxfn_entry *e)
{
    enum { MOST = 500 };
    char message[MOST + 1];
    enum mx_error kind = mx_error_kind();
    size_t n = strlen(mx_error_message()), from = n > MOST ? n - MOST : 0;
    while (from && (mx_error_message()[from] & 0xc0) == 0x80) from++; /* the rest of a character */
    snprintf(message, sizeof message, "%s", mx_error_message() + from);
    if (kind == MX_MEMORY || kind == MX_INTERRUPTED)
        return 1;
    mx_error_clear();
    if (size_failed(r, e) || row_failed(r, e))
        return 1;
    /* What is bad is the file, whatever an operation finds wrong with its argument. */
    mx_fail_as(kind == MX_INDEX || kind == MX_AXIS ? MX_VALUE : kind, "[import_function] %s: byte %llu: %.*s: %s",
               r->c.label, (unsigned long long)e->at, e->name_length < 60 ? (int)e->name_length : 60, e->name, message);
    return 1;
}

static int check_result(const struct running *r, const struct mlxfn_entry *e, int k, mx *y, bool settled)
{
    const struct spec *s = &e->spec[k];
    if (is_nil(*y))
        return mx_failed() ? entry_failed(r, e)
                           : bad_file(&r->c, e->at, "%.*s gave nothing", (int)e->name_length, e->name);
    if (settled && !fits_spec(*y, s))
        return bad_file(&r->c, e->at, "%.*s: the file declares the shape %s, and the operands give %s",
                        e->name_length < 60 ? (int)e->name_length : 60, e->name, shape_text(s->ndim, s->shape),
                        shape_of(*y));
    if ((*y)->dtype != s->dtype)
        *y = mx_astype(*y, s->dtype);
    return is_nil(*y);
}

static int primitive(struct running *r, const struct mlxfn_entry *e)
{
    mx *x = mx_malloc((2 * (size_t)e->nin + (size_t)e->nout + 1) * sizeof *x);
    mx *narrow = x + e->nin, *y = narrow + e->nin;
    if (!x)
        return 1;
    int failed = 0;
    bool settled = true; /* the operands have the declared shapes */
    for (int i = 0; i < e->nin && !failed; i++) {
        int *k = id_find(&r->at, e->in[i]);
        if (!k) {
            mx_fail("[import_function] %s: byte %llu: operand %d is no value that came before", r->c.label,
                    (unsigned long long)e->at, i);
            failed = 1;
            break;
        }
        x[i] = r->v[*k].x;
        narrow[i] = r->v[*k].narrow;
        r->v[*k].read = true;
        settled = settled && (!r->again || fits_spec(x[i], r->v[*k].declared));
    }
    if (!failed && !e->p && !e->extension) {
        mx_fail("[import_function] %s: byte %llu: Unable to deserialize primitive %.*s: no library that is registered "
                "has it (mlx_register_library; in Python, import its module first)",
                r->c.label, (unsigned long long)e->at, e->name_length < 80 ? (int)e->name_length : 80, e->name);
        failed = 1;
    }
    if (!failed && !settled && e->p && !e->p->follows) {
        mx_fail("[import_function] %s cannot infer output shapes: it was exported for operands of other shapes",
                e->p->name);
        failed = 1;
    }
    if (!failed) {
        bool hold = settled && !(shapeless() && e->p && e->p->follows);
        struct building b = {
            e->p, &e->state, r->f->version, e->nin, e->nout, x, narrow, e->spec, hold ? e->spec : NULL
        };
        for (int i = 0; i < e->nin && e->p && !e->p->follows; i++)
            if (x[i]->tracer)
                shapes_matter(e->p->name);
        if (e->p)
            e->p->build(&b, y);
        else
            extension_build(e->extension, e->state.v[0].s, e->state.v[0].n, e->nin, x, e->nout, y);
        bool broadcast = e->p && e->p->build == build_Broadcast && e->nin == 1;
        for (int k = 0; k < e->nout && !failed; k++)
            failed = check_result(r, e, k, &y[k], settled) ||
                     define(r, e->out[k], y[k], broadcast ? narrow[0] : y[k], &e->spec[k]);
    }
    free(x);
    return failed;
}

static int run_imported_entry(struct running *r)
{
    struct mlxfn_entry e;
    r->entry = r->c.at;
    int failed = read_entry(&r->c, r->f->version, known_to_file, r, &e);
    if (!failed && e.kind == A_CONSTANT)
        failed = imported_constant(r, &e);
    else if (!failed && e.kind == A_PRIMITIVE)
        failed = primitive(r, &e);
    else if (!failed && !id_find(&r->at, e.id)) {
        mx_fail("[import_function] %s: byte %llu: an entry for an input that there is not", r->c.label,
                (unsigned long long)e.at);
        failed = 1;
    }
    entry_free(&e);
    return failed;
}

static int run_trace(struct running *r, const mx in[], struct mx_list *out)
{
    int failed = 0;
    for (int i = 0; i < r->t->n_in && !failed; i++) failed = define(r, r->t->in_ids[i], in[i], in[i], &r->t->in[i]);
    r->c.at = r->t->tape;
    for (r->left = r->t->entries; r->left && !failed;) r->left--, failed = run_imported_entry(r);
    for (int i = r->t->n_in; i < r->n && shapeless() && !failed; i++)
        failed = !r->v[i].read && r->v[i].x->tracer && is_nil(shapeless_check(r->v[i].x));
    for (int k = 0; k < r->t->n_out && !failed; k++) {
        int *at = id_find(&r->at, r->t->out_ids[k]);
        if (at) {
            failed = list_push(out, r->v[*at].x);
            continue;
        }
        mx_fail("[import_function] %s: byte %llu: output %d is no value of its trace", r->c.label,
                (unsigned long long)r->t->tape, k);
        failed = 1;
    }
    for (int i = 0; i < r->n; i++) free(r->v[i].own);
    free(r->v);
    id_free(&r->at);
    return failed;
}

/* ---- opening */

static int read_function(struct imported *f, struct cursor *c, struct function *fn)
{
    struct mx_list in = { 0 }, out = { 0 };
    int failed = read_trace(c, f->version, &fn->t);
    trace_begin();
    struct shapeless_trace *said = shapeless_begin(false);
    failed = failed || !said;
    {
        MX_SCOPE(NULL);
        for (int i = 0; i < fn->t.n_in && !failed; i++)
            failed = list_push(&in, graph_placeholder(fn->t.in[i].dtype, fn->t.in[i].ndim, fn->t.in[i].shape));
        struct running r = { .f = f, .t = &fn->t, .c = *c };
        failed = failed || run_trace(&r, (mx *)in.v, &out);
        c->at = r.c.at;
    }
    shapeless_free(said);
    fn->g = failed ? NULL : graph_of(in.n, (mx *)in.v, out.n, (mx *)out.v);
    trace_end();
    list_clear(&in);
    list_clear(&out);
    return !fn->g || graph_hand_out(fn->g);
}

static int read_all(struct imported *f)
{
    struct cursor c = { f->file->source.bytes, 0, f->file->source.size, f->label };
    struct mlxfn_header h;
    if (read_header(&c, &h))
        return 1;
    if (h.number < 23000 - 1000) { /* layouts from before are not known here */
        mx_fail_as(MX_RUNTIME, "[import_function] %s: written by version %.*s; 0.22 is the oldest that is read",
                   f->label, (int)(h.version_length < 40 ? h.version_length : 40), h.version);
        return 1;
    }
    f->version = h.number;
    f->shapeless = h.shapeless;
    f->metadata_length = h.metadata_length;
    if (!(f->metadata = mx_malloc(h.metadata_length + 1)))
        return 1;
    memcpy(f->metadata, h.metadata, h.metadata_length);
    f->metadata[h.metadata_length] = 0;
    int cap = 0;
    for (int i = 0; i < h.count && i < f->file->count; i++) {
        struct function *all = mx_grown(f->traces, f->n, &cap, sizeof *all);
        if (!all)
            return 1;
        f->traces = all;
        all[f->n++] = (struct function){ 0 };
        if (read_function(f, &c, &all[i]))
            return 1;
    }
    return 0;
}

/* Takes the file over, also on failure. */
static struct imported *imported_of(struct file *file, const char *label)
{
    struct imported *f = file ? mx_malloc(sizeof *f) : NULL;
    if (!f) {
        if (file)
            object_release(&file->source.object);
        return NULL;
    }
    *f = (struct imported){ .file = file, .label = mx_strdup(label) };
    if (!f->label || read_all(f)) {
        imported_release(f);
        return NULL;
    }
    return f;
}

struct imported *imported_open(const char *path)
{
    struct file *file = open_file(path);
    return file ? imported_of(file, path) : NULL;
}

struct imported *imported_of_bytes(const void *data, size_t n, const char *label)
{
    uint8_t *copy = mx_malloc(n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, data, n);
    return imported_of(file_of(copy, n, false, INT_MAX), label);
}

void imported_release(struct imported *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->n; i++) {
        trace_free(&f->traces[i].t);
        if (f->traces[i].g)
            object_release(&f->traces[i].g->object);
    }
    free(f->traces);
    list_clear(&f->constants);
    id_free(&f->known);
    free(f->first);
    free(f->label);
    free(f->metadata);
    object_release(&f->file->source.object);
    free(f);
}

const char *imported_metadata(const struct imported *f, size_t *length)
{
    *length = f->metadata_length;
    return f->metadata;
}

/* ---- calling */

struct import_arguments {
    int n_pos, n_keys;
    const char *const *keys;
    const mx *x;
};

static bool trace_takes(const struct imported *f, const struct mlxfn_trace *t, const struct import_arguments *a)
{
    if (a->n_keys != t->n_keys || a->n_pos + a->n_keys != t->n_in)
        return false;
    for (int i = 0; i < t->n_keys; i++)
        if (strcmp(t->keys[i], a->keys[i]))
            return false;
    for (int i = 0; i < t->n_in; i++)
        if (a->x[i]->dtype != t->in[i].dtype || a->x[i]->ndim != t->in[i].ndim ||
            (!f->shapeless && !fits_spec(a->x[i], &t->in[i])))
            return false;
    return true;
}

/* "  x of shape (2,3) and type float32" */
static void put_argument(struct bytes *b, const char *key, int i, int ndim, const int *shape, enum dtype t)
{
    if (key)
        put_format(b, "\n    \"%.60s\": ", key);
    else
        put_format(b, "\n    %d: ", i);
    put_format(b, "%s %s", shape_text(ndim, shape), dtype_name(t));
}

/* The first thing in which a trace differs from what was given. */
static void put_difference(struct bytes *b, const struct imported *f, const struct mlxfn_trace *t,
                           const struct import_arguments *a)
{
    int n_pos = t->n_in - t->n_keys;
    if (n_pos != a->n_pos) {
        put_format(b, "\n    differs: %d positional inputs, got %d", n_pos, a->n_pos);
        return;
    }
    for (int i = 0; i < t->n_keys || i < a->n_keys; i++) {
        int order = i >= t->n_keys ? 1 : i >= a->n_keys ? -1 : strcmp(t->keys[i], a->keys[i]);
        if (order)
            put_format(b,
                       order < 0 ? "\n    differs: the keyword \"%.60s\" is missing"
                                 : "\n    differs: there is no keyword \"%.60s\"",
                       order < 0 ? t->keys[i] : a->keys[i]);
        if (order)
            return;
    }
    for (int i = 0; i < t->n_in; i++) {
        const struct spec *s = &t->in[i];
        mx x = a->x[i];
        char name[80];
        if (i < n_pos)
            snprintf(name, sizeof name, "input %d", i);
        else
            snprintf(name, sizeof name, "\"%.60s\"", t->keys[i - n_pos]);
        if (x->dtype != s->dtype)
            put_format(b, "\n    differs: %s is %s, got %s", name, dtype_name(s->dtype), dtype_name(x->dtype));
        else if (x->ndim != s->ndim)
            put_format(b, "\n    differs: %s has %d dimensions, got %d", name, s->ndim, x->ndim);
        else if (!f->shapeless && !fits_spec(x, s))
            put_format(b, "\n    differs: %s has shape %s, got %s", name, shape_text(s->ndim, s->shape), shape_of(x));
        else
            continue;
        return;
    }
}

static int no_match(const struct imported *f, const struct import_arguments *a)
{
    enum { LISTED = 24 };
    struct bytes b = { 0 };
    put_format(&b, "[import_function::call] No trace of ");
    put_bytes(&b, f->label, strlen(f->label));
    put_format(&b, " takes these arguments.  It has %d:", f->n);
    for (int i = 0; i < f->n && i < LISTED; i++) {
        const struct mlxfn_trace *t = &f->traces[i].t;
        put_format(&b, "\n  %d. %d positional and %d keyword inputs%s", i + 1, t->n_in - t->n_keys, t->n_keys,
                   f->shapeless ? ", of any shape of these ranks" : "");
        for (int k = 0; k < t->n_in; k++) {
            int key = k - (t->n_in - t->n_keys);
            put_argument(&b, key >= 0 ? t->keys[key] : NULL, k, t->in[k].ndim, t->in[k].shape, t->in[k].dtype);
        }
        put_difference(&b, f, t, a);
    }
    if (f->n > LISTED)
        put_format(&b, "\n  and %d more", f->n - LISTED);
    put_format(&b, "\n  given: %d positional and %d keyword inputs", a->n_pos, a->n_keys);
    for (int k = 0; k < a->n_pos + a->n_keys; k++)
        put_argument(&b, k >= a->n_pos ? a->keys[k - a->n_pos] : NULL, k, a->x[k]->ndim, a->x[k]->shape,
                     a->x[k]->dtype);
    put_u8(&b, 0);
    if (!b.failed)
        mx_fail("%s", (char *)b.v);
    free(b.v);
    return 1;
}

static bool as_traced(const struct mlxfn_trace *t, const struct import_arguments *a)
{
    for (int i = 0; i < t->n_in; i++)
        if (!fits_spec(a->x[i], &t->in[i]))
            return false;
    return true;
}

/* Is it a constant of the file or a view of one, made at once or to be made? */
static bool keeps(const struct imported *f, mx x)
{
    for (;; x = x->node->in[node_viewed(x->node, x->out)]) {
        for (int k = 0; k < f->constants.n; k++) {
            mx constant = f->constants.v[k].it;
            if (x == constant || (x->status == READY && x->buf == constant->buf))
                return true;
        }
        if (x->status != LAZY || !x->node || !(x->node->op->traits & VIEW))
            return false;
    }
}

/* As graph_hand_out says. */
static int hand_out(const struct imported *f, struct mx_list *y, int from)
{
    for (int i = from; i < y->n && !mx_failed(); i++)
        if (keeps(f, y->v[i].it))
            mx_keep(&y->v[i], mx_duplicate(y->v[i].it));
    return mx_failed();
}

static int call_imported(struct imported *f, const struct import_arguments *a, struct mx_list *y)
{
    for (int i = 0; i < a->n_pos + a->n_keys; i++)
        if (is_nil(a->x[i]))
            return 1;
    for (int i = 0; i < f->n; i++) {
        struct function *fn = &f->traces[i];
        if (!trace_takes(f, &fn->t, a))
            continue;
        if (!f->shapeless)
            shapes_matter("import_function");
        if (as_traced(&fn->t, a) && !(f->shapeless && shapeless()))
            return graph_call(fn->g, fn->t.n_in, a->x, y);
        MX_SCOPE(NULL);
        struct running r = { .f = f, .t = &fn->t, .again = true };
        r.c = (struct cursor){ f->file->source.bytes, 0, f->file->source.size, f->label };
        int from = y->n;
        return run_trace(&r, a->x, y) || hand_out(f, y, from);
    }
    return no_match(f, a);
}

int imported_call(struct imported *f, int n_pos, int n_keys, const char *const keys[], const mx x[], struct mx_list *y)
{
    const char **sorted = mx_malloc(((size_t)n_keys + 1) * sizeof *sorted);
    mx *in = sorted ? mx_malloc(((size_t)(n_pos + n_keys) + 1) * sizeof *in) : NULL;
    int failed = !in;
    if (in) {
        if (n_keys)
            memcpy(sorted, keys, (size_t)n_keys * sizeof *sorted);
        if (n_pos + n_keys)
            memcpy(in, x, (size_t)(n_pos + n_keys) * sizeof *in);
        for (int i = 1; i < n_keys; i++)
            for (int k = i; k > 0 && strcmp(sorted[k - 1], sorted[k]) > 0; k--) {
                const char *key = sorted[k];
                mx v = in[n_pos + k];
                sorted[k] = sorted[k - 1], sorted[k - 1] = key;
                in[n_pos + k] = in[n_pos + k - 1], in[n_pos + k - 1] = v;
            }
        failed = call_imported(f, &(struct import_arguments){ n_pos, n_keys, sorted, in }, y);
    }
    free(sorted);
    free(in);
    return failed;
}

/* ---- looking at a file: nothing is built, and no constant is touched */

struct looking {
    struct cursor c;
    struct bytes b;
    struct id_table constants;
    int version, n_constants;
    struct bytes constants_text;
};

static bool known_to_looker(void *ctx, uint64_t id) { return id_find(&((struct looking *)ctx)->constants, id); }

struct count {
    char name[64];
    uint64_t n;
};

static int count_operation(const struct mlxfn_entry *e, int *n, int *cap, struct count **all)
{
    size_t length = e->name_length < 63 ? e->name_length : 63;
    for (int i = 0; i < *n; i++)
        if (!strncmp((*all)[i].name, e->name, length) && !(*all)[i].name[length]) {
            (*all)[i].n++;
            return 0;
        }
    struct count *more = mx_grown(*all, *n, cap, sizeof *more);
    if (!more)
        return 1;
    *all = more;
    more[*n] = (struct count){ .n = 1 };
    memcpy(more[*n].name, e->name, length);
    ++*n;
    return 0;
}

static void put_spec_json(struct bytes *b, const struct spec *s)
{
    put_format(b, "{\"shape\":");
    put_json_shape(b, s->ndim, s->shape);
    put_format(b, ",\"dtype\":\"%s\"}", dtype_name(s->dtype));
}

static int look_at_tape(struct looking *l, const struct mlxfn_trace *t, struct id_table *specs, struct spec **out)
{
    struct count *counts = NULL;
    int n = 0, cap = 0, failed = 0, known = 0, known_cap = 0;
    struct spec *all = NULL;
    uint64_t n_constants = 0;
    for (int i = 0; i < t->n_in && !failed; i++) {
        struct spec *more = mx_grown(all, known, &known_cap, sizeof *more);
        failed = !more;
        if (more) {
            (all = more)[known] = t->in[i];
            failed = id_put(specs, t->in_ids[i], known++);
        }
    }
    for (uint64_t i = 0; i < t->entries && !failed; i++) {
        struct mlxfn_entry e;
        failed = read_entry(&l->c, l->version, known_to_looker, l, &e);
        for (int k = 0; k < e.nout && !failed; k++) {
            uint64_t id = e.kind == A_PRIMITIVE ? e.out[k] : e.id;
            struct spec *more = mx_grown(all, known, &known_cap, sizeof *more);
            failed = !more;
            if (!more)
                break;
            (all = more)[known] = e.spec[k];
            if (!id_find(specs, id))
                failed = id_put(specs, id, known++);
        }
        if (!failed && e.kind == A_PRIMITIVE)
            failed = count_operation(&e, &n, &cap, &counts);
        if (!failed && e.kind == A_CONSTANT) {
            bool pad = e.id > UINT64_MAX / 2 && e.nout && e.spec->dtype == DT_uint8 && e.spec->ndim == 1;
            n_constants += !pad;
            if (e.nout) {
                failed = id_put(&l->constants, e.id, l->n_constants);
                if (!pad) {
                    put_format(&l->constants_text, l->n_constants++ ? ",{\"shape\":" : "{\"shape\":");
                    put_json_shape(&l->constants_text, e.spec->ndim, e.spec->shape);
                    put_format(&l->constants_text, ",\"dtype\":\"%s\",\"bytes\":%llu,\"offset\":%llu}",
                               dtype_name(e.spec->dtype), (unsigned long long)e.bytes, (unsigned long long)e.data);
                }
            }
        }
        entry_free(&e);
    }
    if (!failed) {
        put_format(&l->b, ",\"operations\":{");
        for (int i = 0; i < n; i++) {
            put_format(&l->b, i ? "," : "");
            put_json_text(&l->b, counts[i].name, strlen(counts[i].name));
            put_format(&l->b, ":%llu", (unsigned long long)counts[i].n);
        }
        put_format(&l->b, "},\"constants\":%llu", (unsigned long long)n_constants);
    }
    free(counts);
    *out = all;
    return failed;
}

static int look_at_trace(struct looking *l)
{
    struct mlxfn_trace t;
    struct id_table specs = { 0 };
    struct spec *all = NULL;
    int failed = read_trace(&l->c, l->version, &t), n_pos = t.n_in - t.n_keys;
    if (!failed) {
        put_format(&l->b, "{\"inputs\":[");
        for (int i = 0; i < n_pos; i++) {
            put_format(&l->b, i ? "," : "");
            put_spec_json(&l->b, &t.in[i]);
        }
        put_format(&l->b, "],\"keywords\":{");
        for (int i = 0; i < t.n_keys; i++) {
            put_format(&l->b, i ? "," : "");
            put_json_text(&l->b, t.keys[i], strlen(t.keys[i]));
            put_format(&l->b, ":");
            put_spec_json(&l->b, &t.in[n_pos + i]);
        }
        put_format(&l->b, "}");
        failed = look_at_tape(l, &t, &specs, &all);
    }
    if (!failed) {
        put_format(&l->b, ",\"outputs\":[");
        for (int k = 0; k < t.n_out && !failed; k++) {
            int *at = id_find(&specs, t.out_ids[k]);
            put_format(&l->b, k ? "," : "");
            if (at)
                put_spec_json(&l->b, &all[*at]);
            else
                put_format(&l->b, "null");
        }
        put_format(&l->b, "]}");
    }
    free(all);
    id_free(&specs);
    trace_free(&t);
    return failed;
}

char *inspect_file(const char *path)
{
    struct file *file = open_file(path);
    if (!file)
        return NULL;
    struct looking l = { .c = { file->source.bytes, 0, file->source.size, path } };
    struct mlxfn_header h;
    int failed = read_header(&l.c, &h);
    if (!failed) {
        l.version = h.number;
        put_format(&l.b, "{\"version\":");
        put_json_text(&l.b, h.version, h.version_length);
        put_format(&l.b, ",\"shapeless\":%s,\"metadata\":", h.shapeless ? "true" : "false");
        put_json_text(&l.b, h.metadata, h.metadata_length);
        put_format(&l.b, ",\"bytes\":%llu,\"traces\":[", (unsigned long long)file->source.size);
    }
    for (int i = 0; i < h.count && i < file->count && !failed; i++) {
        put_format(&l.b, i ? "," : "");
        failed = look_at_trace(&l);
    }
    put_format(&l.b, "],\"constants\":[");
    put_bytes(&l.b, l.constants_text.v, l.constants_text.n);
    put_format(&l.b, "]}");
    put_u8(&l.b, 0);
    failed = failed || l.b.failed || l.constants_text.failed;
    id_free(&l.constants);
    free(l.constants_text.v);
    object_release(&file->source.object);
    if (!failed)
        return (char *)l.b.v;
    free(l.b.v);
    return NULL;
}
