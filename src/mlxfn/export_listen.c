/* export_listen.c: traces told to a listener, as JSON. */
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "mlxfn/export_parts.h"

/* A, B, ..., Z, AA, AB, ... */
static void put_name(struct bytes *b, int number)
{
    char name[16];
    int n = 0;
    for (int64_t k = (int64_t)number + 1; k > 0; k = (k - 1) / 26) name[n++] = (char)('A' + (k - 1) % 26);
    put_format(b, "\"");
    while (n > 0) put_bytes(b, &name[--n], 1);
    put_format(b, "\"");
}

struct telling {
    struct exporter *e;
    struct export_trace *t;
    int *names;
};

static int tell_listener(struct telling *w, struct bytes *b, int n, const mx constants[])
{
    put_u8(b, 0);
    int failed = b->failed || w->e->listener->hear(w->e->listener, (char *)b->v, n, constants);
    b->n = 0;
    return failed;
}

static void put_values(struct telling *w, struct bytes *b, int n, const int values[], int first)
{
    put_format(b, "[");
    for (int k = 0; k < n; k++) {
        int v = values ? values[n ? (k + first) % n : 0] : k;
        mx x = w->t->g.r.values[v].it;
        if (w->names[v] < 0)
            w->names[v] = w->e->names++;
        put_format(b, k ? ",[" : "[");
        put_name(b, w->names[v]);
        put_format(b, ",");
        put_json_shape(b, x->ndim, x->shape);
        put_format(b, ",\"%s\"]", dtype_name(x->dtype));
    }
    put_format(b, "]");
}

static int tell_constants(struct telling *w, struct bytes *b, const bool *made)
{
    const struct recording *r = &w->t->g.r;
    struct mx_list all = { 0 };
    int failed = 0;
    put_format(b, "{\"type\":\"constants\",\"constants\":[");
    for (int v = w->t->g.n_in; v < r->n_values && !failed; v++) {
        mx x = r->values[v].it;
        if (made[v] || !x)
            continue;
        w->names[v] = export_known(w->e, x);
        if (w->names[v] >= 0)
            continue;
        w->names[v] = w->e->names++;
        put_format(b, all.n ? "," : "");
        put_name(b, w->names[v]);
        failed = list_push(&all, x);
    }
    put_format(b, "]}");
    failed = failed || tell_listener(w, b, all.n, (mx *)all.v);
    /* Known are those that the listener has taken. */
    for (int v = w->t->g.n_in; v < r->n_values && !failed; v++) {
        mx x = r->values[v].it;
        if (!made[v] && x && export_known(w->e, x) < 0)
            failed = id_put(&w->e->known, (uint64_t)(uintptr_t)x, w->names[v]) || list_push(&w->e->constants, x);
    }
    list_clear(&all);
    return failed;
}

static int tell_entry(struct telling *w, struct bytes *b, int i, mx x[], struct wire_form *f)
{
    const struct graph *g = &w->t->g;
    const struct node *n = g->r.entries[i].node;
    struct call c = export_call_of(g, i, (mx *)g->r.values, x);
    f->text = NULL;
    if (export_fate(w->e, g, i, &c, true, f) != WRITTEN)
        return mx_fail("[export_function] Unable to get state for primitive %s", n->op->label), 1;
    put_format(b, "{\"type\":\"primitive\",\"name\":\"%s\",\"inputs\":", f->name);
    put_values(w, b, n->nin, graph_reads(g, i), f->rotate);
    put_format(b, ",\"outputs\":");
    put_values(w, b, n->nout, graph_makes(g, i), 0);
    put_format(b, ",\"arguments\":");
    if (f->text)
        put_format(b, "[]");
    else
        put_json_state(b, f->format, &f->s);
    put_format(b, "}");
    free(f->text);
    return tell_listener(w, b, 0, NULL);
}

int export_tell(struct exporter *e, struct export_trace *t, int n_keys, const char *const keys[])
{
    const struct graph *g = &t->g;
    struct telling w = { e, t, mx_malloc(((size_t)g->r.n_values + 1) * sizeof(int)) };
    struct wire_form *f = w.names ? mx_malloc(sizeof *f) : NULL;
    mx *x = f ? mx_malloc((size_t)export_widest(g) * sizeof *x) : NULL;
    bool *made = x ? export_made(t) : NULL;
    struct bytes b = { 0 };
    int failed = !made;
    for (int v = 0; v < g->r.n_values && !failed; v++) w.names[v] = -1;
    if (!failed) {
        put_format(&b, "{\"type\":\"inputs\",\"inputs\":");
        put_values(&w, &b, g->n_in, NULL, 0);
        put_format(&b, "}");
        failed = tell_listener(&w, &b, 0, NULL);
    }
    if (!failed) {
        put_format(&b, "{\"type\":\"keyword_inputs\",\"keywords\":[");
        for (int k = 0; k < n_keys; k++) {
            put_format(&b, k ? ",[" : "[");
            put_json_text(&b, keys[k], strlen(keys[k]));
            put_format(&b, ",");
            put_name(&b, w.names[g->n_in - n_keys + k]);
            put_format(&b, "]");
        }
        put_format(&b, "]}");
        failed = tell_listener(&w, &b, 0, NULL);
    }
    for (int v = g->n_in; v < g->r.n_values && !failed; v++) /* constants keep their names */
        if (!made[v] && g->r.values[v].it)
            w.names[v] = export_known(e, g->r.values[v].it);
    if (!failed) {
        put_format(&b, "{\"type\":\"outputs\",\"outputs\":");
        put_values(&w, &b, g->n_out, g->r.roots, 0);
        put_format(&b, "}");
        failed = tell_listener(&w, &b, 0, NULL) || tell_constants(&w, &b, made);
    }
    for (int i = 0; i < g->r.n && !failed; i++) failed = !t->folded[i] && tell_entry(&w, &b, i, x, f);
    free(b.v);
    free(made);
    free(x);
    free(f);
    free(w.names);
    return failed;
}
