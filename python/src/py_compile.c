/* py_compile.c: compiled Python functions.
 *
 * A call is flattened into arrays, which are the inputs of a trace, and a key: a tuple of all else in
 * the arguments, by which traces are told apart.  What a trace gave, with its arrays taken out, is
 * attached to it, and filled with the results of later calls. */
#include "py_function.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct compiled_object {
    PyObject ob_base;
    PyObject *fun, *inputs, *outputs; /* the trees are NULL where not given */
    mlx_compiled traces;
    PyObject *keys; /* key -> number */
    PyObject *last; /* the key of the last call that was traced, or None */
    bool warned;
    PyObject *weak;
};

static PyTypeObject *compiled_type;
static PyObject *array_mark, *list_mark, *tuple_mark, *dict_mark;

/* ---- keys */

struct flat {
    mlx_vector_array in;
    PyObject *key; /* list */
    bool captured; /* part of a captured tree: what is neither array nor constant is not looked at */
};

static int put(struct flat *f, PyObject *o) { return PyList_Append(f->key, o); }

static int flatten(struct flat *f, PyObject *tree);

/* The class of a container, and what one of a class of its own has beside its items, which the function sees in its
 * copy.  Captured trees are not copied: of them the function sees whatever there is when it is traced. */
static int put_class(struct flat *f, PyObject *tree, PyTypeObject *plain, PyObject *mark)
{
    if (Py_TYPE(tree) == plain)
        return put(f, mark);
    return put(f, (PyObject *)Py_TYPE(tree)) || (!f->captured && key_put_attributes(f->key, tree)) ? -1 : 0;
}

static int flatten_items(struct flat *f, PyObject *tree, bool list)
{
    Py_ssize_t n = items_size(tree);
    int failed = 0;
    if (list ? put_class(f, tree, &PyList_Type, list_mark) : put_class(f, tree, &PyTuple_Type, tuple_mark))
        return -1;
    failed = key_put_int(f->key, n);
    for (Py_ssize_t i = 0; !failed && i < n && i < items_size(tree); i++) {
        PyObject *item = item_at(tree, i); /* what is looked into may run code that changes the tree */
        failed = !item || flatten(f, item);
        Py_XDECREF(item);
    }
    return failed ? -1 : 0;
}

static int flatten_dict(struct flat *f, PyObject *tree)
{
    PyObject *key, *value, *dict = dict_in_order(tree);
    Py_ssize_t at = 0, size = dict ? PyDict_Size(dict) : 0;
    int failed = !dict || put_class(f, tree, &PyDict_Type, dict_mark) || key_put_int(f->key, size);
    while (!failed && PyDict_Size(dict) == size && PyDict_Next(dict, &at, &key, &value)) {
        Py_INCREF(value);
        failed = key_put_constant(f->key, key) || flatten(f, value);
        Py_DECREF(value);
    }
    Py_XDECREF(dict);
    return failed ? -1 : 0;
}

static int flatten_node(struct flat *f, PyObject *tree)
{
    PyObject *aux = NULL, *children = tree_open(tree, &aux);
    int failed = !children || put(f, (PyObject *)Py_TYPE(tree)) || PyObject_Hash(aux) == -1 ||
                 key_put_constant(f->key, aux) || flatten(f, children);
    Py_XDECREF(children);
    Py_XDECREF(aux);
    return failed ? -1 : 0;
}

static int flatten(struct flat *f, PyObject *tree)
{
    if (is_array(tree))
        return put(f, array_mark) || (mlx_vector_array_append_value(f->in, handle_of(tree)) && raise_last()) ? -1 : 0;
    bool node = is_node(tree);
    if (node || is_list(tree) || PyDict_Check(tree)) {
        if (Py_EnterRecursiveCall(" in the arguments of a compiled function"))
            return -1;
        int failed = node                 ? flatten_node(f, tree)
                     : PyDict_Check(tree) ? flatten_dict(f, tree)
                                          : flatten_items(f, tree, PyList_Check(tree));
        Py_LeaveRecursiveCall();
        return failed;
    }
    if (is_random_state(tree))
        return random_state_arrays(tree, f->in) || put(f, array_mark) ? -1 : 0;
    if (is_constant(tree))
        return key_put_constant(f->key, tree);
    if (f->captured)
        return put(f, Py_None);
    int has = has_attribute(tree, "__array__");
    if (has > 0)
        PyErr_Format(exc_value,
                     "[compile] expected arrays of mlx in the arguments, got %s; mx.array(...) makes "
                     "one of it",
                     type_name(tree));
    else if (has == 0)
        PyErr_Format(exc_value,
                     "[compile] expected arguments that are trees of arrays and of constants (numbers, strings, "
                     "functions, None), got %s; mlx.utils.register_tree_node makes a tree of it",
                     type_name(tree));
    return -1;
}

/* ---- tracing */

/* One call: what the closure that may be traced needs. */
struct tracing {
    struct released released; /* first */
    struct compiled_object *self;
    PyObject *args, *kwargs, *key;
    PyObject *form; /* (value, content of outputs) once traced, without their arrays */
    PyObject *error;
};

static void tracing_end(struct released *r)
{
    struct tracing *t = (struct tracing *)r;
    Py_DECREF(t->self);
    Py_XDECREF(t->args);
    Py_XDECREF(t->kwargs);
    Py_XDECREF(t->key);
    Py_XDECREF(t->form);
    Py_XDECREF(t->error);
    free(t);
}

static void tracing_release(void *payload) { release_soon(payload); }

static int name_arrays(PyObject *tree, PyObject *name, PyObject *names);

static int name_inside(PyObject *tree, PyObject *name, PyObject *names)
{
    bool dict = PyDict_Check(tree);
    PyObject *items = dict ? dict_items(tree) : items_list(tree);
    int failed = items ? 0 : -1;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(items); i++) {
        PyObject *item = PyList_GetItem(items, i);
        PyObject *inner = dict ? PyUnicode_FromFormat("%U[%R]", name, PyTuple_GetItem(item, 0))
                               : PyUnicode_FromFormat("%U[%zd]", name, i);
        failed = inner ? name_arrays(dict ? PyTuple_GetItem(item, 1) : item, inner, names) : -1;
        Py_XDECREF(inner);
    }
    Py_XDECREF(items);
    return failed;
}

/* The names of a tree's arrays, "x[0].weight", as long as they are needed. */
static int name_arrays(PyObject *tree, PyObject *name, PyObject *names)
{
    if (is_array(tree) || is_random_state(tree))
        return PyList_Append(names, name);
    bool node = is_node(tree);
    if (!node && !is_list(tree) && !PyDict_Check(tree))
        return 0;
    if (Py_EnterRecursiveCall(" in the arguments of a compiled function"))
        return -1;
    PyObject *inside = node ? tree_open(tree, NULL) : Py_NewRef(tree);
    int failed = inside ? name_inside(inside, name, names) : -1;
    Py_XDECREF(inside);
    Py_LeaveRecursiveCall();
    return failed;
}

/* What parameter i is called. */
static PyObject *parameter(PyObject *fun, Py_ssize_t i)
{
    PyObject *code = PyObject_GetAttrString(fun, "__code__"), *name = NULL;
    PyObject *names = code ? PyObject_GetAttrString(code, "co_varnames") : NULL;
    PyObject *count = code ? PyObject_GetAttrString(code, "co_argcount") : NULL;
    if (names && count && i < PyLong_AsSsize_t(count))
        name = PySequence_GetItem(names, i);
    if (name && !PyUnicode_Check(name)) /* anything may have a __code__ */
        Py_CLEAR(name);
    PyErr_Clear();
    Py_XDECREF(code);
    Py_XDECREF(names);
    Py_XDECREF(count);
    return name ? name : PyUnicode_FromFormat("argument %zd", i);
}

/* How the constants of two keys differ, where their structure is the same. */
static PyObject *why(PyObject *old, PyObject *new)
{
    if (old == Py_None || PyTuple_Size(old) != PyTuple_Size(new))
        return old == Py_None ? NULL : PyUnicode_FromString("the structure of the arguments changed");
    for (Py_ssize_t i = 0; i < PyTuple_Size(old); i++) {
        PyObject *a = PyTuple_GetItem(old, i), *b = PyTuple_GetItem(new, i);
        int same = a == b ? 1 : PyObject_RichCompareBool(a, b, Py_EQ);
        if (same < 0)
            PyErr_Clear();
        if (same > 0)
            continue;
        if (PyType_Check(a) && i + 1 < PyTuple_Size(old)) {
            a = PyTuple_GetItem(old, i + 1);
            b = PyTuple_GetItem(new, i + 1);
        }
        PyObject *was = constant_shown(a), *is = was ? constant_shown(b) : NULL;
        PyObject *text = is ? PyUnicode_FromFormat("a constant changed: %U -> %U", was, is) : NULL;
        Py_XDECREF(was);
        Py_XDECREF(is);
        return text;
    }
    return NULL;
}

/* Tells the library what it traces and why. */
static void describe_change(const struct tracing *t)
{
    struct compiled_object *c = t->self;
    PyObject *names = PyList_New(0), *last = Py_NewRef(c->last), *reason = why(last, t->key);
    int failed = !names;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_Size(t->args); i++) {
        PyObject *name = parameter(c->fun, i);
        failed = name ? name_arrays(PyTuple_GetItem(t->args, i), name, names) : -1;
        Py_XDECREF(name);
    }
    PyObject *named = !failed && t->kwargs ? PyDict_Items(t->kwargs) : NULL;
    for (Py_ssize_t i = 0; !failed && named && i < PyList_Size(named); i++) {
        PyObject *pair = PyList_GetItem(named, i);
        failed = name_arrays(PyTuple_GetItem(pair, 1), PyTuple_GetItem(pair, 0), names);
    }
    Py_XDECREF(named);
    if (!failed && c->inputs) {
        PyObject *name = PyUnicode_FromString("inputs");
        failed = name ? name_arrays(c->inputs, name, names) : -1;
        Py_XDECREF(name);
    }
    Py_ssize_t n = failed ? 0 : PyList_Size(names);
    const char **texts = calloc((size_t)n + 1, sizeof *texts);
    for (Py_ssize_t i = 0; texts && i < n; i++)
        if (!(texts[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(names, i), NULL)))
            texts[i] = "?";
    const char *text = reason ? PyUnicode_AsUTF8AndSize(reason, NULL) : NULL;
    mlx_compiled_describe(c->traces, texts, texts ? (size_t)n : 0, text);
    free(texts);
    Py_XDECREF(names);
    Py_XDECREF(reason);
    PyErr_Clear();
    Py_DECREF(last);
    last = c->last; /* comparing and naming may have called the function */
    c->last = Py_NewRef(t->key);
    Py_DECREF(last);
}

/* Puts where it happened into an exception that says a value is missing: the line of user code. */
static void say_line(struct tracing *t)
{
    PyObject *text = t->error ? PyObject_Str(t->error) : NULL;
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (!s || !strstr(s, "which is being compiled") || strstr(s, "(line ")) {
        PyErr_Clear();
        Py_XDECREF(text);
        return;
    }
    PyObject *at = PyException_GetTraceback(t->error), *line = NULL;
    while (at && at != Py_None) {
        Py_XDECREF(line);
        line = PyObject_GetAttrString(at, "tb_lineno");
        PyObject *next = PyObject_GetAttrString(at, "tb_next");
        Py_DECREF(at);
        at = next;
    }
    Py_XDECREF(at);
    PyObject *full = line ? PyUnicode_FromFormat("%U (line %S)", text, line) : NULL;
    PyObject *args = full ? PyTuple_Pack(1, full) : NULL;
    if (args)
        PyObject_SetAttrString(t->error, "args", args);
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(line);
    Py_XDECREF(full);
    Py_XDECREF(args);
}

/* The function on placeholders; its results and then those of the captured outputs. */
static int trace_python(mlx_vector_array *res, const mlx_vector_array in, void *payload)
{
    struct tracing *t = payload;
    struct compiled_object *c = t->self;
    struct replacing r = { in, 0 };
    PyObject *saved = PyList_New(0), *value = NULL, *kwargs = NULL, *form = NULL, *content = NULL;
    describe_change(t);
    PyObject *args = saved ? replaced(t->args, &r) : NULL;
    if (args && t->kwargs)
        kwargs = replaced(t->kwargs, &r);
    int failed = !saved || !args || (t->kwargs && !kwargs) || (c->inputs && captured_remember(c->inputs, saved)) ||
                 (c->outputs && captured_remember(c->outputs, saved));
    if (!failed && c->inputs) {
        PyObject *inside = hollowed_plain(c->inputs);
        failed = !inside || captured_assign(c->inputs, inside, &r);
        Py_XDECREF(inside);
    }
    if (!failed) {
        value = PyObject_Call(c->fun, args, kwargs);
        failed = !value || tree_arrays(value, *res, NULL) || (c->outputs && tree_arrays(c->outputs, *res, NULL)) ||
                 !(form = hollowed(value)) || !(content = hollowed_plain(c->outputs ? c->outputs : Py_None));
    }
    if (!failed)
        failed = !(t->form = PyTuple_Pack(2, form, content));
    failed |= captured_put_back(saved);
    if (failed) {
        t->error = error_take();
        say_line(t);
    }
    Py_XDECREF(saved);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(value);
    Py_XDECREF(form);
    Py_XDECREF(content);
    return failed != 0;
}

/* ---- calling */

static void drop_form(void *payload)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)payload);
    PyGILState_Release(gil);
}

/* The number that stands for a key. */
static int number_of(struct compiled_object *c, PyObject *key, uint64_t *number)
{
    PyObject *n = PyDict_GetItemWithError(c->keys, key);
    if (!n && PyErr_Occurred())
        return -1;
    if (n)
        return *number = PyLong_AsUnsignedLongLong(n), 0;
    enum { MOST = 4096 }; /* keys nobody comes back to: their traces went long before */
    if (PyDict_Size(c->keys) >= MOST)
        PyDict_Clear(c->keys);
    static uint64_t next;
    *number = next++;
    n = PyLong_FromUnsignedLongLong(*number);
    int failed = !n || PyDict_SetItem(c->keys, key, n);
    Py_XDECREF(n);
    return failed ? -1 : 0;
}

static int warn_often(struct compiled_object *c)
{
    enum { OFTEN = 32 };
    if (c->warned || mlx_compiled_count(c->traces) <= OFTEN)
        return 0;
    c->warned = true;
    return PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                            "[compile] %R was traced more than %d times; its method explain() tells why", c->fun,
                            OFTEN);
}

static PyObject *finish_tracing(struct compiled_object *c, struct tracing *t, int64_t number, mlx_vector_array out)
{
    PyObject *form = Py_XNewRef(t->form);
    if (form) {
        if (number >= 0)
            mlx_compiled_attach(c->traces, number, Py_NewRef(form), drop_form);
        if (warn_often(c))
            return Py_DECREF(form), NULL;
    } else {
        form = Py_XNewRef((PyObject *)mlx_compiled_payload(c->traces, number));
    }
    if (!form) {
        PyErr_SetString(exc_value, "[compile] a trace was let go of while it was used");
        return NULL;
    }
    struct replacing r = { out, 0 };
    PyObject *result = replaced(PyTuple_GetItem(form, 0), &r);
    if (result && c->outputs && captured_assign(c->outputs, PyTuple_GetItem(form, 1), &r))
        Py_CLEAR(result);
    Py_DECREF(form);
    return result;
}

static PyObject *call_traced(struct compiled_object *c, PyObject *args, PyObject *kwargs, PyObject *key,
                             mlx_vector_array in)
{
    struct tracing *t = calloc(1, sizeof *t);
    if (!t)
        return PyErr_NoMemory();
    t->released.end = tracing_end;
    t->self = (struct compiled_object *)Py_NewRef((PyObject *)c);
    t->args = Py_NewRef(args);
    t->kwargs = Py_XNewRef(kwargs);
    t->key = Py_NewRef(key);
    uint64_t number;
    int64_t trace_number = -1;
    PyObject *result = NULL;
    mlx_closure f = mlx_closure_new_func_payload(trace_python, t, tracing_release);
    mlx_vector_array out = mlx_vector_array_new();
    if (!f.ctx) {
        tracing_end(&t->released);
        raise_last();
    } else if (number_of(c, key, &number) == 0) {
        if (mlx_compiled_apply(&out, &trace_number, c->traces, f, &number, 1, in)) {
            if (t->error) {
                error_put(t->error);
                t->error = NULL;
            } else {
                raise_last();
            }
        } else {
            result = finish_tracing(c, t, trace_number, out);
        }
    }
    mlx_vector_array_free(out);
    mlx_closure_free(f);
    release_now();
    return result;
}

/* A trace has placeholders in what is captured, so that calls which read or replace captured arrays take turns: two
 * traces at once would each put back what they found of the other's.  The interpreter's lock guards this. */
static struct {
    bool taken;
    unsigned number; /* of turns that there were */
    pid_t process;
} turn;
static _Thread_local int depth; /* of this thread's calls: a trace may call another compiled function */

static bool others_turn(void)
{
    return turn.taken && !depth && turn.process == getpid(); /* in a child of fork there is this thread alone */
}

/* Returns 0, or -1 with an exception, as where the trace waits for this thread. */
static int take_turn(void)
{
    enum { PATIENCE = 60 }; /* seconds */
    struct timespec from, now, a_while = { 0, 20000 };
    unsigned number = turn.number;
    clock_gettime(CLOCK_MONOTONIC, &from);
    while (others_turn()) {
        PyThreadState *gil = PyEval_SaveThread();
        nanosleep(&a_while, NULL);
        PyEval_RestoreThread(gil);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (number != turn.number) {
            number = turn.number;
            from = now;
        }
        if (others_turn() && now.tv_sec - from.tv_sec > PATIENCE) {
            PyErr_Format(
                exc_value,
                "[compile] expected another thread to end its call of a function that is compiled with inputs= or "
                "outputs=, waited for %d seconds",
                PATIENCE);
            return -1;
        }
        if (PyErr_CheckSignals())
            return -1;
    }
    turn.number += !depth;
    turn.taken = true;
    turn.process = getpid();
    depth++;
    return 0;
}

/* If anything is captured, in this thread's turn. */
static PyObject *call_in_turn(struct compiled_object *c, PyObject *args, PyObject *kwargs)
{
    struct flat f = { mlx_vector_array_new(), PyList_New(0), false };
    int failed = !f.key || !f.in.ctx || flatten(&f, args) || (kwargs && flatten(&f, kwargs));
    f.captured = true;
    failed = failed || (c->inputs && flatten(&f, c->inputs));
    mlx_vector_array in = f.in; /* of the outputs only their structure matters */
    if (!failed && c->outputs && c->outputs != c->inputs) {
        f.in = mlx_vector_array_new();
        failed = !f.in.ctx || flatten(&f, c->outputs);
        mlx_vector_array_free(f.in);
        f.in = in;
    }
    PyObject *key = failed ? NULL : PyList_AsTuple(f.key), *result = NULL;
    if (key)
        result = call_traced(c, args, kwargs, key, f.in);
    mlx_vector_array_free(f.in);
    Py_XDECREF(f.key);
    Py_XDECREF(key);
    return result;
}

static PyObject *compiled_object_call(PyObject *o, PyObject *args, PyObject *kwargs)
{
    struct compiled_object *c = (struct compiled_object *)o;
    if (!mlx_compile_is_enabled())
        return PyObject_Call(c->fun, args, kwargs);
    if (!c->inputs && !c->outputs)
        return call_in_turn(c, args, kwargs);
    if (take_turn())
        return NULL;
    PyObject *result = call_in_turn(c, args, kwargs);
    if (!--depth)
        turn.taken = false;
    return result;
}

/* ---- the objects */

static PyObject *compiled_explain(PyObject *o, PyObject *unused)
{
    (void)unused;
    mlx_string s = mlx_string_new();
    PyObject *text = mlx_compiled_text(&s, ((struct compiled_object *)o)->traces)
                         ? (raise_last(), NULL)
                         : PyUnicode_FromString(mlx_string_data(s));
    mlx_string_free(s);
    return text;
}

static PyObject *get_cache_size(PyObject *o, void *unused)
{
    (void)unused;
    return PyLong_FromLong(mlx_compiled_limit(((struct compiled_object *)o)->traces));
}

static int set_cache_size(PyObject *o, PyObject *value, void *unused)
{
    (void)unused;
    long n = value ? PyLong_AsLong(value) : 0;
    if (n == -1 && PyErr_Occurred())
        return -1;
    if (n > 1 << 20)
        n = 1 << 20;
    return mlx_compiled_set_limit(((struct compiled_object *)o)->traces, (int)n) ? raise_last() : 0;
}

static PyObject *get_traces(PyObject *o, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(mlx_compiled_count(((struct compiled_object *)o)->traces));
}

static PyObject *compiled_repr(PyObject *o)
{
    return PyUnicode_FromFormat("<compiled %R>", ((struct compiled_object *)o)->fun);
}

struct visiting {
    visitproc visit;
    void *arg;
};

static int visit_form(void *form, void *v)
{
    const struct visiting *of = v;
    return of->visit(form, of->arg);
}

static int compiled_traverse(PyObject *o, visitproc visit, void *arg)
{
    struct compiled_object *c = (struct compiled_object *)o;
    struct visiting forms = { visit, arg };
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(c->fun);
    Py_VISIT(c->inputs);
    Py_VISIT(c->outputs);
    Py_VISIT(c->keys);
    Py_VISIT(c->last);
    return c->traces.ctx ? mlx_compiled_visit(c->traces, visit_form, &forms) : 0;
}

/* A cycle through anything else also goes through something that can be cleared. */
static int compiled_object_clear(PyObject *o)
{
    struct compiled_object *c = (struct compiled_object *)o;
    PyObject *last = c->last;
    c->last = Py_NewRef(Py_None);
    Py_XDECREF(last);
    PyDict_Clear(c->keys);
    mlx_compiled_forget(c->traces);
    return 0;
}

static void compiled_dealloc(PyObject *o)
{
    struct compiled_object *c = (struct compiled_object *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    if (c->weak)
        PyObject_ClearWeakRefs(o);
    mlx_compiled_free(c->traces);
    Py_XDECREF(c->fun);
    Py_XDECREF(c->inputs);
    Py_XDECREF(c->outputs);
    Py_XDECREF(c->keys);
    Py_XDECREF(c->last);
    PyObject_GC_Del(o);
    Py_DECREF(type);
}

/* "fun (file.py, line 3)" */
static PyObject *full_name(PyObject *fun)
{
    PyObject *name = PyObject_GetAttrString(fun, "__qualname__");
    PyErr_Clear();
    if (!name || !PyUnicode_Check(name)) {
        Py_XDECREF(name);
        name = PyUnicode_FromString(type_name(fun));
    }
    PyObject *code = PyObject_GetAttrString(fun, "__code__");
    PyObject *file = code ? PyObject_GetAttrString(code, "co_filename") : NULL;
    PyObject *line = file ? PyObject_GetAttrString(code, "co_firstlineno") : NULL;
    PyErr_Clear();
    PyObject *full = name && line ? PyUnicode_FromFormat("%U (%S, line %S)", name, file, line) : Py_XNewRef(name);
    Py_XDECREF(name);
    Py_XDECREF(code);
    Py_XDECREF(file);
    Py_XDECREF(line);
    return full;
}

PyObject *fn_compile(struct py_call *c)
{
    PyObject *fun = c->v[0].o, *inputs = GIVEN(1) ? c->v[1].o : NULL, *outputs = GIVEN(2) ? c->v[2].o : NULL;
    if (!PyCallable_Check(fun))
        return call_refuse(c, 0, "callable");
    for (int i = 1; i <= 2; i++)
        if (GIVEN(i) && !PyList_Check(c->v[i].o) && !PyDict_Check(c->v[i].o) && !PyTuple_Check(c->v[i].o) &&
            !is_random_state(c->v[i].o))
            return call_refuse(c, i, "a list, dict or tuple, or mx.random.state");
    PyObject *name = full_name(fun);
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    struct compiled_object *self = text ? PyObject_GC_New(struct compiled_object, compiled_type) : NULL;
    if (self) {
        self->fun = Py_NewRef(fun);
        self->inputs = Py_XNewRef(inputs);
        self->outputs = Py_XNewRef(outputs);
        self->traces = mlx_compiled_new(text, BOOL(3));
        self->keys = PyDict_New();
        self->last = Py_NewRef(Py_None);
        self->warned = false;
        self->weak = NULL;
        if (!self->traces.ctx)
            raise_last();
        if (!self->keys || !self->traces.ctx)
            Py_CLEAR(self);
        else
            PyObject_GC_Track((PyObject *)self);
    }
    Py_XDECREF(name);
    return (PyObject *)self;
}

PyObject *fn_disable_compile(struct py_call *c)
{
    (void)c;
    mlx_disable_compile();
    Py_RETURN_NONE;
}

PyObject *fn_enable_compile(struct py_call *c)
{
    (void)c;
    mlx_enable_compile();
    Py_RETURN_NONE;
}

static PyMethodDef compiled_methods[] = {
    WRAPPER_METHODS,
    { "explain", compiled_explain, METH_NOARGS,
      "explain($self)\n--\n\nEach trace of the function: why it was made (which argument changed, and how), how many "
      "operations it has, and how long tracing took.  MLX_LOG=compile prints the same lines as they happen." },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef compiled_properties[] = {
    { "cache_size", get_cache_size, set_cache_size,
      "How many traces are kept; when there are more, the least recently used goes.", NULL },
    { "trace_count", get_traces, NULL, "How many times the function was traced.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyMemberDef compiled_members[] = {
    { "__weaklistoffset__", T_PYSSIZET, offsetof(struct compiled_object, weak), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};
static PyType_Slot compiled_slots[] = {
    { Py_tp_dealloc, compiled_dealloc },
    { Py_tp_traverse, compiled_traverse },
    { Py_tp_call, compiled_object_call },
    { Py_tp_clear, compiled_object_clear },
    { Py_tp_getattro, wrapper_getattro },
    { Py_tp_repr, compiled_repr },
    { Py_tp_methods, compiled_methods },
    { Py_tp_getset, compiled_properties },
    { Py_tp_members, compiled_members },
    { Py_tp_doc, DOC("What compile gives: a function that is traced once and called again as a graph.") },
    { 0, NULL },
};
static PyType_Spec compiled_spec = {
    "mlx.core._Compiled",
    sizeof(struct compiled_object),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    compiled_slots,
};
/* A trace begins in the frame that called it; those of another greenlet are not among the callers. */
static bool called_from(void *outer, void **site)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *error = error_take(), *frame = Py_XNewRef((PyObject *)PyEval_GetFrame());
    *site = frame;
    while (outer && frame && frame != outer && frame != Py_None) {
        PyObject *back = PyObject_GetAttrString(frame, "f_back");
        Py_DECREF(frame);
        frame = back;
    }
    bool found = !outer || frame == outer;
    Py_XDECREF(frame);
    PyErr_Clear();
    error_put(error);
    PyGILState_Release(gil);
    return found;
}

static int marks_init(void)
{
    PyObject **const marks[] = { &array_mark, &list_mark, &tuple_mark, &dict_mark };
    for (size_t i = 0; i < LENGTH(marks); i++)
        if (!(*marks[i] = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type)))
            return -1;
    return 0;
}

int compile_init(PyObject *module)
{
    if (marks_init())
        return -1;
    mlx_traces_take_turns_by(called_from);
    compiled_type = add_type(module, &compiled_spec);
    return compiled_type ? 0 : -1;
}
