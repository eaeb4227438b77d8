/* sort.h: sorting and splitting runs of 32 and 64-bit integers, to which other types are mapped.
 *
 * Keys are signed and order as the values do, NaN last. */
#ifndef MX_CPU_KERNELS_SORT_H
#define MX_CPU_KERNELS_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"

/* Keys of types of up to 32 bits are int32_t, of others int64_t.  Every NaN has the largest key.
 * With `ranks` values that are equal have equal keys; else -0 comes before 0, so that values can be
 * had back from keys.  In place where sizes are equal. */
typedef void sort_keys_fn(void *key, const void *x, size_t n, bool ranks);
typedef void sort_values_fn(void *y, const void *key, size_t n);

struct sort_kernels {
    void (*sort_i32)(int32_t *p, size_t n);
    void (*sort_i64)(int64_t *p, size_t n);
    /* The k-th smallest to p[k], none above it before it and none below it after it. */
    void (*select_i32)(int32_t *p, size_t n, size_t k);
    void (*select_i64)(int64_t *p, size_t n, size_t k);
    /* All below v first; returns how many they are. */
    size_t (*split_i32)(int32_t *p, size_t n, int32_t v);
    size_t (*split_i64)(int64_t *p, size_t n, int64_t v);
    /* For each of count values how many of n < 2^31 sorted keys are below it, or with `right` not above it. */
    void (*search_i32)(uint32_t *y, const int32_t *key, size_t n, const int32_t *v, size_t count, bool right);
    void (*search_i64)(uint32_t *y, const int64_t *key, size_t n, const int64_t *v, size_t count, bool right);
    sort_keys_fn *keys[DT_COUNT];
    sort_values_fn *values[DT_COUNT]; /* NULL for complex64, whose zeros lose their sign */
    /* p[i] = key[i] << 32 | first + i */
    void (*pair)(int64_t *p, const int32_t *key, size_t n, uint32_t first);
};

#endif
