/* py_fast.c: mlx.core.fast. */
#include "py.h"

PyObject *fn_fast_rms_norm(struct call *c)
{
    return give(c, mlx_fast_rms_norm(&c->res, ARRAY(0), ARRAY(1), (float)DOUBLE(2), STREAM));
}

PyObject *fn_fast_layer_norm(struct call *c)
{
    return give(
        c, mlx_fast_layer_norm(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), (float)DOUBLE(3), STREAM));
}

PyObject *fn_fast_cross_entropy(struct call *c)
{
    return give(c, mlx_fast_cross_entropy(&c->res, ARRAY(0), ARRAY(1), STREAM));
}

PyObject *fn_fast_rope(struct call *c)
{
    mlx_optional_float base = { GIVEN(3) ? (float)DOUBLE(3) : 0, GIVEN(3) };
    if (call_operands(c, 5, 1))
        return NULL;
    return give(c, mlx_fast_rope_dynamic(&c->res, ARRAY(0), INT(1), BOOL(2), base, (float)DOUBLE(4),
                                         ARRAY(5), ARRAY(6), STREAM));
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
    return submodule(module, "fast", "Operations of neural networks with kernels of their own.",
                     functions)
               ? 0
               : -1;
}
