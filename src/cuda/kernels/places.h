/* places.h: where an element of a shape is, by its number. */
#ifndef MX_CUDA_KERNELS_PLACES_H
#define MX_CUDA_KERNELS_PLACES_H

/* The remainder of *i, a number below n, by `size`; *i becomes the quotient. */
FN int64_t place_along(int64_t *i, uint32_t size, int64_t n)
{
    int64_t up = n <= 0xffffffffLL ? (int64_t)((uint32_t)*i / size) : *i / size, here = *i - up * size;
    *i = up;
    return here;
}

struct two_places {
    int64_t a, b;
};
FN struct two_places two_places_of(int64_t i, int64_t n, int ndim, const uint32_t *shape, const int64_t *a,
                                   const int64_t *b)
{
    struct two_places p = { 0, 0 };
    ROLLED
    for (int d = ndim; d-- > 0;) {
        int64_t here = d ? place_along(&i, shape[d], n) : i;
        p.a += here * a[d];
        p.b += here * b[d];
    }
    return p;
}

#endif
