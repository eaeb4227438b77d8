/* py_custom.c: functions with rules of their author's, and functions computed anew for their gradient.
 *
 * A call makes closures of the function and of its rules.  A graph may keep the rules for long, so what
 * they know of the call is its form: trees of arguments and of the value whose arrays hold nothing. */
#include "py_function.h"

#include <stdlib.h>

struct custom {
    PyObject ob_base;
    PyObject *fun, *vjp, *jvp, *vmap; /* rules: NULL until given */
};
static PyTypeObject *custom_type, *checkpoint_type;

static PyObject *wrap(PyTypeObject *type, PyObject *fun)
{
    struct custom *self = PyObject_GC_New(struct custom, type);
    if (self) {
        self->fun = Py_NewRef(fun);
        self->vjp = self->jvp = self->vmap = NULL;
        PyObject_GC_Track((PyObject *)self);
    }
    return (PyObject *)self;
}

static PyObject *custom_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = { "f", NULL };
    PyObject *fun;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:custom_function", (char **)names, &fun))
        return NULL;
    if (PyCallable_Check(fun))
        return wrap(type, fun);
    PyErr_Format(PyExc_TypeError, "custom_function(): argument 'f' must be callable, not %s", type_name(fun));
    return NULL;
}

PyObject *fn_checkpoint(struct py_call *c)
{
    return PyCallable_Check(c->v[0].o) ? wrap(checkpoint_type, c->v[0].o) : call_refuse(c, 0, "callable");
}

static int custom_traverse(PyObject *o, visitproc visit, void *arg)
{
    struct custom *self = (struct custom *)o;
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(self->fun);
    Py_VISIT(self->vjp);
    Py_VISIT(self->jvp);
    Py_VISIT(self->vmap);
    return 0;
}

static int custom_clear(PyObject *o)
{
    struct custom *self = (struct custom *)o;
    Py_CLEAR(self->vjp);
    Py_CLEAR(self->jvp);
    Py_CLEAR(self->vmap);
    return 0;
}

static void custom_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    custom_clear(o);
    Py_XDECREF(((struct custom *)o)->fun);
    PyObject_GC_Del(o);
    Py_DECREF(type);
}

static PyObject *set_rule(PyObject *o, PyObject *rule, PyObject **slot, const char *name)
{
    if (!PyCallable_Check(rule)) {
        PyErr_Format(PyExc_TypeError, "%s(): argument 'f' must be callable, not %s", name, type_name(rule));
        return NULL;
    }
    PyObject *old = *slot;
    *slot = Py_NewRef(rule);
    Py_XDECREF(old);
    return Py_NewRef(o);
}

static PyObject *set_vjp(PyObject *o, PyObject *rule) { return set_rule(o, rule, &((struct custom *)o)->vjp, "vjp"); }
static PyObject *set_jvp(PyObject *o, PyObject *rule) { return set_rule(o, rule, &((struct custom *)o)->jvp, "jvp"); }
static PyObject *set_vmap(PyObject *o, PyObject *rule)
{
    return set_rule(o, rule, &((struct custom *)o)->vmap, "vmap");
}

/* Rules */

struct rule_object {
    struct released released; /* first */
    PyObject *fun;
    struct python_call *call; /* the closure's, for the forms */
    mlx_closure closure;      /* keeps `call` */
};

static void rule_end(struct released *r)
{
    struct rule_object *rule = (struct rule_object *)r;
    Py_DECREF(rule->fun);
    mlx_closure_free(rule->closure);
    free(rule);
}

static void rule_release(void *payload) { release_soon(payload); }

/* The one argument, or the tuple of several. */
static PyObject *one_or_all(PyObject *args)
{
    if (!args || PyTuple_Size(args) != 1)
        return args;
    PyObject *only = Py_NewRef(PyTuple_GetItem(args, 0));
    Py_DECREF(args);
    return only;
}

static PyObject *zeros(void *unused, PyObject *leaf)
{
    (void)unused;
    if (!is_array(leaf))
        return Py_NewRef(leaf);
    mlx_array a = mlx_array_new();
    return array_result(mlx_zeros_like(&a, handle_of(leaf), mlx_stream_new()), a);
}

/* What a rule is to return: arrays, and where it may leave some out, None for zeros. */
struct wanted {
    const char *rule;
    bool fill;
};

/* Complains of what neither is an array nor can hold some. */
static int check_not_leaf(const struct wanted *w, PyObject *o)
{
    if (is_array(o) || is_list(o) || PyDict_Check(o) || is_node(o))
        return 0;
    PyErr_Format(exc_value, "[custom_function] expected the %s rule to return arrays, got %s", w->rule, type_name(o));
    return -1;
}

static PyObject *ordered(PyObject *tree, PyObject *like, const struct wanted *w);

static PyObject *ordered_dict(PyObject *tree, PyObject *like, const struct wanted *w)
{
    PyObject *forms = dict_items(like), *result = forms ? PyDict_New() : NULL;
    for (Py_ssize_t i = 0; result && i < PyList_Size(forms); i++) {
        PyObject *pair = PyList_GetItem(forms, i), *key = PyTuple_GetItem(pair, 0);
        PyObject *child = Py_XNewRef(PyDict_GetItemWithError(tree, key));
        if (!child && !PyErr_Occurred()) { /* not the same keys */
            Py_DECREF(result);
            result = Py_NewRef(tree);
            break;
        }
        PyObject *item = child ? ordered(child, PyTuple_GetItem(pair, 1), w) : NULL;
        if (!item || PyDict_SetItem(result, key, item))
            Py_CLEAR(result);
        Py_XDECREF(child);
        Py_XDECREF(item);
    }
    Py_XDECREF(forms);
    return result;
}

static PyObject *ordered_items(PyObject *tree, PyObject *like, const struct wanted *w)
{
    if (PyDict_Check(like))
        return ordered_dict(tree, like, w);
    PyObject *items = items_list(tree), *forms = items ? items_list(like) : NULL;
    for (Py_ssize_t i = 0; forms && items && i < PyList_Size(items) && i < PyList_Size(forms); i++) {
        PyObject *item = ordered(PyList_GetItem(items, i), PyList_GetItem(forms, i), w);
        if (!item || PyList_SetItem(items, i, item))
            Py_CLEAR(items);
    }
    if (!forms)
        Py_CLEAR(items);
    Py_XDECREF(forms);
    return items;
}

/* What a rule returned, in the order of `like`: dicts by their keys; where it may, zeros where it returned
 * None; nothing where `like` has no array.  What is of another form stays as it is: its arrays count in
 * their order. */
static PyObject *ordered(PyObject *tree, PyObject *like, const struct wanted *w)
{
    if (is_array(like) && tree == Py_None && w->fill)
        return zeros(NULL, like);
    if (is_array(like))
        return check_not_leaf(w, tree) ? NULL : Py_NewRef(tree);
    if (tree == Py_None)
        return w->fill ? tree_map(like, zeros, NULL) : Py_NewRef(tree);
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return NULL;
    PyObject *result = NULL;
    bool node = is_node(like);
    if (node && Py_TYPE(tree) == Py_TYPE(like)) {
        PyObject *a = tree_open(tree, NULL), *b = a ? tree_open(like, NULL) : NULL;
        result = b ? ordered(a, b, w) : NULL;
        Py_XDECREF(a);
        Py_XDECREF(b);
    } else if (node) {
        result = Py_NewRef(tree);
    } else if (PyDict_Check(like) || is_list(like)) {
        bool same = PyDict_Check(like) ? PyDict_Check(tree) && PyDict_Size(tree) == PyDict_Size(like)
                                       : is_list(tree) && items_size(tree) == items_size(like);
        result = same ? ordered_items(tree, like, w) : Py_NewRef(tree);
    } else {
        result = Py_NewRef(Py_None);
    }
    Py_LeaveRecursiveCall();
    return result;
}

static PyObject *call_user(struct rule_object *rule, Py_ssize_t n, PyObject *const args[], PyObject *kwargs)
{
    PyObject *tuple = PyTuple_New(n), *value = NULL;
    for (Py_ssize_t i = 0; tuple && i < n; i++)
        if (!args[i] || PyTuple_SetItem(tuple, i, Py_NewRef(args[i])))
            Py_CLEAR(tuple);
    if (tuple && (kwargs || !rule->call->kwargs))
        value = PyObject_Call(rule->fun, tuple, kwargs);
    Py_XDECREF(tuple);
    return value;
}

/* The arrays of what a rule returned. */
static int take_result(PyObject *value, PyObject *like, const char *rule, mlx_vector_array out)
{
    const struct wanted w = { rule, true };
    bool some = value && like && (value == Py_None || !check_not_leaf(&w, value));
    PyObject *in_order = some ? ordered(value, like, &w) : NULL;
    int failed = !in_order || tree_arrays(in_order, out, NULL);
    Py_XDECREF(in_order);
    return failed;
}

/* What a vjp rule leaves out of keyword arguments is zero. */
static int fill_up(mlx_vector_array res, const mlx_vector_array in, size_t needed)
{
    size_t given = mlx_vector_array_size(res), n = mlx_vector_array_size(in);
    for (size_t i = given; given >= needed && i < n; i++) {
        mlx_array x = mlx_array_new(), zero = mlx_array_new();
        int failed = mlx_vector_array_get(&x, in, i) || mlx_zeros_like(&zero, x, mlx_stream_new()) ||
                     mlx_vector_array_append_value(res, zero);
        mlx_array_free(x);
        mlx_array_free(zero);
        if (failed)
            return raise_last();
    }
    return 0;
}

/* A rule without a return statement: *value is taken away. */
static void refuse_none(const char *rule, const char *what, PyObject **value)
{
    if (*value != Py_None)
        return;
    PyErr_Format(exc_value, "[custom_function] expected the %s rule to return %s, got None", rule, what);
    Py_CLEAR(*value);
}

static int call_vjp(mlx_vector_array *res, const mlx_vector_array in, const mlx_vector_array cotangents,
                    const mlx_vector_array outputs, void *payload)
{
    struct rule_object *rule = payload;
    struct python_call *p = rule->call;
    struct replacing r = { in, 0 }, ct = { cotangents, 0 }, y = { outputs, 0 };
    PyObject *args[3] = { one_or_all(new_args(p, &r, NULL)) };
    size_t positional = r.i;
    PyObject *kwargs = args[0] ? new_kwargs(p, &r, NULL) : NULL;
    args[1] = args[0] ? replaced(p->value, &ct) : NULL;
    args[2] = args[1] ? replaced(p->value, &y) : NULL;
    PyObject *value = args[2] ? call_user(rule, 3, args, kwargs) : NULL;
    if (positional)
        refuse_none("vjp", "cotangents", &value);
    int failed = take_result(value, args[0], "vjp", *res) || fill_up(*res, in, positional);
    for (int i = 0; i < 3; i++) Py_XDECREF(args[i]);
    Py_XDECREF(kwargs);
    Py_XDECREF(value);
    return failed != 0;
}

/* A tree of the arguments' form with what belongs to each array, None to anything else. */
struct companions {
    mlx_vector_array tangents; /* of those numbered */
    const int *numbers, *axes; /* one of them, of this many */
    size_t count, next, i;
};

static PyObject *companion(void *ctx, PyObject *leaf)
{
    struct companions *t = ctx;
    if (!is_array(leaf))
        return Py_NewRef(Py_None);
    size_t i = t->i++;
    if (t->axes)
        return i >= t->count || t->axes[i] < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(t->axes[i]);
    if (t->next >= t->count || t->numbers[t->next] != (int)i)
        return Py_NewRef(Py_None);
    mlx_array a = mlx_array_new();
    return array_result(mlx_vector_array_get(&a, t->tangents, t->next++), a);
}

/* Keyword arguments have no place in what a jvp or vmap rule gets. */
static int refuse_keywords(const char *rule, const char *why)
{
    PyErr_Format(exc_value,
                 "[custom_function] an array given as a keyword argument %s; %s rules know positional ones only", why,
                 rule);
    return -1;
}

static int call_jvp(mlx_vector_array *res, const mlx_vector_array in, const mlx_vector_array tangents,
                    const int *numbers, size_t count, void *payload)
{
    struct rule_object *rule = payload;
    struct python_call *p = rule->call;
    struct replacing r = { in, 0 };
    struct companions t = { .tangents = tangents, .numbers = numbers, .count = count };
    PyObject *args[2] = { one_or_all(new_args(p, &r, NULL)) };
    PyObject *kwargs = args[0] ? new_kwargs(p, &r, NULL) : NULL;
    args[1] = args[0] ? one_or_all(tree_map(p->args, companion, &t)) : NULL;
    bool all = !args[1] || t.next == count || refuse_keywords("jvp", "varies") == 0;
    PyObject *value = args[1] && all ? call_user(rule, 2, args, kwargs) : NULL;
    refuse_none("jvp", "tangents", &value);
    int failed = take_result(value, p->value, "jvp", *res);
    Py_XDECREF(args[0]);
    Py_XDECREF(args[1]);
    Py_XDECREF(kwargs);
    Py_XDECREF(value);
    return failed != 0;
}

static int take_batch(PyObject *value, PyObject *like, mlx_vector_array *res, mlx_vector_int *axes)
{
    if (!PyTuple_Check(value) || PyTuple_Size(value) != 2) {
        PyErr_Format(exc_value,
                     "[custom_function] expected the vmap rule to return a tuple of the outputs and their axes, got %s",
                     type_name(value));
        return -1;
    }
    struct axes a = { .which = "what the vmap rule says of its axes",
                      .what = "outputs have",
                      .arrays = *res,
                      .none = -1,
                      .normal = true };
    const struct wanted w = { "vmap", false };
    PyObject *outputs = PyTuple_GetItem(value, 0);
    outputs = check_not_leaf(&w, outputs) ? NULL : ordered(outputs, like, &w);
    int failed = !outputs || axes_walk(&a, outputs, PyTuple_GetItem(value, 1));
    for (size_t i = 0; i < a.n && !failed; i++) failed = mlx_vector_int_append_value(*axes, a.v[i]) && raise_last();
    Py_XDECREF(outputs);
    free(a.v);
    return failed;
}

static int call_vmap(mlx_vector_array *res, mlx_vector_int *res_axes, const mlx_vector_array in, const int *axes,
                     size_t count, void *payload)
{
    struct rule_object *rule = payload;
    struct python_call *p = rule->call;
    struct replacing r = { in, 0 };
    struct companions t = { .axes = axes, .count = count };
    PyObject *args[2] = { one_or_all(new_args(p, &r, NULL)) };
    PyObject *kwargs = args[0] ? new_kwargs(p, &r, NULL) : NULL;
    args[1] = args[0] ? one_or_all(tree_map(p->args, companion, &t)) : NULL;
    bool refused = false;
    for (size_t i = t.i; args[1] && i < count && !refused; i++)
        refused = axes[i] >= 0 && refuse_keywords("vmap", "is mapped");
    PyObject *value = args[1] && !refused ? call_user(rule, 2, args, kwargs) : NULL;
    int failed = !value || take_batch(value, p->value, res, res_axes);
    Py_XDECREF(args[0]);
    Py_XDECREF(args[1]);
    Py_XDECREF(kwargs);
    Py_XDECREF(value);
    return failed != 0;
}

/* Calls */

/* The payload of a rule's closure; NULL without a rule or with an exception set. */
static struct rule_object *rule_new(PyObject *fun, struct python_call *p, mlx_closure f)
{
    struct rule_object *rule = fun ? malloc(sizeof *rule) : NULL;
    if (!rule)
        return fun ? (PyErr_NoMemory(), NULL) : NULL;
    *rule = (struct rule_object){ { NULL, rule_end }, Py_NewRef(fun), p, mlx_closure_new() };
    if (mlx_closure_set(&rule->closure, f)) {
        rule_end(&rule->released);
        raise_last();
        return NULL;
    }
    return rule;
}

#define RULE(type, name)                                                                         \
    static type closure_of_##name(PyObject *fun, struct python_call *p, mlx_closure f)           \
    {                                                                                            \
        struct rule_object *rule = rule_new(fun, p, f);                                          \
        type closure = { NULL };                                                                 \
        if (rule && !(closure = type##_new_func_payload(call_##name, rule, rule_release)).ctx) { \
            rule_end(&rule->released);                                                           \
            raise_last();                                                                        \
        }                                                                                        \
        return closure;                                                                          \
    }
RULE(mlx_closure_custom, vjp)
RULE(mlx_closure_custom_jvp, jvp)
RULE(mlx_closure_custom_vmap, vmap)

/* The closure of the function with its rules, or of the checkpoint. */
static int whole_function(struct custom *self, mlx_closure *whole, struct python_call *p, mlx_closure f)
{
    if (Py_TYPE(&self->ob_base) == checkpoint_type)
        return mlx_checkpoint(whole, f) ? raise_last() : 0;
    mlx_closure_custom vjp = closure_of_vjp(self->vjp, p, f);
    mlx_closure_custom_jvp jvp = closure_of_jvp(self->jvp, p, f);
    mlx_closure_custom_vmap vmap = closure_of_vmap(self->vmap, p, f);
    int failed = PyErr_Occurred() || mlx_custom_function(whole, f, vjp, jvp, vmap);
    mlx_closure_custom_free(vjp);
    mlx_closure_custom_jvp_free(jvp);
    mlx_closure_custom_vmap_free(vmap);
    return failed ? raise_last() : 0;
}

/* From trees of what the call has seen to trees of the same form that keep nothing alive.  Of the value a
 * jvp rule needs the shapes. */
static int keep_forms(struct python_call *p, bool shapes)
{
    PyObject *value = shapes ? tree_map(p->value, zeros, NULL) : hollowed(p->value);
    PyObject *args = hollowed(p->args), *kwargs = p->kwargs ? hollowed(p->kwargs) : NULL;
    PyObject *forms[] = { value, args, kwargs }, *seen[] = { p->value, p->args, p->kwargs };
    int failed = !value || !args || (p->kwargs && !kwargs);
    if (!failed) {
        p->value = value;
        p->args = args;
        p->kwargs = kwargs;
    }
    for (int i = 0; i < 3; i++) Py_XDECREF(failed ? forms[i] : seen[i]);
    return failed;
}

static PyObject *custom_object_call(PyObject *o, PyObject *args, PyObject *kwargs)
{
    struct custom *self = (struct custom *)o;
    bool checkpoint = Py_TYPE(o) == checkpoint_type;
    if (!checkpoint && !self->vjp && !self->jvp && !self->vmap)
        return PyObject_Call(self->fun, args, kwargs);
    PyObject *result = NULL;
    struct python_call *p = python_call_new(checkpoint ? "checkpoint" : "custom_function", self->fun, args, kwargs);
    mlx_closure f = p ? closure_of(p) : mlx_closure_new(), whole = mlx_closure_new();
    mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
    if (f.ctx) {
        p->returns = TREE;
        p->kwargs_too = true;
        if (!tree_arrays(args, in, NULL) && !(kwargs && tree_arrays(kwargs, in, NULL)) &&
            !whole_function(self, &whole, p, f)) {
            int failed = mlx_closure_apply(&out, whole, in);
            struct replacing r = { out, 0 };
            if (failed)
                raise_from(p);
            else
                result = replaced(p->value, &r);
            if (result && keep_forms(p, self->jvp))
                Py_CLEAR(result);
        }
    }
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_closure_free(whole);
    mlx_closure_free(f);
    release_now();
    return result;
}

static PyMethodDef custom_methods[] = {
    WRAPPER_METHODS,
    { "vjp", set_vjp, METH_O,
      "vjp($self, f)\n--\n\n"
      "Set the rule f(primals, cotangents, outputs), which returns a cotangent for each primal." },
    { "jvp", set_jvp, METH_O,
      "jvp($self, f)\n--\n\n"
      "Set the rule f(primals, tangents), which returns a tangent for each output; the tangent of what\n"
      "does not vary is None." },
    { "vmap", set_vmap, METH_O,
      "vmap($self, f)\n--\n\n"
      "Set the rule f(inputs, axes), which returns the outputs of a batch and their axes; the axis of what\n"
      "is the same for the whole batch is None." },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot custom_slots[] = {
    { Py_tp_new, custom_new },
    { Py_tp_dealloc, custom_dealloc },
    { Py_tp_traverse, custom_traverse },
    { Py_tp_clear, custom_clear },
    { Py_tp_call, custom_object_call },
    { Py_tp_methods, custom_methods },
    { Py_tp_getattro, wrapper_getattro },
    { Py_tp_doc,
      DOC("custom_function(f)\n--\n\n"
          "The function ``f`` with rules of its own, set by the methods ``vjp``, ``jvp`` and ``vmap``, in place\n"
          "of those that follow from its operations. Rules get the one positional argument or the tuple of\n"
          "several; arrays that ``f`` knows from elsewhere get no derivative through them.") },
    { 0, NULL },
};
static PyType_Spec custom_spec = {
    "mlx.core.custom_function", sizeof(struct custom), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, custom_slots,
};
static PyMethodDef checkpoint_methods[] = { WRAPPER_METHODS, { NULL, NULL, 0, NULL } };
static PyType_Slot checkpoint_slots[] = {
    { Py_tp_dealloc, custom_dealloc },     { Py_tp_traverse, custom_traverse },  { Py_tp_call, custom_object_call },
    { Py_tp_methods, checkpoint_methods }, { Py_tp_getattro, wrapper_getattro }, { 0, NULL },
};
static PyType_Spec checkpoint_spec = {
    "mlx.core._Checkpoint",
    sizeof(struct custom),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    checkpoint_slots,
};

int custom_init(PyObject *module)
{
    return (custom_type = add_type(module, &custom_spec)) && (checkpoint_type = add_type(module, &checkpoint_spec))
               ? 0
               : -1;
}
