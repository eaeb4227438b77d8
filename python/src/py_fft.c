/* py_fft.c: mlx.core.fft. */
#include "py.h"

#include <string.h>

/* Parameter i as a norm; -1 with an exception set. */
static int norm_of(struct py_call *c, int i)
{
    static const char *const names[] = { "backward", "ortho", "forward" };
    for (size_t k = 0; k < LENGTH(names); k++)
        if (!strcmp(TEXT(i), names[k]))
            return (int)k;
    PyErr_Format(exc_value, "[%s] expected a norm of 'backward', 'ortho' or 'forward', got '%s'", c->sig->name,
                 TEXT(i));
    return -1;
}

/* Of one axis: without n, its length is what the function for several takes by default. */
#define ALONG(name)                                                                                   \
    PyObject *fn_fft_##name(struct py_call *c)                                                        \
    {                                                                                                 \
        int norm = norm_of(c, 3);                                                                     \
        return norm < 0 ? NULL                                                                        \
                        : give(c, mlx_fft_##name##n(&c->res, ARRAY(0), &INT(1), GIVEN(1), &INT(2), 1, \
                                                    (mlx_fft_norm)norm, STREAM));                     \
    }
ALONG(fft)
ALONG(ifft)
ALONG(rfft)
ALONG(irfft)

typedef int transform(mlx_array *, const mlx_array, const int *, size_t, const int *, size_t, mlx_fft_norm,
                      const mlx_stream);

static PyObject *several(struct py_call *c, transform *f)
{
    static const int none;
    int norm = norm_of(c, 3);
    const int *axes = GIVEN(2) ? c->v[2].ints.n ? c->v[2].ints.v : &none : NULL;
    if (norm < 0)
        return NULL;
    if (axes == &none) /* along no axis nothing happens, not even to the dtype */
        return give(c, mlx_array_set(&c->res, ARRAY(0)));
    if (GIVEN(1) && c->v[1].ints.n == 0) {
        PyErr_Format(exc_value, "[%s] expected one size for each axis, got none", c->sig->name);
        return NULL;
    }
    return give(c, f(&c->res, ARRAY(0), GIVEN(1) ? c->v[1].ints.v : NULL, GIVEN(1) ? (size_t)c->v[1].ints.n : 0, axes,
                     GIVEN(2) ? (size_t)c->v[2].ints.n : 0, (mlx_fft_norm)norm, STREAM));
}

#define SEVERAL(name) \
    PyObject *fn_fft_##name(struct py_call *c) { return several(c, mlx_fft_##name); }
SEVERAL(fft2)
SEVERAL(ifft2)
SEVERAL(rfft2)
SEVERAL(irfft2)
SEVERAL(fftn)
SEVERAL(ifftn)
SEVERAL(rfftn)
SEVERAL(irfftn)

PyObject *fn_fft_hfft(struct py_call *c) { return call_in_python(c); }
PyObject *fn_fft_ihfft(struct py_call *c) { return call_in_python(c); }

PyObject *fn_fft_fftfreq(struct py_call *c)
{
    return give(c, mlx_fft_fftfreq_dtype(&c->res, INT(0), DOUBLE(1), DTYPE(3, MLX_FLOAT32), STREAM));
}

PyObject *fn_fft_rfftfreq(struct py_call *c)
{
    return give(c, mlx_fft_rfftfreq_dtype(&c->res, INT(0), DOUBLE(1), DTYPE(3, MLX_FLOAT32), STREAM));
}

#define SHIFT(name)                                                                                             \
    PyObject *fn_fft_##name(struct py_call *c)                                                                  \
    {                                                                                                           \
        static const int none;                                                                                  \
        const int *axes = GIVEN(1) ? c->v[1].ints.n ? c->v[1].ints.v : &none : NULL;                            \
        return give(c, mlx_fft_##name(&c->res, ARRAY(0), axes, GIVEN(1) ? (size_t)c->v[1].ints.n : 0, STREAM)); \
    }
SHIFT(fftshift)
SHIFT(ifftshift)

PyObject *fn_fft_stft(struct py_call *c)
{
    static const char *const modes[] = { "constant", "edge", "reflect" };
    int norm = norm_of(c, 7), n = INT(1), mode = -1;
    for (size_t k = 0; k < LENGTH(modes); k++)
        if (!strcmp(TEXT(6), modes[k]))
            mode = (int)k;
    if (norm < 0)
        return NULL;
    if (mode < 0) {
        PyErr_Format(exc_value, "[stft] expected a pad_mode of 'reflect', 'constant' or 'edge', got '%s'", TEXT(6));
        return NULL;
    }
    return give(c, mlx_fft_stft(&c->res, ARRAY(0), n, GIVEN(2) ? INT(2) : n / 4, GIVEN(3) ? INT(3) : n, ARRAY(4),
                                BOOL(5), mode, (mlx_fft_norm)norm, GIVEN(8) ? BOOL(8) : -1, STREAM));
}

PyObject *fn_fft_istft(struct py_call *c)
{
    bool onesided = GIVEN(7) ? BOOL(7) : true;
    size_t ndim = mlx_array_ndim(ARRAY(0));
    int norm = norm_of(c, 6), rows = ndim > 1 ? mlx_array_dim(ARRAY(0), (int)ndim - 2) : 1;
    int n = GIVEN(1) ? INT(1) : !onesided ? rows : rows > INT32_MAX / 2 ? INT32_MAX : 2 * (rows - 1);
    if (norm < 0)
        return NULL;
    if (GIVEN(8) && INT(8) < 0) {
        PyErr_Format(exc_value, "[istft] expected a length of at least 0, got %d", INT(8));
        return NULL;
    }
    return give(c, mlx_fft_istft(&c->res, ARRAY(0), n, GIVEN(2) ? INT(2) : n / 4, GIVEN(3) ? INT(3) : n, ARRAY(4),
                                 BOOL(5), (mlx_fft_norm)norm, onesided, GIVEN(8) ? INT(8) : -1, STREAM));
}

#define FFT(name, text, doc)                                                                   \
    static struct signature sig_##name = SIGNATURE(#name, text);                               \
    static PyObject *py_##name(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *kw) \
    {                                                                                          \
        (void)m;                                                                               \
        return call_function(&sig_##name, fn_fft_##name, NULL, args, n, kw);                   \
    }
#include "functions.def"

static PyMethodDef functions[] = {
#define FFT(name, text, doc) { #name, PYFN(py_##name), FAST, #name "(" text ")\n--\n\n" doc },
#include "functions.def"
    { NULL, NULL, 0, NULL },
};

int fft_init(PyObject *module) { return submodule(module, "fft", "Discrete Fourier transforms.", functions) ? 0 : -1; }
