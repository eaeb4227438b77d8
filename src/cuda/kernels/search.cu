/* search.cu: places in sorted sequences. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/search.h"
#include "shared/order.h"

/* What is compared, as cpu/kernels/sort.c has it. */
FN int64_t order_of(const void *p, int32_t type, int64_t i)
{
    switch (type) {
    case DT_bool_: return ((const uint8_t *)p)[i] != 0;
    case DT_uint8: return ((const uint8_t *)p)[i];
    case DT_uint16: return ((const uint16_t *)p)[i];
    case DT_uint32: return ((const uint32_t *)p)[i];
    case DT_uint64: return ((const int64_t *)p)[i] ^ INT64_MIN;
    case DT_int8: return ((const int8_t *)p)[i];
    case DT_int16: return ((const int16_t *)p)[i];
    case DT_int32: return ((const int32_t *)p)[i];
    case DT_int64: return ((const int64_t *)p)[i];
    case DT_float16: return order_f16(((const int16_t *)p)[i], 1);
    case DT_bfloat16: return order_bf16(((const int16_t *)p)[i], 1);
    case DT_float32: return order_f32(((const int32_t *)p)[i], 1);
    case DT_float64: return order_f64(((const int64_t *)p)[i], 1);
    default: return order_c64(((const int32_t *)p)[2 * i], ((const int32_t *)p)[2 * i + 1]);
    }
}

KERNEL(cu_search, struct search_call)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.count)
        return;
    int64_t begin = i / a.each * a.n, at = begin, v = order_of(a.v, a.type, i);
    for (int64_t left = a.n; left > 0;) {
        int64_t half = left / 2, key = order_of(a.x, a.type, at + half);
        bool on = a.right ? key <= v : key < v;
        at = on ? at + half + 1 : at;
        left = on ? left - half - 1 : half;
    }
    a.y[i] = (uint32_t)(at - begin);
}
