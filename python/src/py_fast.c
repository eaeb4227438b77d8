/* py_fast.c: mlx.core.fast. */
#include "py.h"

PyObject *fn_fast_rms_norm(struct py_call *c)
{
    return give(c, mlx_fast_rms_norm_double(&c->res, ARRAY(0), ARRAY(1), DOUBLE(2), STREAM));
}

PyObject *fn_fast_layer_norm(struct py_call *c)
{
    return give(c, mlx_fast_layer_norm_double(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), DOUBLE(3), STREAM));
}

PyObject *fn__group_norm(struct py_call *c)
{
    mlx_vector_array parts = mlx_vector_array_new();
    int failed = mlx_group_norm(&parts, ARRAY(0), ARRAY(1), ARRAY(2), INT(3), BOOL(4), BOOL(5), DOUBLE(6), STREAM);
    return give_list(failed, parts);
}

PyObject *fn__recurrent(struct py_call *c)
{
    mlx_vector_array states = mlx_vector_array_new();
    int failed = mlx_recurrent(&states, TEXT(0), ARRAY(1), ARRAY(2), ARRAY(3), ARRAY(4), ARRAY(5), STREAM);
    return give_list(failed, states);
}

PyObject *fn_fast_cross_entropy(struct py_call *c)
{
    return give(c, mlx_fast_cross_entropy(&c->res, ARRAY(0), ARRAY(1), STREAM));
}

PyObject *fn_fast_rope(struct py_call *c)
{
    if (call_operand_like(c, 5, MLX_INT64))
        return NULL;
    return give(c, mlx_fast_rope_double(&c->res, ARRAY(0), INT(1), BOOL(2), GIVEN(3) ? &DOUBLE(3) : NULL, DOUBLE(4),
                                        ARRAY(5), ARRAY(6), STREAM));
}

/* An array, or what looks like one, where a str might have been. */
static int array_or_str(struct py_call *c, int i, mlx_array *out)
{
    PyObject *o = c->v[i].o;
    if (is_array(o)) {
        *out = handle_of(o);
        return 0;
    }
    mlx_array a = mlx_array_new();
    if (array_from_foreign(&a, o)) {
        mlx_array_free(a);
        return -1;
    }
    return a.ctx ? call_keep(c, a, out) : (call_refuse(c, i, "a str or an array"), -1);
}

/* The mask is None, a str or an array.  Every kernel here is fused, so nothing is to be forced. */
PyObject *fn_fast_scaled_dot_product_attention(struct py_call *c)
{
    PyObject *mask = c->v[4].o;
    const char *mode = "";
    mlx_array array = { NULL };
    if (GIVEN(4) && PyUnicode_Check(mask)) {
        mode = PyUnicode_AsUTF8AndSize(mask, NULL);
        if (!mode)
            return NULL;
    } else if (GIVEN(4)) {
        if (array_or_str(c, 4, &array))
            return NULL;
    }
    return give(c, mlx_fast_scaled_dot_product_attention_double(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), DOUBLE(3), mode,
                                                                array, ARRAY(5), STREAM));
}

PyObject *fn_fast_gated_delta_update(struct py_call *c)
{
    mlx_vector_array out = mlx_vector_array_new();
    return give_list(
        mlx_fast_gated_delta_update(&out, ARRAY(0), ARRAY(1), ARRAY(2), ARRAY(3), ARRAY(4), ARRAY(5), ARRAY(6), STREAM),
        out);
}

#define FUSED(name, text, doc)                                                                 \
    static struct signature sig_##name = SIGNATURE(#name, text);                               \
    static PyObject *py_##name(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *kw) \
    {                                                                                          \
        (void)m;                                                                               \
        return call_function(&sig_##name, fn_fast_##name, NULL, args, n, kw);                  \
    }
#include "functions.def"

static PyMethodDef functions[] = {
#define FUSED(name, text, doc) { #name, PYFN(py_##name), FAST, #name "(" text ")\n--\n\n" doc },
#include "functions.def"
    { NULL, NULL, 0, NULL },
};

int fast_init(PyObject *module)
{
    return submodule(module, "fast", "Operations of neural networks with kernels of their own.", functions) ? 0 : -1;
}
