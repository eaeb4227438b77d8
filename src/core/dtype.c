/* dtype.c: sizes, names and the promotion lattice. */
#include "core/dtype.h"

static const struct {
    const char *name;
    uint8_t size;
    char kind;
} info[DT_COUNT] = {
#define X(name, suffix, type, size, kind) [DT_##name] = { #name, size, kind },
    MX_DTYPES(X)
#undef X
};

char dtype_kind(enum dtype t) { return info[t].kind; }

double dtype_largest(enum dtype t)
{
    return t == DT_float16    ? 65504
           : t == DT_bfloat16 ? 0x1.fep127
           : t == DT_float64  ? 0x1.fffffffffffffp1023
                              : 0x1.fffffep127;
}

const char *dtype_name(enum dtype t) { return t == DT_bool_ ? "bool" : info[t].name; }

/* Numbers of a kind are among those of the next. */
static int rank(enum dtype t)
{
    char kind = info[t].kind;
    return kind == 'b' ? 0 : kind == 'f' ? 2 : kind == 'c' ? 3 : 1;
}

bool dtype_loses(enum dtype from, enum dtype to) { return rank(from) > rank(to); }

bool dtype_loses_back(enum dtype from, enum dtype to) { return dtype_is_inexact(to) && dtype_loses(from, to); }

/* Signed type of twice the bits of an unsigned one; none holds uint64, which goes to float32. */
static enum dtype wider_signed(size_t unsigned_size)
{
    return unsigned_size == 1 ? DT_int16 : unsigned_size == 2 ? DT_int32 : DT_int64;
}

static enum dtype promote_integers(enum dtype a, enum dtype b)
{
    size_t na = info[a].size, nb = info[b].size;
    if (info[a].kind == info[b].kind)
        return na >= nb ? a : b;
    enum dtype u = info[a].kind == 'u' ? a : b, i = u == a ? b : a;
    if (u == DT_uint64)
        return DT_float32;
    return info[i].size > info[u].size ? i : wider_signed(info[u].size);
}

enum dtype promote(enum dtype a, enum dtype b)
{
    if (a == b)
        return a;
    if (info[a].kind == 'b')
        return b;
    if (info[b].kind == 'b')
        return a;
    if (a == DT_complex64 || b == DT_complex64)
        return DT_complex64;
    bool fa = info[a].kind == 'f', fb = info[b].kind == 'f';
    if (!fa && !fb)
        return promote_integers(a, b);
    if (fa && fb)
        return info[a].size > info[b].size ? a : info[a].size < info[b].size ? b : DT_float32;
    return fa ? a : b;
}

enum dtype promote_weak(enum dtype array, char kind)
{
    char have = info[array].kind;
    if (kind == 'b')
        return array;
    if (kind == 'i')
        return have == 'b' ? DT_int32 : array;
    if (kind == 'f')
        return have == 'f' || have == 'c' ? array : DT_float32;
    return DT_complex64;
}
