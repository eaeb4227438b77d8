/* rows.h: which rows of ops.def have kernels for which types. */
#ifndef MX_SHARED_ROWS_H
#define MX_SHARED_ROWS_H

/* ROW_<set>_<kind>(...) is its arguments where the kernels of a set's rows take types of that kind
 * (b bool, i integer, f float32 and float64, c complex64), else nothing.  ROW(set, ...) asks for
 * the KIND of this pass. */
#define ROW_(set, kind, ...) ROW_##set##_##kind(__VA_ARGS__)
#define ROW__(set, kind, ...) ROW_(set, kind, __VA_ARGS__)
#define ROW(set, ...) ROW__(set, KIND, __VA_ARGS__)
#define ROW_ANY_b(...) __VA_ARGS__
#define ROW_ANY_i(...) __VA_ARGS__
#define ROW_ANY_f(...) __VA_ARGS__
#define ROW_ANY_c(...) __VA_ARGS__
#define ROW_NUMERIC_b(...)
#define ROW_NUMERIC_i(...) __VA_ARGS__
#define ROW_NUMERIC_f(...) __VA_ARGS__
#define ROW_NUMERIC_c(...) __VA_ARGS__
#define ROW_REAL_b(...) __VA_ARGS__
#define ROW_REAL_i(...) __VA_ARGS__
#define ROW_REAL_f(...) __VA_ARGS__
#define ROW_REAL_c(...)
#define ROW_INEXACT_b(...)
#define ROW_INEXACT_i(...)
#define ROW_INEXACT_f(...) __VA_ARGS__
#define ROW_INEXACT_c(...) __VA_ARGS__
#define ROW_FLOAT_b(...)
#define ROW_FLOAT_i(...)
#define ROW_FLOAT_f(...) __VA_ARGS__
#define ROW_FLOAT_c(...)
#define ROW_INTEGER_b(...) __VA_ARGS__
#define ROW_INTEGER_i(...) __VA_ARGS__
#define ROW_INTEGER_f(...)
#define ROW_INTEGER_c(...)
#define ROW_SHIFTED_b(...)
#define ROW_SHIFTED_i(...) __VA_ARGS__
#define ROW_SHIFTED_f(...)
#define ROW_SHIFTED_c(...)
#define ROW_BOOL_b(...) __VA_ARGS__
#define ROW_BOOL_i(...)
#define ROW_BOOL_f(...)
#define ROW_BOOL_c(...)

#endif
