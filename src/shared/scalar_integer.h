/* scalar_integer.h: the formulas of one integer type, a template over T, U, W, Q, WIDTH, SIGNED
 * and K (scalar.h), all of which it undefines.
 *
 * Arithmetic wraps around: it is done in W, unsigned and at least as wide as int, so that
 * nothing is undefined, and cut to T.  Division rounds down; x // 0 is 0 and x % 0 is x. */

FN int K(is_negative)(T x) { return SIGNED & (int)((U)x >> (WIDTH - 1)); }

FN T K(negative)(T x) { return (T)(0 - (W)x); }
FN T K(abs)(T x) { return K(is_negative)(x) ? K(negative)(x) : x; }
FN T K(sign)(T x) { return (T)((x != 0) - 2 * K(is_negative)(x)); }
FN T K(square)(T x) { return (T)((W)x * (W)x); }
FN T K(floor)(T x) { return x; }
FN T K(ceil)(T x) { return x; }
FN T K(trunc)(T x) { return x; }
FN T K(rint)(T x) { return x; }
FN T K(conjugate)(T x) { return x; }
FN T K(real)(T x) { return x; }
FN T K(imag)(T x) { return (void)x, 0; }
FN T K(bitwise_invert)(T x) { return (T)~x; }

FN T K(add)(T a, T b) { return (T)((W)a + (W)b); }
FN T K(subtract)(T a, T b) { return (T)((W)a - (W)b); }
FN T K(multiply)(T a, T b) { return (T)((W)a * (W)b); }

/* The divisors the machine traps on are set apart: 0, and -1, by which the least number
 * overflows. */
FN int K(is_odd_divisor)(T b) { return b == 0 || (SIGNED && b == (T)-1); }

FN T K(quotient)(T a, T b) { return (T)((Q)a / (Q)(K(is_odd_divisor)(b) ? 1 : b)); } /* cut */

FN T K(remainder)(T a, T b)
{
    T r = (T)((W)a - (W)K(quotient)(a, b) * (W)b);
    r = r != 0 && K(is_negative)((T)(r ^ b)) ? (T)((W)r + (W)b) : r;
    return K(is_odd_divisor)(b) ? (b == 0 ? a : 0) : r;
}

FN T K(floor_divide)(T a, T b)
{
    T q = K(quotient)(a, b), r = (T)((W)a - (W)q * (W)b);
    q = r != 0 && K(is_negative)((T)(r ^ b)) ? (T)((W)q - 1) : q;
    return K(is_odd_divisor)(b) ? (b == 0 ? 0 : K(negative)(a)) : q;
}

FN int K(is_one)(T b) { return b == 1; }
FN int K(is_two)(T b) { return b == 2; }
FN T K(first_power)(T a) { return a; }
FN T K(second_power)(T a) { return K(square)(a); }
/* By repeated squaring.  A negative exponent gives 1 / a^|b| without its fraction: 0, but for the
 * bases 1 and -1, for which only the exponent's last bit counts; 0 to such a power is 0. */
FN T K(power)(T a, T b)
{
    int below = K(is_negative)(b);
    U n = below ? (U)(b & 1) : (U)b;
    W y = 1, s = (W)a;
    for (; n; n = (U)(n >> 1)) {
        y = n & 1 ? y * s : y;
        s *= s;
    }
    return below && a != 1 && a != (T)-1 ? 0 : (T)y;
}

FN T K(maximum)(T a, T b) { return a > b ? a : b; }
FN T K(minimum)(T a, T b) { return a < b ? a : b; }
FN uint8_t K(equal)(T a, T b) { return a == b; }
FN uint8_t K(not_equal)(T a, T b) { return a != b; }
FN uint8_t K(less)(T a, T b) { return a < b; }
FN uint8_t K(less_equal)(T a, T b) { return a <= b; }
FN uint8_t K(greater)(T a, T b) { return a > b; }
FN uint8_t K(greater_equal)(T a, T b) { return a >= b; }
FN T K(bitwise_and)(T a, T b) { return a & b; }
FN T K(bitwise_or)(T a, T b) { return a | b; }
FN T K(bitwise_xor)(T a, T b) { return a ^ b; }

/* A count of the width or more moves every bit out; a negative count is such a count. */
FN T K(left_shift)(T a, T b) { return (U)b < WIDTH ? (T)((W)a << ((U)b & (WIDTH - 1))) : 0; }

FN T K(right_shift)(T a, T b)
{
    T out = K(is_negative)(a) ? (T)-1 : 0;
    return (U)b < WIDTH ? (T)(a >> ((U)b & (WIDTH - 1))) : out;
}

#undef T
#undef U
#undef W
#undef Q
#undef WIDTH
#undef SIGNED
#undef K
