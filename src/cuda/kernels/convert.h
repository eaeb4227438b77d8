/* convert.h: a number of one type as another, with the results of cpu/kernels/cast*.c.
 *
 * CONVERT(to, from, x), after the suffixes of core/dtype.h. */
#ifndef MX_CUDA_KERNELS_CONVERT_H
#define MX_CUDA_KERNELS_CONVERT_H

/* A number as what arithmetic knows; bytes that are no bool may have been made one. */
#define VALUE_b8(x) ((x) != 0)
#define VALUE_u8(x) (x)
#define VALUE_u16(x) (x)
#define VALUE_u32(x) (x)
#define VALUE_u64(x) (x)
#define VALUE_i8(x) (x)
#define VALUE_i16(x) (x)
#define VALUE_i32(x) (x)
#define VALUE_i64(x) (x)
#define VALUE_f16(x) f32_from_f16(x)
#define VALUE_f32(x) (x)
#define VALUE_f64(x) (x)
#define VALUE_bf16(x) f32_from_bf16(x)
#define VALUE_c64(x) (x).re

/* How it becomes an integer, of the width w: as integers do, as float32 or as float64. */
#define WHOLE_b8(w, x) (x)
#define WHOLE_u8(w, x) (x)
#define WHOLE_u16(w, x) (x)
#define WHOLE_u32(w, x) (x)
#define WHOLE_u64(w, x) (x)
#define WHOLE_i8(w, x) (x)
#define WHOLE_i16(w, x) (x)
#define WHOLE_i32(w, x) (x)
#define WHOLE_i64(w, x) (x)
#define WHOLE_f16(w, x) w##_from_f32(x)
#define WHOLE_f32(w, x) w##_from_f32(x)
#define WHOLE_f64(w, x) w##_from_f64(x)
#define WHOLE_bf16(w, x) w##_from_f32(x)
#define WHOLE_c64(w, x) w##_from_f32(x)

/* The float32 on the way to a half type, which rounds as if it were not between. */
#define DOOR_b8(x) ((float)(x))
#define DOOR_u8(x) ((float)(x))
#define DOOR_u16(x) ((float)(x))
#define DOOR_u32(x) f32_odd_from_f64((double)(x))
#define DOOR_u64(x) f32_odd_from_u64(x)
#define DOOR_i8(x) ((float)(x))
#define DOOR_i16(x) ((float)(x))
#define DOOR_i32(x) f32_odd_from_f64((double)(x))
#define DOOR_i64(x) f32_odd_from_i64(x)
#define DOOR_f16(x) (x)
#define DOOR_f32(x) (x)
#define DOOR_f64(x) f32_odd_from_f64(x)
#define DOOR_bf16(x) (x)
#define DOOR_c64(x) (x)

#define IMAG(from, x) IMAG_##from(x)
#define IMAG_b8(x) 0
#define IMAG_u8(x) 0
#define IMAG_u16(x) 0
#define IMAG_u32(x) 0
#define IMAG_u64(x) 0
#define IMAG_i8(x) 0
#define IMAG_i16(x) 0
#define IMAG_i32(x) 0
#define IMAG_i64(x) 0
#define IMAG_f16(x) 0
#define IMAG_f32(x) 0
#define IMAG_f64(x) 0
#define IMAG_bf16(x) 0
#define IMAG_c64(x) (x).im

FN complex64 complex_of(float re, float im)
{
    complex64 z;
    z.re = re;
    z.im = im;
    return z;
}

#define TO_b8(from, x) (uint8_t)(VALUE_##from(x) != 0 || IMAG_##from(x) != 0)
#define TO_u8(from, x) (uint8_t) WHOLE_##from(i32, VALUE_##from(x))
#define TO_u16(from, x) (uint16_t) WHOLE_##from(i32, VALUE_##from(x))
#define TO_u32(from, x) (uint32_t) WHOLE_##from(u32, VALUE_##from(x))
#define TO_u64(from, x) (uint64_t) WHOLE_##from(u64, VALUE_##from(x))
#define TO_i8(from, x) (int8_t) WHOLE_##from(i32, VALUE_##from(x))
#define TO_i16(from, x) (int16_t) WHOLE_##from(i32, VALUE_##from(x))
#define TO_i32(from, x) (int32_t) WHOLE_##from(i32, VALUE_##from(x))
#define TO_i64(from, x) (int64_t) WHOLE_##from(i64, VALUE_##from(x))
#define TO_f16(from, x) f16_from_f32(DOOR_##from(VALUE_##from(x)))
#define TO_f32(from, x) (float)VALUE_##from(x)
#define TO_f64(from, x) (double)VALUE_##from(x)
#define TO_bf16(from, x) bf16_from_f32(DOOR_##from(VALUE_##from(x)))
#define TO_c64(from, x) complex_of((float)VALUE_##from(x), IMAG_##from(x))
#define CONVERT(to, from, x) CONVERT_(to, from, x)
#define CONVERT_(to, from, x) TO_##to(from, x)

#endif
