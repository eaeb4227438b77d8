/* c_graph_utils.c: graphs as text.
 *
 * A namer is a hash table from arrays, which it keeps so that an address stands for one array, to
 * names.  Linear probing, never more than half full. */
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "core/shape.h"
#include "transform/walk.h"

enum { NAME = 16 };

struct named {
    mx_own array; /* empty: a free place */
    char *name;
};

struct namer {
    size_t n, cap, letters; /* names, places (a power of two or none), names made up so far */
    struct named *v;
};

/* Number i of A, ..., Z, AA, AB, ... */
static void letters(size_t i, char out[NAME])
{
    char reversed[NAME];
    int n = 0;
    for (i++; i; i = (i - 1) / 26) reversed[n++] = (char)('A' + (i - 1) % 26);
    for (int k = 0; k < n; k++) out[k] = reversed[n - 1 - k];
    out[n] = 0;
}

/* Where the array is or would be. */
static struct named *named_slot(const struct namer *m, mx x)
{
    size_t mask = m->cap - 1, i = ((uintptr_t)x >> 4) * (size_t)0x9e3779b97f4a7c15u & mask;
    while (m->v[i].array.it && m->v[i].array.it != x) i = (i + 1) & mask;
    return &m->v[i];
}

static const char *name_in(const struct namer *m, mx x) { return m && m->cap ? named_slot(m, x)->name : NULL; }

static int namer_make_room(struct namer *m)
{
    if (2 * (m->n + 1) <= m->cap)
        return 0;
    struct namer g = { m->n, m->cap ? 2 * m->cap : 8, m->letters, NULL };
    if (!(g.v = mx_malloc(g.cap * sizeof *g.v)))
        return 1;
    memset(g.v, 0, g.cap * sizeof *g.v);
    for (size_t i = 0; i < m->cap; i++)
        if (m->v[i].array.it)
            *named_slot(&g, m->v[i].array.it) = m->v[i];
    free(m->v);
    *m = g;
    return 0;
}

/* The name that the array has from now on, NULL after a failure. */
static const char *call_it(struct namer *m, mx x, const char *name)
{
    char *copy = namer_make_room(m) ? NULL : mx_malloc(strlen(name) + 1);
    if (!copy)
        return NULL;
    strcpy(copy, name);
    struct named *at = named_slot(m, x);
    if (!at->array.it) {
        mx_keep(&at->array, x);
        m->n++;
    }
    free(at->name);
    return at->name = copy;
}

static struct namer *in_namer(const char *func, mlx_node_namer namer)
{
    if (!namer.ctx)
        capi_refuse(func, "a namer", "namer", "an empty handle");
    return namer.ctx;
}

mlx_node_namer mlx_node_namer_new(void)
{
    struct namer *m = mx_malloc(sizeof *m);
    if (m)
        *m = (struct namer){ 0 };
    else
        capi_report();
    return (mlx_node_namer){ capi_made_or(HANDLE_node_namer, m, __func__, free) };
}

int mlx_node_namer_free(mlx_node_namer namer)
{
    struct namer *m = namer.ctx;
    capi_gone(HANDLE_node_namer, m);
    for (size_t i = 0; m && i < m->cap; i++) {
        mx_drop(&m->v[i].array);
        free(m->v[i].name);
    }
    if (m)
        free(m->v);
    free(m);
    return 0;
}

int mlx_node_namer_set_name(mlx_node_namer namer, const mlx_array arr, const char *name)
{
    MX_SCOPE(NULL);
    struct namer *m = in_namer(__func__, namer);
    mx x = capi_in(arr);
    if (m && !is_nil(x) && capi_given(name, "a name"))
        call_it(m, x, name);
    return capi_end();
}

int mlx_node_namer_get_name(const char **name, mlx_node_namer namer, const mlx_array arr)
{
    MX_SCOPE(NULL);
    struct namer *m = in_namer(__func__, namer);
    mx x = capi_in(arr);
    if (!m || is_nil(x) || !capi_out(name))
        return capi_report();
    const char *known = name_in(m, x);
    if (!known) {
        char next[NAME];
        letters(m->letters, next);
        known = call_it(m, x, next);
        m->letters += known != NULL;
    }
    if (known)
        *name = known;
    return capi_end();
}

/* ---- writing */

struct drawing {
    FILE *os;
    struct recording graph;
    const struct namer *namer;
    int *made_up; /* by value: the number of its letters, or -1 */
    size_t next;
    int n_outputs;
};

/* The name of a value, good until the next call. */
static const char *name_of_value(struct drawing *d, int value, char room[NAME])
{
    const char *known = name_in(d->namer, d->graph.values[value].it);
    if (known)
        return known;
    if (d->made_up[value] < 0)
        d->made_up[value] = (int)d->next++;
    letters((size_t)d->made_up[value], room);
    return room;
}

static void quoted(FILE *os, const char *name)
{
    fputc('"', os);
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            fputc('\\', os);
        fputc(*name, os);
    }
    fputc('"', os);
}

static void write_source(struct drawing *d, int value)
{
    char room[NAME];
    fprintf(d->os, "{ rank=source; ");
    quoted(d->os, name_of_value(d, value, room));
    fprintf(d->os, "; }\n");
}

/* is_sink: outputs that nothing is made of. */
static void write_dot(struct drawing *d, const bool is_sink[], const bool is_made[])
{
    char room[NAME];
    struct recording *g = &d->graph;
    fprintf(d->os, "digraph {\n");
    bool *seen = mx_malloc((size_t)(g->n_values + 1) * sizeof *seen);
    for (int i = 0; seen && i < g->n_values; i++) seen[i] = false;
    for (int i = 0; seen && i < g->n; i++) {
        struct node *n = g->entries[i].node;
        const int *numbers = g->numbers + g->entries[i].at;
        for (int k = 0; k < n->nin; k++)
            if (!is_made[numbers[k]] && !seen[numbers[k]]) {
                seen[numbers[k]] = true;
                write_source(d, numbers[k]);
            }
        fprintf(d->os, "{ %d [label =\"%s\", shape=rectangle]; }\n", i, n->op->label);
        for (int k = 0; k < n->nin; k++) {
            quoted(d->os, name_of_value(d, numbers[k], room));
            fprintf(d->os, " -> %d\n", i);
        }
        for (int k = n->nin; k < n->nin + n->nout; k++) {
            fprintf(d->os, is_sink[numbers[k]] ? "{ rank=sink; " : "{ ");
            quoted(d->os, name_of_value(d, numbers[k], room));
            fprintf(d->os, "; }\n%d -> ", i);
            quoted(d->os, name_of_value(d, numbers[k], room));
            fputc('\n', d->os);
        }
    }
    for (int i = 0; seen && i < g->n_values; i++)
        if (!is_made[i] && !seen[i]) /* drawn because it was asked for */
            write_source(d, i);
    fprintf(d->os, "}\n");
    free(seen);
}

static void describe_value(struct drawing *d, int value)
{
    char room[NAME];
    mx x = d->graph.values[value].it;
    fprintf(d->os, "%s [%s, %s]", name_of_value(d, value, room), shape_of(x), dtype_name(x->dtype));
}

static void write_lines(struct drawing *d, const bool is_sink[], const bool is_made[])
{
    struct recording *g = &d->graph;
    (void)is_sink;
    fprintf(d->os, "Inputs:");
    for (int i = 0, first = 1; i < g->n_values; i++)
        if (!is_made[i]) {
            fprintf(d->os, first ? " " : ", ");
            describe_value(d, i);
            first = 0;
        }
    fputc('\n', d->os);
    for (int i = 0; i < g->n; i++) {
        struct node *n = g->entries[i].node;
        const int *numbers = g->numbers + g->entries[i].at;
        char args[256], room[NAME];
        node_args_text(n, args, sizeof args);
        fprintf(d->os, "%s", n->op->label);
        if (args[0])
            fprintf(d->os, "(%s)", args);
        for (int k = 0; k < n->nin; k++) fprintf(d->os, "%s%s", k ? ", " : " ", name_of_value(d, numbers[k], room));
        fprintf(d->os, " ->");
        for (int k = n->nin; k < n->nin + n->nout; k++) {
            fprintf(d->os, k > n->nin ? ", " : " ");
            describe_value(d, numbers[k]);
        }
        fputc('\n', d->os);
    }
    fprintf(d->os, "Outputs:");
    for (int i = 0; i < d->n_outputs; i++) {
        char room[NAME];
        fprintf(d->os, "%s%s", i ? ", " : " ", name_of_value(d, g->roots[i], room));
    }
    fputc('\n', d->os);
}

static int draw_graph(const char *func, FILE *os, mlx_node_namer namer, mlx_vector_array outputs,
                      void write(struct drawing *d, const bool is_sink[], const bool is_made[]))
{
    int n = 0;
    char *text = NULL; /* first here: the stream may be one of a caller's functions, which may change the namer */
    size_t size = 0;
    struct drawing d = { .namer = namer.ctx };
    mx *x = capi_need(func, "a stream", "os", os) ? capi_arrays(func, "outputs", outputs, &n) : NULL;
    if (x && !record(&d.graph, n, x, 0, NULL, false)) {
        struct recording *g = &d.graph;
        size_t all = (size_t)g->n_values + 1;
        bool *flags = mx_malloc(2 * all * sizeof *flags);
        d.made_up = mx_malloc(all * sizeof *d.made_up);
        d.n_outputs = n;
        d.os = open_memstream(&text, &size);
        if (flags && d.made_up && d.os) {
            memset(flags, 0, 2 * all * sizeof *flags);
            for (size_t i = 0; i < all; i++) d.made_up[i] = -1;
            for (int i = 0; i < n; i++) flags[g->roots[i]] = true;
            for (int i = 0; i < g->n; i++) {
                const struct node *e = g->entries[i].node;
                for (int k = 0; k < e->nin; k++) flags[g->numbers[g->entries[i].at + k]] = false;
                for (int k = 0; k < e->nout; k++) flags[all + (size_t)g->numbers[g->entries[i].at + e->nin + k]] = true;
            }
            write(&d, flags, flags + all);
        }
        bool torn = d.os && ferror(d.os);
        if (!d.os || fclose(d.os) || torn || !text)
            mx_fail_memory(size);
        free(flags);
        free(d.made_up);
        recording_free(g);
    }
    capi_arrays_free(n, x);
    if (!mx_failed() && fwrite(text, 1, size, os) < size)
        mx_fail("[%s] expected a stream that can be written to, got one that fails", func + strlen("mlx_"));
    free(text);
    return capi_end();
}

int mlx_export_to_dot(FILE *os, const mlx_node_namer namer, const mlx_vector_array outputs)
{
    return draw_graph(__func__, os, namer, outputs, write_dot);
}

int mlx_print_graph(FILE *os, const mlx_node_namer namer, const mlx_vector_array outputs)
{
    return draw_graph(__func__, os, namer, outputs, write_lines);
}
