/* series.c: see series.h. */
#include "plan/series.h"

#include "shared/scalar.h"

/* v as an element of an inexact type. */
static float rounded(double v, enum dtype t)
{
    switch (t) {
    case DT_float16: return f32_from_f16(f16_from_f64(v));
    case DT_bfloat16: return f32_from_bf16(bf16_from_f64(v));
    default: return (float)v;
    }
}

/* As NumPy: the first two values are rounded to the type, and their difference is the step. */
struct series series_of_arange(const struct arange_args *a, enum dtype t)
{
    struct series s = { .count = -1 };
    double second = a->start + a->step;
    if (t == DT_float64) {
        s.in = SERIES_F64;
        s.first = a->start;
        s.step = second - a->start;
    } else if (dtype_is_inexact(t)) {
        s.in = SERIES_F32;
        s.first_f32 = rounded(a->start, t);
        s.step_f32 = rounded(second, t) - s.first_f32;
    } else {
        bool u = t == DT_uint64;
        s.in = SERIES_I64;
        s.first_i64 = u ? u64_from_f64(a->start) : (uint64_t)i64_from_f64(a->start);
        s.step_i64 = (u ? u64_from_f64(second) : (uint64_t)i64_from_f64(second)) - s.first_i64;
    }
    return s;
}

struct series series_of_linspace(const struct linspace_args *a)
{
    int steps = a->num - a->endpoint;
    return (struct series){ .in = SERIES_F64,
                            .first = a->start,
                            .step = steps > 0 ? (a->stop - a->start) / steps : 0,
                            .last = a->stop,
                            .count = a->endpoint && a->num > 1 ? a->num - 1 : -1 };
}
