/* series.c: see series.h. */
#include "plan/series.h"

#include <float.h>
#include <math.h>

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

/* As NumPy: the first two values are rounded to the type, and their difference is the step.  Where that is no number,
 * and where its multiples may be none, each value is computed in double and becomes infinite by itself. */
struct series series_of_arange(const struct arange_args *a, enum dtype t)
{
    double second = a->start + a->step;
    struct series s = { .in = SERIES_F64, .first = a->start, .step = a->step, .count = -1 };
    if (t == DT_float64) {
        if (isfinite(second))
            s.step = second - a->start;
    } else if (dtype_is_inexact(t)) {
        s.first_f32 = rounded(a->start, t);
        s.step_f32 = rounded(second, t) - s.first_f32;
        if (isfinite(s.first_f32) && isfinite(s.step_f32) && fabs(a->stop - a->start) < FLT_MAX / 2)
            s.in = SERIES_F32;
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
