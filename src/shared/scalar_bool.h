/* scalar_bool.h: the formulas of bool, a template over T (uint8_t) and K.
 *
 * bool adds as "or", multiplies as "and" and subtracts as "exclusive or"; where an integer row has
 * no better reading it is that of a one-bit unsigned number, so x // 0 is 0, x % 0 is x, and a
 * shift by one leaves nothing. */

FN T K(abs)(T x) { return x; }
FN T K(sign)(T x) { return x; }
FN T K(square)(T x) { return x; }
FN T K(floor)(T x) { return x; }
FN T K(ceil)(T x) { return x; }
FN T K(trunc)(T x) { return x; }
FN T K(rint)(T x) { return x; }
FN T K(conjugate)(T x) { return x; }
FN T K(real)(T x) { return x; }
FN T K(imag)(T x) { return (void)x, 0; }
FN T K(logical_not)(T x) { return x ^ 1; }
FN T K(bitwise_invert)(T x) { return x ^ 1; }

FN T K(add)(T a, T b) { return a | b; }
FN T K(subtract)(T a, T b) { return a ^ b; }
FN T K(multiply)(T a, T b) { return a & b; }
FN T K(floor_divide)(T a, T b) { return a & b; }
FN T K(remainder)(T a, T b) { return a & (b ^ 1); }
FN T K(power)(T a, T b) { return a | (b ^ 1); }
FN T K(maximum)(T a, T b) { return a | b; }
FN T K(minimum)(T a, T b) { return a & b; }
FN uint8_t K(equal)(T a, T b) { return (a ^ b) ^ 1; }
FN uint8_t K(not_equal)(T a, T b) { return a ^ b; }
FN uint8_t K(less)(T a, T b) { return (a ^ 1) & b; }
FN uint8_t K(less_equal)(T a, T b) { return (a ^ 1) | b; }
FN uint8_t K(greater)(T a, T b) { return a & (b ^ 1); }
FN uint8_t K(greater_equal)(T a, T b) { return a | (b ^ 1); }
FN uint8_t K(logical_and)(T a, T b) { return a & b; }
FN uint8_t K(logical_or)(T a, T b) { return a | b; }
FN uint8_t K(logical_xor)(T a, T b) { return a ^ b; }
FN T K(bitwise_and)(T a, T b) { return a & b; }
FN T K(bitwise_or)(T a, T b) { return a | b; }
FN T K(bitwise_xor)(T a, T b) { return a ^ b; }
FN T K(left_shift)(T a, T b) { return a & (b ^ 1); }
FN T K(right_shift)(T a, T b) { return a & (b ^ 1); }
