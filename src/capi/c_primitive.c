/* c_primitive.c: classes of primitives as operations of the graph.
 *
 * A class becomes a plugin (ops/plugin.h), whose rules call those of the class on handles.  They run
 * code that is not ours, so operands are owned meanwhile and what comes back is checked. */
#include "mlx/c/primitive.h"

#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "capi/primitive_run.h"
#include "core/buffer.h"
#include "core/shape.h"
#include "core/words.h"
#include "ops/ops.h"
#include "ops/rules.h"
#include "run/eval.h"
#include "transform/graph.h"

struct class_plugin {
    struct plugin plugin;
    struct mlx_primitive_class cls; /* of this library's size; what an older one did not have is NULL */
    char name[];
};

struct state {
    struct object object;
    const struct class_plugin *p;
    void *it;
};

static const struct class_plugin *primitive_of(const struct op *op) { return (const struct class_plugin *)op; }

static void *state_of(const struct call *c)
{
    return ((const struct state *)((const struct plugin_args *)c->args)->state)->it;
}

static const struct field plugin_args_fields[] = { FIELD(plugin_args, state), { 0 } };

/* ---- states */

static void state_destroy(struct object *o)
{
    struct state *s = (struct state *)o;
    if (s->it)
        mx_let_go(s->p->cls.destroy, s->it);
    free(s);
}

/* Takes `it` over, also where it fails. */
static struct object *state_new(const struct class_plugin *p, void *it)
{
    struct state *s = mx_malloc(sizeof *s);
    if (s)
        *s = (struct state){ { .refs = 1, .destroy = state_destroy }, p, it };
    else if (it)
        mx_let_go(p->cls.destroy, it);
    return s ? &s->object : NULL;
}

static bool equal_states(const struct op *op, const void *a, const void *b)
{
    const struct class_plugin *p = primitive_of(op);
    const struct state *u = (const struct state *)((const struct plugin_args *)a)->state;
    const struct state *v = (const struct state *)((const struct plugin_args *)b)->state;
    return u->it == v->it || (p->cls.is_equivalent && u->it && v->it && p->cls.is_equivalent(u->it, v->it));
}

static int state_text(const struct op *op, const void *args, char *out, size_t size)
{
    const struct class_plugin *p = primitive_of(op);
    const struct state *s = (const struct state *)((const struct plugin_args *)args)->state;
    return p->cls.print ? p->cls.print(s->it, out, size) : 0;
}

/* ---- rules */

static void no_rule(const struct op *op, const char *rule)
{
    mx_fail_as(MX_RUNTIME, "[%s] %s has no %s rule", rule, op->name, rule);
}

/* Keeps the failure of a rule that returned `status`; `before` as in capi_callback_failed. */
static void rule_failed(const struct op *op, const char *rule, int status, unsigned long before)
{
    if (capi_reports() != before)
        mx_fail_as(MX_USER, "a rule failed");
    else
        mx_fail_as(MX_RUNTIME, "[%s] expected the %s rule to return 0, got %d", op->name, rule, status);
}

/* Fails unless the rule gave n arrays, of the shapes of `like`. */
static bool good_results(const struct op *op, const char *rule, const struct mx_list *got, int n, const mx like[])
{
    if (mx_failed())
        return false;
    if (got->n != n)
        mx_fail("[%s] expected %d arrays from the %s rule of %s, got %d", rule, n, rule, op->name, got->n);
    for (int i = 0; i < n && !mx_failed(); i++)
        if (!same_shape(got->v[i].it, like[i]))
            mx_fail("[%s] array %d from the %s rule of %s: expected shape %s, got %s", rule, i, rule, op->name,
                    shape_of(like[i]), shape_of(got->v[i].it));
    return !mx_failed();
}

static mx lent_result(const struct mx_list *l, int i, mx like)
{
    mx_retain(l->v[i].it);
    return mx_astype(scope_lend(l->v[i].it), (enum dtype)like->dtype);
}

/* Some of the operands or their tangents, and which. */
struct chosen_operands {
    int n, *number;
    mx *x;
};

/* Room for `most`, in one block at x; false after a failure. */
static bool chosen_new(struct chosen_operands *c, int most)
{
    *c = (struct chosen_operands){ .x = mx_malloc(((size_t)most + 1) * (sizeof *c->x + sizeof *c->number)) };
    if (c->x)
        c->number = (int *)(c->x + most + 1);
    return c->x;
}

static void primitive_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct class_plugin *p = primitive_of(c->op);
    if (!p->cls.vjp) {
        no_rule(c->op, "vjp");
        return;
    }
    struct mx_list cts = { 0 }, out = { 0 };
    struct chosen_operands w;
    bool ok = chosen_new(&w, c->nin);
    for (int k = 0; k < c->nout && ok; k++) ok = !list_push(&cts, ct[k] ? ct[k] : mx_zeros_like(c->y[k]));
    for (int i = 0; i < c->nin && ok; i++)
        if (want[i]) {
            w.number[w.n] = i;
            w.x[w.n++] = c->x[i];
        }
    mlx_vector_array in = { ok ? capi_lend(c->nin, c->x) : NULL }, y = { ok ? capi_lend(c->nout, c->y) : NULL },
                     cot = { ok ? capi_lend(cts.n, (mx *)cts.v) : NULL };
    struct capi_result res;
    if (capi_result_open(&res) && in.ctx && y.ctx && cot.ctx && !mx_failed()) {
        unsigned long before = capi_reports();
        mlx_stream s = { scope_stream() };
        int status = p->cls.vjp(&res.vec, state_of(c), in, cot, w.number, (size_t)w.n, y, s);
        if (status)
            rule_failed(c->op, "vjp", status, before);
        else
            capi_result_push(&res, &out);
        if (good_results(c->op, "vjp", &out, w.n, w.x))
            for (int i = 0; i < w.n; i++) dx[w.number[i]] = lent_result(&out, i, w.x[i]);
    }
    capi_result_close(&res);
    capi_list_free(in.ctx);
    capi_list_free(y.ctx);
    capi_list_free(cot.ctx);
    list_clear(&cts);
    list_clear(&out);
    free(w.x);
}

static void primitive_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct class_plugin *p = primitive_of(c->op);
    if (!p->cls.jvp) {
        no_rule(c->op, "jvp");
        return;
    }
    struct mx_list out = { 0 };
    struct chosen_operands w;
    bool ok = chosen_new(&w, c->nin);
    for (int i = 0; i < c->nin && ok; i++)
        if (t[i]) {
            w.number[w.n] = i;
            w.x[w.n++] = t[i];
        }
    mlx_vector_array in = { ok ? capi_lend(c->nin, c->x) : NULL }, ts = { ok ? capi_lend(w.n, w.x) : NULL };
    struct capi_result res;
    if (capi_result_open(&res) && in.ctx && ts.ctx && !mx_failed()) {
        unsigned long before = capi_reports();
        mlx_stream s = { scope_stream() };
        int status = p->cls.jvp(&res.vec, state_of(c), in, ts, w.number, (size_t)w.n, s);
        if (status)
            rule_failed(c->op, "jvp", status, before);
        else
            capi_result_push(&res, &out);
        if (good_results(c->op, "jvp", &out, c->nout, c->y))
            for (int k = 0; k < c->nout; k++) dy[k] = lent_result(&out, k, c->y[k]);
    }
    capi_result_close(&res);
    capi_list_free(in.ctx);
    capi_list_free(ts.ctx);
    list_clear(&out);
    free(w.x);
}

/* Does the batch of this size lie where the rule says? */
static bool good_batch(const struct op *op, int k, mx y, int axis, int size)
{
    if (axis >= -1 && axis < y->ndim && (axis < 0 || y->shape[axis] == size))
        return true;
    mx_fail("[vmap] result %d from the vmap rule of %s: expected a batch of %d along an axis, got shape %s and axis %d",
            k, op->name, size, shape_of(y), axis);
    return false;
}

static void primitive_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct class_plugin *p = primitive_of(c->op);
    for (int k = 0; k < c->nout; k++) {
        y[k] = MX_NIL;
        yaxis[k] = -1;
    }
    if (!p->cls.vmap) {
        no_rule(c->op, "vmap");
        return;
    }
    int size = 0;
    for (int i = 0; i < c->nin; i++)
        if (axis[i] >= 0)
            size = c->x[i]->shape[axis[i]];
    struct mx_list out = { 0 };
    struct capi_axes axes;
    bool opened = capi_axes_open(&axes);
    mlx_vector_array in = { capi_lend(c->nin, c->x) };
    struct capi_result res;
    if (capi_result_open(&res) && opened && in.ctx) {
        unsigned long before = capi_reports();
        mlx_stream s = { scope_stream() };
        int status = p->cls.vmap(&res.vec, &axes.vec, state_of(c), in, axis, (size_t)c->nin, s);
        const struct list *l = axes.vec.ctx;
        if (status)
            rule_failed(c->op, "vmap", status, before);
        else
            capi_result_push(&res, &out);
        if (!mx_failed() && (out.n != c->nout || !l || l->n != (size_t)c->nout))
            mx_fail("[vmap] expected %d arrays and axes from the vmap rule of %s, got %d and %zu", c->nout, c->op->name,
                    out.n, l ? l->n : 0);
        for (int k = 0; k < c->nout && !mx_failed(); k++)
            if (good_batch(c->op, k, out.v[k].it, l->v[k].number, size)) {
                y[k] = lent_result(&out, k, out.v[k].it);
                yaxis[k] = l->v[k].number;
            }
    }
    capi_result_close(&res);
    capi_axes_close(&axes);
    capi_list_free(in.ctx);
    list_clear(&out);
}

/* ---- what results are */

static bool good_output(const char *name, int k, const mlx_output *o, struct spec *s)
{
    if ((unsigned)o->dtype >= DT_COUNT) {
        mx_fail("[%s] result %d: expected a dtype, got %d", name, k, (int)o->dtype);
        return false;
    }
    if (o->ndim < 0 || o->ndim > MX_MAX_NDIM) {
        mx_fail("[%s] result %d: expected 0 to %d dimensions, got %d", name, k, MX_MAX_NDIM, o->ndim);
        return false;
    }
    s->dtype = (enum dtype)o->dtype;
    s->ndim = o->ndim;
    memcpy(s->shape, o->shape, (size_t)o->ndim * sizeof(int));
    return shape_size(name, s->ndim, s->shape) >= 0; /* fails by itself */
}

static int primitive_shapes(const struct call *c, struct spec out[])
{
    const struct class_plugin *p = primitive_of(c->op);
    if (!p->cls.output_shapes) {
        mx_fail("[%s] the class has no output_shapes rule: expected to be told what the results are", c->op->name);
        return 1;
    }
    mlx_output *o = mx_malloc((size_t)c->nout * sizeof *o);
    mlx_vector_array in = { o ? capi_lend(c->nin, c->x) : NULL };
    if (in.ctx) {
        memset(o, 0, (size_t)c->nout * sizeof *o);
        /* The rule may look at shapes, which it follows. */
        struct shapeless_trace *said = shapeless_begin(false);
        unsigned long before = capi_reports();
        int status = said ? p->cls.output_shapes(state_of(c), in, o, (size_t)c->nout) : 1;
        shapeless_free(said);
        if (status)
            rule_failed(c->op, "output_shapes", status, before);
        for (int k = 0; k < c->nout && !mx_failed(); k++) good_output(c->op->name, k, &o[k], &out[k]);
    }
    free(o);
    capi_list_free(in.ctx);
    return mx_failed();
}

/* ---- evaluation */

static bool class_supports(const struct plugin *p, enum device_type on)
{
    const struct class_plugin *q = (const struct class_plugin *)p;
    return on == DEVICE_CPU ? q->cls.eval_cpu != NULL : q->cls.eval_gpu != NULL;
}

static int compute(const struct plugin *p, const struct plugin_run *r)
{
    const struct class_plugin *q = (const struct class_plugin *)p;
    const struct state *s = (const struct state *)r->args->state;
    struct mlx_run_ run;
    if (run_open(&run, p->op.name, r))
        return 1;
    unsigned long before = capi_reports();
    const char *outer = eval_forbid(p->op.name);
    int status = r->on == DEVICE_CPU ? q->cls.eval_cpu(s->it, &run) : q->cls.eval_gpu(s->it, &run);
    eval_forbid(outer);
    const char *message;
    if (status && capi_reports() != before && !mx_failed() && mlx_last_error(&message))
        mx_fail_as(MX_RUNTIME, "[%s] %s", p->op.name, message); /* for whoever waits, on a thread of its own */
    return run_close(&run, status);
}

/* ---- files */

static char *encode(const struct plugin *p, struct object *state, uint64_t *length)
{
    const struct class_plugin *q = (const struct class_plugin *)p;
    void *it = ((struct state *)state)->it;
    *length = 0;
    if (!p->infers) {
        mx_fail_as(MX_RUNTIME, "[export_function] %s has no output_shapes rule, without which files cannot be read",
                   p->op.name);
        return NULL;
    }
    if (!it)
        return mx_malloc(1);
    if (!q->cls.serialize) {
        mx_fail_as(MX_RUNTIME, "[export_function] %s has no serialize rule", p->op.name);
        return NULL;
    }
    size_t n = q->cls.serialize(it, NULL, 0);
    char *bytes = n < SIZE_MAX ? mx_malloc(n + 1) : NULL;
    if (!bytes) {
        mx_fail_memory(n);
        return NULL;
    }
    size_t again = q->cls.serialize(it, bytes, n);
    if (again == n) {
        *length = n;
        return bytes;
    }
    mx_fail_as(MX_RUNTIME, "[export_function] the serialize rule of %s wrote %zu bytes after it had said %zu",
               p->op.name, again, n);
    free(bytes);
    return NULL;
}

static struct object *decode(const struct plugin *p, const char *bytes, uint64_t length)
{
    const struct class_plugin *q = (const struct class_plugin *)p;
    void *it = NULL;
    if (!p->infers)
        mx_fail_as(MX_RUNTIME, "[import_function] %s has no output_shapes rule, which checks what files say",
                   p->op.name);
    else if (length && !q->cls.deserialize)
        mx_fail_as(MX_RUNTIME, "[import_function] %s has no deserialize rule", p->op.name);
    else if (q->cls.deserialize && !(it = q->cls.deserialize(bytes, (size_t)length)))
        mx_fail("[import_function] %s does not take its state of %llu bytes", p->op.name, (unsigned long long)length);
    return mx_failed() ? NULL : state_new(q, it);
}

/* ---- classes */

enum { NAME_MOST = 48 };

/* `func` is the public function's name, after "mlx_" that of the operation. */
static bool good_class(const char *func, const struct mlx_primitive_class *cls)
{
    if (!capi_need(func, "a class", "cls", cls))
        return false;
    if (cls->abi != MLX_PRIMITIVE_ABI)
        mx_fail_as(MX_RUNTIME,
                   "[%s] expected a class compiled for interface %d of primitives, which mlx %s has, "
                   "got one for %d",
                   func + 4, MLX_PRIMITIVE_ABI, MLX_VERSION, cls->abi);
    else if (cls->struct_size < offsetof(struct mlx_primitive_class, eval_cpu) ||
             cls->struct_size % sizeof cls->eval_cpu) /* of another version: more members or fewer, but whole ones */
        mx_fail("[%s] expected the size of a class in struct_size, got %zu", func + 4, cls->struct_size);
    else if (!cls->name || !is_identifier(cls->name, NAME_MOST))
        mx_fail("[%s] expected a name that is an identifier of up to %d characters, got '%s'", func + 4, NAME_MOST,
                cls->name ? cls->name : "NULL");
    return !mx_failed();
}

/* The same rules? */
static bool same_class(const struct mlx_primitive_class *a, const struct mlx_primitive_class *b)
{
    return a->eval_cpu == b->eval_cpu && a->eval_gpu == b->eval_gpu && a->vjp == b->vjp && a->jvp == b->jvp &&
           a->vmap == b->vmap && a->is_equivalent == b->is_equivalent && a->print == b->print &&
           a->output_shapes == b->output_shapes && a->serialize == b->serialize && a->deserialize == b->deserialize &&
           a->destroy == b->destroy;
}

/* NULL after a failure. */
static const struct class_plugin *register_class(const char *func, const struct mlx_primitive_class *cls)
{
    if (!good_class(func, cls))
        return NULL;
    size_t length = strlen(cls->name);
    struct mlx_primitive_class whole;
    memset(&whole, 0, sizeof whole);
    memcpy(&whole, cls, cls->struct_size < sizeof whole ? cls->struct_size : sizeof whole);
    whole.struct_size = sizeof whole;
    const struct class_plugin *there = (const struct class_plugin *)plugin_named(cls->name, length);
    if (!there) {
        struct class_plugin *p = mx_malloc(sizeof *p + length + 1);
        if (!p)
            return NULL;
        memset(p, 0, sizeof *p);
        memcpy(p->name, cls->name, length + 1);
        p->cls = whole;
        p->cls.name = p->name;
        p->plugin = (struct plugin){
            .op = { .id = OP_PLUGIN,
                    .name = p->name,
                    .label = p->name,
                    .dtypes = ANY,
                    .args_size = sizeof(struct plugin_args),
                    .fields = plugin_args_fields,
                    .shapes = primitive_shapes,
                    .vjp = primitive_vjp,
                    .jvp = primitive_jvp,
                    .vmap = primitive_vmap,
                    .args_equal = equal_states,
                    .args_text = state_text },
            .infers = cls->output_shapes != NULL,
            .supports = class_supports,
            .run = compute,
            .encode = encode,
            .decode = decode,
        };
        there = (const struct class_plugin *)plugin_add(&p->plugin);
        if (there != p)
            free(p);
    }
    if (!same_class(&there->cls, &whole))
        mx_fail("[%s] expected one class of the name %s, got another", func + 4, cls->name);
    return mx_failed() ? NULL : there;
}

int mlx_primitive_register(const struct mlx_primitive_class *cls)
{
    register_class(__func__, cls);
    return capi_end();
}

int mlx_primitive_is_registered(bool *res, const char *name)
{
    if (!capi_out(res) || !capi_given(name, "a name"))
        return capi_report();
    *res = plugin_named(name, strlen(name)) != NULL;
    return 0;
}

/* ---- use */

static int apply_primitive(const struct class_plugin *p, struct object *state, int n, const mx x[],
                           const mlx_output *outputs, int n_out, struct mx_list *out)
{
    struct plugin_args args = { state };
    struct spec *specs = mx_malloc((size_t)n_out * (sizeof *specs + sizeof(mx)));
    if (!specs)
        return 1;
    mx *y = (mx *)(specs + n_out);
    bool ok = true;
    for (int k = 0; k < n_out && outputs && ok; k++) ok = good_output(p->name, k, &outputs[k], &specs[k]);
    if (ok && outputs)
        for (int i = 0; i < n; i++)
            if (x[i]->tracer) /* what the caller computed the shapes from */
                shapes_matter(p->name);
    if (ok && !outputs)
        mx_infer_n(&p->plugin.op, &args, n, x, n_out, y);
    else if (ok && n_out == 1)
        y[0] = mx_node(&p->plugin.op, &args, n, x, specs->ndim, specs->shape, specs->dtype);
    else if (ok)
        mx_nodes(&p->plugin.op, &args, n, x, n_out, specs, y);
    for (int k = 0; k < n_out && ok && !mx_failed(); k++) list_push(out, y[k]);
    free(specs);
    return mx_failed();
}

int mlx_primitive_apply(mlx_vector_array *res, const struct mlx_primitive_class *cls, void *state,
                        const mlx_vector_array inputs, const mlx_output *outputs, size_t outputs_num,
                        const mlx_stream s)
{
    const struct class_plugin *p = capi_out(res) ? register_class(__func__, cls) : NULL;
    if (!p) {
        if (state && cls && cls->abi == MLX_PRIMITIVE_ABI &&
            cls->struct_size >= offsetof(struct mlx_primitive_class, destroy) + sizeof cls->destroy)
            mx_let_go(cls->destroy, state);
        return capi_report();
    }
    struct object *it = state_new(p, state);
    struct mx_list y = { 0 };
    int n = 0;
    mx *x = it ? capi_in_arrays(inputs, &n) : NULL;
    if (x && (outputs_num < 1 || outputs_num > 1 << 20)) {
        mx_fail("[%s] expected 1 to %d results, got %zu", p->name, 1 << 20, outputs_num);
    } else if (x) {
        MX_SCOPE(capi_stream(s));
        apply_primitive(p, it, n, x, outputs, (int)outputs_num, &y);
    }
    capi_arrays_free(n, x);
    object_release(it);
    return capi_results_end(__func__, res, &y, NULL, NULL);
}
