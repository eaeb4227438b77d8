/* order_at.h: what elements of any type are compared by, as integers that order alike.
 *
 * Include cuda/kernels/gpu.h before. */
#ifndef MX_CUDA_KERNELS_ORDER_AT_H
#define MX_CUDA_KERNELS_ORDER_AT_H

#include "core/dtype.h"
#include "shared/order.h"

/* As cpu/kernels/sort.c has it; ranks: -0 is 0. */
FN int64_t order_at(const void *p, int32_t type, int64_t i, int ranks)
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
    case DT_float16: return order_f16(((const int16_t *)p)[i], ranks);
    case DT_bfloat16: return order_bf16(((const int16_t *)p)[i], ranks);
    case DT_float32: return order_f32(((const int32_t *)p)[i], ranks);
    case DT_float64: return order_f64(((const int64_t *)p)[i], ranks);
    default: return order_c64(((const int32_t *)p)[2 * i], ((const int32_t *)p)[2 * i + 1]);
    }
}

#endif
