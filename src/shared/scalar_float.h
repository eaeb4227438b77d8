/* scalar_float.h: the formulas of one real floating type, a template over T, K and M.
 *
 * Edge cases are NumPy's unless a comment says otherwise. */

FN T K(abs)(T x) { return M(fabs)(x); }
FN T K(negative)(T x) { return -x; }
FN T K(sign)(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : (T)0; } /* NaN gives 0 */
FN T K(square)(T x) { return x * x; }
FN T K(sqrt)(T x) { return M(sqrt)(x); }
FN T K(rsqrt)(T x) { return M(rsqrt)(x); }
FN T K(exp)(T x) { return M(exp)(x); }
FN T K(expm1)(T x) { return M(expm1)(x); }
FN T K(log)(T x) { return M(log)(x); }
FN T K(log2)(T x) { return M(log2)(x); }
FN T K(log10)(T x) { return M(log10)(x); }
FN T K(log1p)(T x) { return M(log1p)(x); }
FN T K(sin)(T x) { return M(sin)(x); }
FN T K(cos)(T x) { return M(cos)(x); }
FN T K(tan)(T x) { return M(tan)(x); }
FN T K(arcsin)(T x) { return M(asin)(x); }
FN T K(arccos)(T x) { return M(acos)(x); }
FN T K(arctan)(T x) { return M(atan)(x); }
FN T K(sinh)(T x) { return M(sinh)(x); }
FN T K(cosh)(T x) { return M(cosh)(x); }
FN T K(tanh)(T x) { return M(tanh)(x); }
FN T K(arcsinh)(T x) { return M(asinh)(x); }
FN T K(arccosh)(T x) { return M(acosh)(x); }
FN T K(arctanh)(T x) { return M(atanh)(x); }
FN T K(erf)(T x) { return M(erf)(x); }
FN T K(erfinv)(T x) { return M(erfinv)(x); }

/* e^x / (1 + e^x) below zero, where e^-x would overflow before the result is 0. */
FN T K(sigmoid)(T x)
{
    T e = M(exp)(-M(fabs)(x));
    return (x < 0 ? e : (T)1) / (1 + e);
}

/* Its derivative, which is the same left and right of zero. */
FN T K(sigmoid_slope)(T x)
{
    T e = M(exp)(-M(fabs)(x)), u = 1 + e;
    return e / (u * u);
}

/* x e^x / (1 + e^x) below zero, with the root of e^x, which is a normal number where x e^x is one. */
FN T K(silu)(T x)
{
    T h = M(exp)(-M(fabs)(x) / 2);
    return (x < 0 ? x * h * h : x) / (1 + h * h);
}

/* Its derivative, s(x) (1 + x s(-x)) with the sigmoid s, likewise.  Infinite x meet h = 0. */
FN T K(silu_slope)(T x)
{
    T h = M(exp)(-M(fabs)(x) / 2), s = 1 / (1 + h * h), most = h > 0 ? x : (T)0;
    T gate = x < 0 ? h * s : s, rest = x < 0 ? h : (T)1, other = x < 0 ? s : h * h * s;
    return gate * (rest + rest * (most * other));
}

FN T K(floor)(T x) { return M(floor)(x); }
FN T K(ceil)(T x) { return M(ceil)(x); }
FN T K(trunc)(T x) { return M(trunc)(x); }
FN T K(rint)(T x) { return M(rint)(x); }
FN T K(conjugate)(T x) { return x; }
FN T K(real)(T x) { return x; }
FN T K(imag)(T x) { return (void)x, 0; }

FN T K(add)(T a, T b) { return a + b; }
FN T K(subtract)(T a, T b) { return a - b; }
FN T K(multiply)(T a, T b) { return a * b; }
FN T K(divide)(T a, T b) { return a / b; }

/* The quotient cut to an integer and the remainder that belongs to it.  The remainder is exact
 * as long as the quotient has fewer bits than T; a quotient rounded up shows by a remainder of
 * the other sign. */
typedef struct {
    T quotient, remainder;
} K(division);
#define QUOTIENT_END (sizeof(T) == sizeof(float) ? (T)0x1p23 : (T)0x1p52)
FN int K(are_near)(T a, T b) { return !(M(fabs)(a / b) >= QUOTIENT_END); }
FN K(division) K(divide_cut)(T a, T b)
{
    T q = M(trunc)(a / b), r = M(residue)(a, q, b);
    int over = a < 0 ? r > 0 : r < 0;
    K(division) y = { over ? q - M(copysign)((T)1, q) : q, over ? r + M(copysign)(b, a) : r };
    y.remainder = q == 0 ? a : y.remainder;
    return y;
}

/* a - b floor(a / b), with one rounding where the signs differ; a zero has the sign of b. */
FN T K(floor_remainder)(T r, T b)
{
    T up = (r < 0) != (b < 0) ? r + b : r;
    return r == 0 ? M(copysign)((T)0, b) : up;
}
FN T K(remainder_near)(T a, T b) { return K(floor_remainder)(K(divide_cut)(a, b).remainder, b); }
FN T K(remainder)(T a, T b)
{
    return K(are_near)(a, b) ? K(remainder_near)(a, b) : K(floor_remainder)(M(fmod)(a, b), b);
}

/* The quotient that belongs to that remainder, so 1 // 0.1 is 9 although 1 / 0.1 rounds to 10.
 * One too large for a fraction is a / b itself, and so is x // 0; an infinite a has no remainder
 * and gives NaN. */
FN T K(floor_divide)(T a, T b)
{
    K(division) d = K(divide_cut)(a, b);
    T q = d.remainder != 0 && (d.remainder < 0) != (b < 0) ? d.quotient - 1 : d.quotient;
    q = K(are_near)(a, b) ? q : a / b;
    q = q == 0 ? M(copysign)((T)0, a / b) : q;
    return b != 0 && a - a != 0 ? a - a : q;
}
#undef QUOTIENT_END

/* Squares, above all of differences, are the powers that programs ask for most, and first powers their derivatives. */
FN int K(is_one)(T b) { return b == 1; }
FN int K(is_two)(T b) { return b == 2; }
FN T K(first_power)(T a) { return a; }
FN T K(second_power)(T a) { return K(square)(a); }
FN T K(power)(T a, T b) { return K(is_two)(b) ? K(second_power)(a) : M(pow)(a, b); }
FN T K(maximum)(T a, T b) { return a > b || a != a ? a : b; } /* NaN where either is */
FN T K(minimum)(T a, T b) { return a < b || a != a ? a : b; }

/* log(e^a + e^b).  Equal operands give a + ln 2, which also settles both infinities. */
FN T K(logaddexp)(T a, T b)
{
    T tail = M(log1p)(M(exp)(-M(fabs)(a - b)));
    return a == b ? a + (T)0.69314718055994530942 : (a > b ? a : b) + tail;
}

FN T K(arctan2)(T a, T b) { return M(atan2)(a, b); }

/* The larger times sqrt(1 + r^2), where r, the ratio, is at most 1. */
FN T K(hypot)(T a, T b)
{
    T u = M(fabs)(a), v = M(fabs)(b), most = u > v ? u : v, r = (u > v ? v : u) / most;
    T y = most == 0 ? u + v : most * M(sqrt)(1 + r * r);
    return 1 / u == 0 ? u : 1 / v == 0 ? v : y;
}

FN T K(copysign)(T a, T b) { return M(copysign)(a, b); }
FN uint8_t K(equal)(T a, T b) { return a == b; }
FN uint8_t K(not_equal)(T a, T b) { return a != b; }
FN uint8_t K(less)(T a, T b) { return a < b; }
FN uint8_t K(less_equal)(T a, T b) { return a <= b; }
FN uint8_t K(greater)(T a, T b) { return a > b; }
FN uint8_t K(greater_equal)(T a, T b) { return a >= b; }
