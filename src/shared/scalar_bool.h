/* scalar_bool.h: the formulas of bool, a template over T (uint8_t) and K.
 *
 * An operand is true where its byte is not 0, which may be any other; results are 0 or 1.
 *
 * bool adds as "or", multiplies as "and" and subtracts as "exclusive or"; where an integer row has
 * no better reading it is that of a one-bit unsigned number, so x // 0 is 0, x % 0 is x, and a
 * shift by one leaves nothing. */

FN T K(truth)(T x) { return x != 0; }
#define IS(x) K(truth)(x)

FN T K(abs)(T x) { return IS(x); }
FN T K(sign)(T x) { return IS(x); }
FN T K(square)(T x) { return IS(x); }
FN T K(floor)(T x) { return IS(x); }
FN T K(ceil)(T x) { return IS(x); }
FN T K(trunc)(T x) { return IS(x); }
FN T K(rint)(T x) { return IS(x); }
FN T K(conjugate)(T x) { return IS(x); }
FN T K(real)(T x) { return IS(x); }
FN T K(imag)(T x) { return (void)x, 0; }
FN T K(logical_not)(T x) { return x == 0; }
FN T K(bitwise_invert)(T x) { return x == 0; }

FN T K(logical_and)(T a, T b) { return IS(a) & IS(b); }
FN T K(logical_or)(T a, T b) { return IS(a | b); }
FN T K(logical_xor)(T a, T b) { return IS(a) ^ IS(b); }
FN T K(greater)(T a, T b) { return IS(a) & (b == 0); }
FN T K(greater_equal)(T a, T b) { return IS(a) | (b == 0); }
FN T K(less)(T a, T b) { return K(greater)(b, a); }
FN T K(less_equal)(T a, T b) { return K(greater_equal)(b, a); }
FN T K(not_equal)(T a, T b) { return K(logical_xor)(a, b); }
FN T K(equal)(T a, T b) { return IS(a) ^ (b == 0); }
FN T K(add)(T a, T b) { return K(logical_or)(a, b); }
FN T K(subtract)(T a, T b) { return K(logical_xor)(a, b); }
FN T K(multiply)(T a, T b) { return K(logical_and)(a, b); }
FN T K(floor_divide)(T a, T b) { return K(logical_and)(a, b); }
FN T K(remainder)(T a, T b) { return K(greater)(a, b); }
FN int K(is_one)(T b) { return b != 0; }
FN int K(is_two)(T b) { return (void)b, 0; }
FN T K(first_power)(T a) { return IS(a); }
FN T K(second_power)(T a) { return K(square)(a); }
FN T K(power)(T a, T b) { return K(greater_equal)(a, b); }
FN T K(maximum)(T a, T b) { return K(logical_or)(a, b); }
FN T K(minimum)(T a, T b) { return K(logical_and)(a, b); }
FN T K(bitwise_and)(T a, T b) { return K(logical_and)(a, b); }
FN T K(bitwise_or)(T a, T b) { return K(logical_or)(a, b); }
FN T K(bitwise_xor)(T a, T b) { return K(logical_xor)(a, b); }
FN T K(left_shift)(T a, T b) { return K(greater)(a, b); }
FN T K(right_shift)(T a, T b) { return K(greater)(a, b); }
#undef IS
