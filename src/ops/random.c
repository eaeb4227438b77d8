/* random.c: random numbers from keys.
 *
 * Bits come from Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011), a function of a key and a counter alone: the same key gives the same numbers
 * whatever the thread count or device.  Everything else is composed of bits and element-wise
 * operations.  Without a key the thread's state is split: its first half goes on as the state, the
 * second is used. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "core/scope.h"
#include "core/shape.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "ops/random.h"
#include "ops/rules.h"
#include "shared/threefry.h"

static const struct field random_bits_args_fields[] = { FIELD(random_bits_args, shape),
                                                        FIELD(random_bits_args, width),
                                                        { 0 } };

/* Keys of shape (..., 2) give leading axes, then the shape asked for. */
static int bits_shapes(const struct call *c, struct spec out[])
{
    const struct random_bits_args *a = c->args;
    mx key = c->x[0];
    out->dtype = a->width == 1 ? DT_uint8 : a->width == 2 ? DT_uint16 : DT_uint32;
    out->ndim = key->ndim - 1 + a->shape.n;
    if (out->ndim > MX_MAX_NDIM) {
        mx_fail("[bits] expected at most %d dimensions, got %d", MX_MAX_NDIM, out->ndim);
        return 1;
    }
    memcpy(out->shape, key->shape, (size_t)(key->ndim - 1) * sizeof(int));
    for (int i = 0; i < a->shape.n; i++) out->shape[key->ndim - 1 + i] = (int)a->shape.v[i];
    return 0;
}

/* A batch of keys draws independent numbers: its axis becomes a leading one. */
static void bits_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    mx key = mx_moveaxis(c->x[0], axis[0], 0);
    y[0] = mx_infer(c->op, c->args, 1, &key);
    yaxis[0] = 0;
}

const struct op op_random_bits = {
    OP_ROW(random_bits), ARGS(random_bits_args), .shapes = bits_shapes, .vjp = no_vjp, .jvp = no_jvp, .vmap = bits_vmap,
};

/* ---- keys */

static mx words(uint32_t a, uint32_t b) { return array_of_data(DT_uint32, 1, (int[]){ 2 }, (uint32_t[]){ a, b }); }

mx mx_random_key(uint64_t seed) { return words((uint32_t)(seed >> 32), (uint32_t)seed); }

/* Each thread has a state of its own: what one draws does not depend on when others do, and a trace that stands for the
 * state of its thread is nobody else's. */
static pthread_key_t state_key;
static void forget_state(void *key) { mx_release(key); }
__attribute__((constructor)) static void make_state_key(void) { pthread_key_create(&state_key, forget_state); }

/* A fresh thread draws differently each time until it is seeded, and no two the same. */
static mx first_key(void)
{
    static atomic_uint_fast64_t threads;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return mx_random_key((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec +
                         (atomic_fetch_add(&threads, 1) << 40));
}

void mx_random_set_state(mx key)
{
    mx old = pthread_getspecific(state_key);
    mx_retain(key);
    if (pthread_setspecific(state_key, key)) {
        mx_fail_memory(sizeof(void *));
        old = key;
    }
    if (old)
        mx_release(old); /* whose owner, told so, may draw */
}

/* MX_NIL after mx_fail; the next call tries again. */
static mx current_state(void)
{
    if (!pthread_getspecific(state_key)) {
        mx key = first_key();
        if (is_nil(key))
            return key;
        mx_random_set_state(key);
        if (mx_failed())
            return MX_NIL;
    }
    return pthread_getspecific(state_key);
}

mx mx_random_state(void)
{
    mx x = current_state();
    if (!is_nil(x))
        mx_retain(x);
    return scope_lend(x);
}

void mx_random_seed(uint64_t seed)
{
    MX_SCOPE(NULL);
    mx key = mx_random_key(seed);
    if (!is_nil(key))
        mx_random_set_state(key);
}

void mx_random_split_pair(mx key, mx pair[2])
{
    mx both = mx_random_split(key, 2);
    for (int i = 0; i < 2; i++) pair[i] = mx_squeeze(mx_slice_axis(both, -2, i, i + 1, 1), (int[]){ -2 }, 1);
}

/* The halves of a key whose value is known are known at once: a chain of splits that nobody evaluates would grow with
 * every draw, and an operation costs more than the numbers. */
static void split_at_once_or_later(mx key, mx pair[2])
{
    bool known = array_readable(key) && !key->tracer && key->dtype == DT_uint32 && key->ndim == 1 && key->size == 2 &&
                 key->strides[0] == 1;
    if (!known) {
        mx_random_split_pair(key, pair);
        return;
    }
    const uint32_t *k = array_host(key);
    uint32_t a[2], b[2];
    for (uint32_t i = 0; i < 2; i++) threefry(&a[i], &b[i], i, i + 2, k[0], k[1]);
    pair[0] = words(a[0], a[1]);
    pair[1] = words(b[0], b[1]);
}

/* The key given, or the next one of the state. */
static mx key_or_next(mx key)
{
    if (key)
        return key;
    mx next_use[2];
    split_at_once_or_later(current_state(), next_use);
    if (is_nil(next_use[0]) || is_nil(next_use[1]))
        return MX_NIL;
    mx_random_set_state(next_use[0]);
    return mx_failed() ? MX_NIL : next_use[1];
}

static mx bits(const char *op, int ndim, const int *shape, int width, mx key);

mx mx_random_split(mx key, int num)
{
    if (num < 0)
        return mx_fail("[random.split] expected a number of keys that is not negative, got %d", num);
    return bits("split", 2, (int[]){ num, 2 }, 4, key);
}

/* Random bits, asked for by `op`. */
static mx bits(const char *op, int ndim, const int *shape, int width, mx key)
{
    if (width != 1 && width != 2 && width != 4)
        return mx_fail("[%s] expected a width of 1, 2 or 4 bytes, got %d", op, width);
    if (shape_size(op, ndim, shape) < 0)
        return MX_NIL;
    key = key_or_next(key);
    if (is_nil(key))
        return key;
    if (key->dtype != DT_uint32 || key->ndim < 1 || dim(key, -1) != 2)
        return mx_fail("[%s] expected a key of shape (2,) and type uint32, got shape %s and type %s", op, shape_of(key),
                       dtype_name(key->dtype));
    if (key->ndim - 1 + ndim > MX_MAX_NDIM)
        return mx_fail("[%s] expected at most %d dimensions, got %d", op, MX_MAX_NDIM, key->ndim - 1 + ndim);
    int64_t v[MX_MAX_NDIM];
    for (int i = 0; i < ndim; i++) v[i] = shape[i];
    return mx_infer(&op_random_bits, &(struct random_bits_args){ { ndim, v }, width }, 1, &key);
}

mx mx_random_bits(int ndim, const int *shape, int width, mx key) { return bits("bits", ndim, shape, width, key); }

/* ---- distributions */

/* How many numbers are drawn is said in numbers, also where it is the shape of x that says it. */
static mx settled(mx x)
{
    for (int i = 0; i < x->ndim; i++) x = mx_size_checked(x, i);
    return x;
}

static mx constant(double v, enum dtype t) { return array_of_double(v, t); }

/* The largest value of a type below 1. */
static double below_one(enum dtype t)
{
    return t == DT_float16 ? 0x1.ffcp-1 : t == DT_bfloat16 ? 0x1.fep-1 : 0x1.fffffep-1;
}

/* [0, 1) in float32 steps of 2^-32, rounded; in float64 with all 53 bits. */
static mx unit(const char *op, int ndim, const int *shape, enum dtype t, mx key)
{
    if (t == DT_float64) {
        int two[MX_MAX_NDIM];
        if (ndim + 1 > MX_MAX_NDIM)
            return mx_fail("[%s] expected fewer than %d dimensions, got %d", op, MX_MAX_NDIM, ndim);
        memcpy(two, shape, (size_t)ndim * sizeof(int));
        two[ndim] = 2;
        mx part[2], both = bits(op, ndim + 1, two, 4, key);
        if (mx_split(both, 2, -1, part) < 0)
            return MX_NIL;
        mx high = mx_astype(mx_right_shift(mx_squeeze(part[0], (int[]){ -1 }, 1), array_of_int(5, DT_uint32)), t);
        mx low = mx_astype(mx_right_shift(mx_squeeze(part[1], (int[]){ -1 }, 1), array_of_int(6, DT_uint32)), t);
        return mx_multiply(mx_add(mx_multiply(high, constant(0x1p26, t)), low), constant(0x1p-53, t));
    }
    mx u = mx_divide(mx_astype(bits(op, ndim, shape, 4, key), DT_float32), constant(0x1p32, DT_float32));
    return mx_astype(mx_minimum(u, constant(below_one(t), DT_float32)), t);
}

static bool real_type(const char *name, enum dtype t)
{
    if (!dtype_is_float(t))
        mx_fail("[%s] expected a real floating point type, got %s", name, dtype_name(t));
    return dtype_is_float(t);
}

/* NULL: not given. */
static bool real_parameters(const char *name, mx a, mx b)
{
    bool real = !(a && dtype_is_complex(a->dtype)) && !(b && dtype_is_complex(b->dtype));
    if (!real)
        mx_fail("[%s] expected real parameters, got complex64", name);
    return real;
}

/* Do parameters broadcast to the shape that was asked for? */
static bool fits(const char *name, mx p, int ndim, const int *shape)
{
    bool ok = p->ndim <= ndim;
    for (int i = 0; i < p->ndim && ok; i++) ok = p->shape[i] == 1 || p->shape[i] == shape[ndim - p->ndim + i];
    if (!ok && !is_nil(p))
        mx_fail("[%s] expected parameters that broadcast to the shape %s, got one of shape %s", name,
                shape_text(ndim, shape), shape_of(p));
    return ok;
}

/* The value, or real part, of a single number that is there already. */
static bool known_number(mx x, double *v)
{
    if (!array_readable(x) || x->size != 1)
        return false;
    if (dtype_is_inexact(x->dtype)) {
        *v = float_at(dtype_is_complex(x->dtype) ? DT_float32 : x->dtype, array_host(x));
        return true;
    }
    uint64_t raw = 0;
    int unused = 64 - 8 * (int)itemsize(x);
    memcpy(&raw, array_host(x), itemsize(x));
    *v = dtype_kind(x->dtype) == 'i' ? (double)((int64_t)(raw << unused) >> unused) : (double)raw;
    return true;
}

/* 2 where the difference of bounds of type t is infinite and half of it is not, 1 elsewhere; nil: 1 for sure. */
static mx narrowing(mx low, mx high, enum dtype t)
{
    double a, b, most = dtype_largest(t) / 2;
    if (known_number(low, &a) && known_number(high, &b))
        return fabs(b / 2 - a / 2) > most ? constant(2, t) : MX_NIL;
    mx half = constant(0.5, t), range = mx_subtract(mx_multiply(half, high), mx_multiply(half, low));
    return mx_where(mx_greater(mx_abs(range), constant(most, t)), constant(2, t), constant(1, t));
}

static mx uniform(const char *op, mx low, mx high, int ndim, const int *shape, enum dtype t, mx key)
{
    if (!real_type(op, t) || !real_parameters(op, low, high) || !fits(op, low, ndim, shape) ||
        !fits(op, high, ndim, shape))
        return MX_NIL;
    mx u = unit(op, ndim, shape, t, key), lo = mx_astype(low, t), hi = mx_astype(high, t), by = narrowing(lo, hi, t);
    if (mx_failed() || is_nil(by))
        return mx_add(mx_multiply(mx_subtract(hi, lo), u), lo);
    lo = mx_divide(lo, by), hi = mx_divide(hi, by);
    return mx_multiply(mx_add(mx_multiply(mx_subtract(hi, lo), u), lo), by);
}

mx mx_random_uniform(mx low, mx high, int ndim, const int *shape, enum dtype t, mx key)
{
    return uniform("uniform", low, high, ndim, shape, t, key);
}

/* On (-1, 1). */
static mx signed_unit(const char *op, int ndim, const int *shape, mx key)
{
    return uniform(op, constant(-0x1.fffffep-1, DT_float32), constant(1, DT_float32), ndim, shape, DT_float32, key);
}

/* sqrt(2) erfinv(u), u uniform on (-1, 1); of a complex number each part has half the variance. */
mx mx_random_normal(int ndim, const int *shape, enum dtype t, mx loc, mx scale, mx key)
{
    mx x;
    if (dtype_is_complex(t)) {
        int two[MX_MAX_NDIM];
        if (ndim + 1 > MX_MAX_NDIM)
            return mx_fail("[normal] expected fewer than %d dimensions, got %d", MX_MAX_NDIM, ndim);
        memcpy(two, shape, (size_t)ndim * sizeof(int));
        two[ndim] = 2;
        x = mx_squeeze(mx_view(mx_erfinv(signed_unit("normal", ndim + 1, two, key)), DT_complex64), (int[]){ -1 }, 1);
        if (scale)
            x = mx_multiply(x, mx_astype(scale, t));
    } else {
        if (!real_type("normal", t) || !real_parameters("normal", loc, scale))
            return MX_NIL;
        x = signed_unit("normal", ndim, shape, key);
        if (t == DT_float64)
            x = mx_astype(x, t);
        x = mx_astype(mx_erfinv(x), t);
        mx factor = constant(M_SQRT2, t);
        x = mx_multiply(scale ? mx_multiply(factor, mx_astype(scale, t)) : factor, x);
    }
    return loc ? mx_add(mx_astype(loc, t), x) : x;
}

mx mx_random_bernoulli(mx p, int ndim, const int *shape, mx key)
{
    if (is_nil(p))
        return p;
    if (ndim < 0) {
        p = settled(p);
        ndim = p->ndim;
        shape = p->shape;
    }
    if (dtype_is_complex(p->dtype))
        return mx_fail("[bernoulli] expected real probabilities, got complex64");
    if (!fits("bernoulli", p, ndim, shape))
        return MX_NIL;
    mx bound = mx_multiply(mx_astype(p, DT_float32), constant(0x1.000002p32, DT_float32));
    return mx_less(mx_astype(bits("bernoulli", ndim, shape, 4, key), DT_float32), bound);
}

/* What float32 tells apart: [low, high) reaches so far from 0, or is so wide, at most. */
enum { FEW = 1 << 24 };

/* Of an empty range, `low`.  Bounds beyond the type wrap as the numbers between them do. */
static mx randint_of_few(mx low, mx high, int ndim, const int *shape, enum dtype t, mx key)
{
    mx u = uniform("randint", low, high, ndim, shape, DT_float32, key);
    mx x = mx_astype(mx_floor(u), t);
    /* Rounding may have reached the upper end. */
    mx last = mx_astype(mx_subtract(high, array_of_int(1, dtype_is_inexact(high->dtype) ? DT_int32 : high->dtype)), t);
    return mx_maximum(mx_minimum(x, last), mx_astype(low, t));
}

/* floor(r n / 2^96) for r of 96 random bits, a word at a time from the lowest on: floor((a + w n) / 2^32) stays
 * below n.  The number n of uint64 is 2^64 where it is 0; no number is drawn more often than another by more than
 * 2^-32. */
static mx below(mx n, int ndim, const int *shape, mx key)
{
    int three[MX_MAX_NDIM];
    if (ndim + 1 > MX_MAX_NDIM)
        return mx_fail("[randint] expected fewer than %d dimensions, got %d", MX_MAX_NDIM, ndim);
    memcpy(three, shape, (size_t)ndim * sizeof(int));
    three[ndim] = 3;
    mx word[3], all = bits("randint", ndim + 1, three, 4, key);
    if (mx_split(all, 3, -1, word) < 0)
        return MX_NIL;
    for (int i = 0; i < 3; i++) word[i] = mx_astype(mx_squeeze(word[i], (int[]){ -1 }, 1), DT_uint64);
    mx half = array_of_int(32, DT_uint64), mask = array_of_int(UINT32_MAX, DT_uint64), a = array_of_int(0, DT_uint64);
    mx n0 = mx_bitwise_and(n, mask), n1 = mx_right_shift(n, half);
    for (int i = 0; i < 3; i++) {
        mx low = mx_add(mx_multiply(word[i], n0), mx_bitwise_and(a, mask));
        a = mx_add(mx_add(mx_multiply(word[i], n1), mx_right_shift(a, half)), mx_right_shift(low, half));
    }
    mx whole = mx_bitwise_or(mx_left_shift(word[2], half), word[1]);
    return mx_where(mx_equal(n, array_of_int(0, DT_uint64)), whole, a);
}

/* All bits of 64. */
static mx randint_of_many(mx low, mx high, int ndim, const int *shape, enum dtype t, mx key)
{
    if (!fits("randint", low, ndim, shape) || !fits("randint", high, ndim, shape))
        return MX_NIL;
    mx from = mx_astype(mx_astype(low, t), DT_uint64), to = mx_astype(mx_astype(high, t), DT_uint64);
    return mx_astype(mx_add(from, below(mx_subtract(to, from), ndim, shape, key)), t);
}

/* Which of the two it is, where the bounds do not say it before they are computed. */
static mx are_few(mx low, mx high, enum dtype t)
{
    mx from = mx_astype(low, t), to = mx_astype(high, t), few = array_of_int(FEW, t), none = mx_less_equal(to, from);
    /* 2^63 is no int64 */
    if (t == DT_int64 && dtype_kind(high->dtype) == 'u')
        none = mx_logical_and(none, mx_not_equal(to, array_of_int(INT64_MIN, t)));
    mx width = mx_subtract(mx_astype(to, DT_uint64), mx_astype(from, DT_uint64));
    mx near = mx_less_equal(from, few);
    if (t == DT_int64)
        near = mx_logical_and(near, mx_greater_equal(from, array_of_int(-FEW, t)));
    return mx_logical_or(none, mx_logical_and(near, mx_less_equal(width, array_of_int(FEW, DT_uint64))));
}

mx mx_random_randint(mx low, mx high, int ndim, const int *shape, enum dtype t, mx key)
{
    if (dtype_is_inexact(t))
        return mx_fail("[randint] expected an integer type or bool, got %s", dtype_name(t));
    if (!real_parameters("randint", low, high))
        return MX_NIL;
    /* Which way it goes must not depend on whether the bounds are known. */
    double a, b;
    bool exact = known_number(low, &a) && known_number(high, &b) && fabs(a) < 0x1p53 && fabs(b) < 0x1p53 &&
                 (t == DT_int64 || (a >= 0 && b >= 0));
    if (dtype_size(t) < 8 || (exact && (b <= a || (fabs(a) < FEW + 1 && trunc(b) - trunc(a) <= FEW))))
        return randint_of_few(low, high, ndim, shape, t, key);
    key = key_or_next(key);
    mx many = randint_of_many(low, high, ndim, shape, t, key);
    return exact ? many : mx_where(are_few(low, high, t), randint_of_few(low, high, ndim, shape, t, key), many);
}

/* Beyond how many deviations erf is too near 1 in a type to tell numbers apart. */
static double tail_begins(enum dtype t) { return t == DT_float64 ? 7 : t == DT_float32 ? 4 : 2; }

/* Q(x) / phi(x), the share of the normal law beyond x over its density there: 1 / (x + 1 / (x + 2 / (x + ...))). */
static mx mills_ratio(mx x)
{
    enum { LEVELS = 8 }; /* from 4 on, seven digits */
    mx y = x;
    for (int k = LEVELS; k > 0; k--) y = mx_add(x, mx_divide(constant(k, x->dtype), y));
    return mx_divide(constant(1, x->dtype), y);
}

/* The normal law between near and far, both in a tail, where the distribution function of u is inverted: what is
 * beyond near + s, as a share of what is beyond near, has the negative logarithm
 *     near s + s^2 / 2 + log(m(near) / m(near + s)),  m the ratio above,
 * whose slope is 1 / m(near + s).  Newton's method begins with m constant; two steps give seven digits of s. */
static mx tail_normal(mx near, mx far, mx u)
{
    enum dtype t = near->dtype;
    mx half = constant(0.5, t), a = mx_minimum(near, constant(1e9, t)), m = mills_ratio(a);
    far = mx_minimum(far, mx_add(a, constant(60, t))); /* behind which nothing is in double, either */
    mx width = mx_subtract(far, a);
#define BEYOND(s) mx_multiply(s, mx_add(a, mx_multiply(half, s)))
    mx inside = mx_expm1(mx_subtract(mx_log(mx_divide(mills_ratio(far), m)), BEYOND(width))); /* negative */
    mx e = mx_negative(mx_log1p(mx_multiply(u, inside))), two_e = mx_add(e, e);
    mx s = mx_divide(two_e, mx_add(a, mx_sqrt(mx_add(mx_square(a), two_e))));
    for (int i = 0; i < 2; i++) {
        mx here = mills_ratio(mx_add(a, s));
        mx miss = mx_subtract(mx_add(BEYOND(s), mx_log(mx_divide(m, here))), e);
        s = mx_subtract(s, mx_multiply(miss, here));
    }
#undef BEYOND
    return mx_add(near, s);
}

/* The normal law between bounds that erf tells apart. */
static mx middle_normal(mx lo, mx hi, int ndim, const int *shape, enum dtype t, mx key)
{
    mx factor = constant(M_SQRT2, t);
    mx a = mx_erf(mx_divide(lo, factor)), b = mx_erf(mx_divide(hi, factor));
    return mx_multiply(factor, mx_erfinv(uniform("truncated_normal", a, b, ndim, shape, t, key)));
}

/* The normal law where each element has its bounds in a tail or not.  Neither way sees the other's bounds, of which it
 * would make what is no number, and of that derivatives. */
static mx any_normal(mx lo, mx hi, int ndim, const int *shape, enum dtype t, mx key)
{
    enum dtype w = t == DT_float64 ? t : DT_float32;
    key = key_or_next(key); /* one for both */
    mx zero = constant(0, t), one = constant(1, t), begins = constant(tail_begins(t), t);
    mx side = mx_where(mx_greater(lo, zero), one, mx_negative(one));
    mx a = mx_multiply(side, lo), b = mx_multiply(side, hi);
    mx near = mx_minimum(a, b), far = mx_maximum(a, b), in_tail = mx_greater_equal(near, begins);
    mx u = mx_astype(unit("truncated_normal", ndim, shape, t, key), w);
    near = mx_where(in_tail, near, begins), far = mx_where(in_tail, far, mx_add(begins, one));
    mx tail = mx_multiply(side, mx_astype(tail_normal(mx_astype(near, w), mx_astype(far, w), u), t));
    lo = mx_where(in_tail, zero, lo), hi = mx_where(in_tail, one, hi);
    return mx_where(in_tail, tail, middle_normal(lo, hi, ndim, shape, t, key));
}

mx mx_random_truncated_normal(mx lower, mx upper, int ndim, const int *shape, enum dtype t, mx key)
{
    if (!real_type("truncated_normal", t) || !real_parameters("truncated_normal", lower, upper) || is_nil(lower) ||
        is_nil(upper))
        return MX_NIL;
    mx bounds[2] = { mx_astype(lower, t), mx_astype(upper, t) };
    int common[MX_MAX_NDIM];
    if (ndim < 0) {
        for (int i = 0; i < 2; i++) bounds[i] = settled(bounds[i]);
        if (!broadcast_shape("truncated_normal", 2, bounds, &ndim, common))
            return MX_NIL;
        shape = common;
    }
    if (!fits("truncated_normal", bounds[0], ndim, shape) || !fits("truncated_normal", bounds[1], ndim, shape))
        return MX_NIL;
    double low, high;
    bool known = known_number(lower, &low) && known_number(upper, &high);
    bool middle = known && !(fmax(low, -high) >= tail_begins(t));
    mx x = (middle ? middle_normal : any_normal)(bounds[0], bounds[1], ndim, shape, t, key);
    return mx_maximum(mx_minimum(bounds[1], x), bounds[0]);
}

static mx gumbel(const char *op, int ndim, const int *shape, enum dtype t, mx key)
{
    if (!real_type(op, t))
        return MX_NIL;
    mx u = uniform(op, constant(0, t), constant(1, t), ndim, shape, t, key);
    return mx_negative(mx_log(mx_negative(mx_log(u))));
}

mx mx_random_gumbel(int ndim, const int *shape, enum dtype t, mx key) { return gumbel("gumbel", ndim, shape, t, key); }

mx mx_random_laplace(int ndim, const int *shape, enum dtype t, double loc, double scale, mx key)
{
    if (!real_type("laplace", t))
        return MX_NIL;
    mx u = signed_unit("laplace", ndim, shape, key);
    mx x = mx_multiply(mx_sign(u), mx_log1p(mx_multiply(constant(-1, DT_float32), mx_abs(u))));
    x = mx_astype(x, t);
    if (scale != 1)
        x = mx_multiply(constant(scale, t), x);
    return loc != 0 ? mx_add(constant(loc, t), x) : x;
}

/* ---- categorical
 *
 * The largest of logits plus Gumbel noise; where many are drawn of one distribution, where in its
 * cumulative sum uniform numbers fall, which takes one random number each. */

static int logits_axis(mx logits, int axis)
{
    if (is_nil(logits))
        return -1;
    if (dtype_is_complex(logits->dtype)) {
        mx_fail("[categorical] expected real logits, got complex64");
        return -1;
    }
    if ((axis = axis_of("categorical", axis, logits->ndim)) >= 0 && logits->shape[axis] == 0) {
        mx_fail("[categorical] expected at least one category along axis %d, got logits of shape %s", axis,
                shape_of(logits));
        return -1;
    }
    return axis;
}

/* Draws of one distribution.  The largest logit weighs 1, also where it is infinite. */
static mx draw_of_one(mx logits, int ndim, const int *shape, mx key)
{
    mx x = mx_astype(mx_flatten(logits, 0, -1), logits->dtype == DT_float64 ? DT_float64 : DT_float32);
    mx most = mx_max(x, (int[]){ 0 }, 1, true), zero = array_of_int(0, x->dtype);
    mx sums = mx_cumsum(mx_exp(mx_where(mx_equal(x, most), zero, mx_subtract(x, most))), 0, false, true);
    int n = dim(x, 0);
    mx total = mx_slice_axis(sums, 0, n - 1, n, 1);
    mx u = uniform("categorical", zero, array_of_int(1, x->dtype), ndim, shape, DT_float32, key);
    mx at = mx_searchsorted(sums, mx_multiply(u, total), true);
    return mx_minimum(at, array_of_int(n - 1, DT_uint32));
}

static mx draw_node(mx logits, int ndim, const int *shape, int axis, mx key)
{
    logits = settled(logits);
    if (is_nil(logits))
        return logits;
    if (logits->size == shape[axis] && ndim > 1) {
        int rest[MX_MAX_NDIM];
        memcpy(rest, shape, (size_t)axis * sizeof(int));
        memcpy(rest + axis, shape + axis + 1, (size_t)(ndim - axis - 1) * sizeof(int));
        return draw_of_one(logits, ndim - 1, rest, key);
    }
    return mx_arg_reduce(mx_add(gumbel("categorical", ndim, shape, DT_float32, key), logits), ARG_MAX, axis, false);
}

mx mx_random_categorical(mx logits, int axis, int ndim, const int *shape, mx key)
{
    int a = logits_axis(logits, axis), full[MX_MAX_NDIM], rest = 0, left[MX_MAX_NDIM];
    if (a < 0)
        return MX_NIL;
    if (ndim < 0)
        return draw_node(logits, logits->ndim, logits->shape, a, key);
    for (int i = 0; i < logits->ndim; i++)
        if (i != a)
            left[rest++] = logits->shape[i];
    bool ok = rest <= ndim && ndim < MX_MAX_NDIM;
    for (int i = 0; i < rest && ok; i++) ok = left[i] == 1 || left[i] == shape[ndim - rest + i];
    if (!ok)
        return mx_fail("[categorical] expected a shape that logits of shape %s broadcast to with axis %d left out, "
                       "got %s",
                       shape_of(logits), axis, shape_text(ndim, shape));
    /* The categories stand as far from the end as they do in the logits. */
    int at = ndim - (logits->ndim - 1 - a);
    memcpy(full, shape, (size_t)at * sizeof(int));
    full[at] = logits->shape[a];
    memcpy(full + at + 1, shape + at, (size_t)(ndim - at) * sizeof(int));
    return draw_node(logits, ndim + 1, full, at, key);
}

mx mx_random_categorical_n(mx logits, int axis, int num_samples, mx key)
{
    int a = logits_axis(logits, axis), shape[MX_MAX_NDIM];
    if (a < 0)
        return MX_NIL;
    if (num_samples < 0 || logits->ndim == MX_MAX_NDIM)
        return mx_fail("[categorical] expected a number of samples that is not negative, got %d", num_samples);
    memcpy(shape, logits->shape, (size_t)logits->ndim * sizeof(int));
    shape[logits->ndim] = num_samples;
    return draw_node(mx_expand_dims(logits, (int[]){ -1 }, 1), logits->ndim + 1, shape, a, key);
}

/* An array of x's shape less its last n axes, for its shape alone. */
static mx without_last(mx x, int n) { return array_new(DT_bool_, x->ndim - n, x->shape); }

/* Standard normal vectors times a symmetric root of the covariance, which U diag(sqrt(s)) V^T is. */
mx mx_random_multivariate_normal(mx mean, mx cov, int ndim, const int *shape, enum dtype t, mx key)
{
    mean = settled(mean);
    cov = settled(cov);
    if (is_nil(mean) || is_nil(cov))
        return MX_NIL;
    if (!dtype_is_float(t))
        return mx_fail("[multivariate_normal] expected a floating-point dtype, got %s", dtype_name(t));
    if (!real_parameters("multivariate_normal", mean, cov))
        return MX_NIL;
    int n = mean->ndim ? dim(mean, -1) : 0;
    if (mean->ndim < 1 || cov->ndim < 2 || dim(cov, -1) != n || dim(cov, -2) != n)
        return mx_fail("[multivariate_normal] expected a mean of shape (..., n) and a covariance of shape (..., n, n), "
                       "got %s and %s",
                       shape_of(mean), shape_of(cov));
    enum dtype wide = dtype_is_half(t) ? DT_float32 : t;
    mx s[3], both[3] = { without_last(mean, 1), without_last(cov, 2), array_new(DT_bool_, ndim, shape) };
    int whole[MX_MAX_NDIM], rank;
    if (!broadcast_shape("multivariate_normal", ndim ? 3 : 2, both, &rank, whole))
        return MX_NIL;
    if (ndim && (rank != ndim || memcmp(whole, shape, (size_t)ndim * sizeof *whole)))
        return mx_fail("[multivariate_normal] expected a shape that mean and covariance broadcast to, got %s for "
                       "shapes %s and %s",
                       shape_text(ndim, shape), shape_of(mean), shape_of(cov));
    if (rank == MX_MAX_NDIM)
        return mx_fail("[multivariate_normal] expected fewer than %d dimensions, got %d", MX_MAX_NDIM, rank);
    whole[rank] = n;
    mx_svd(mx_astype(cov, wide), SVD_THIN, s);
    mx root = mx_matmul(mx_multiply(s[0], mx_expand_dims(mx_sqrt(s[1]), (int[]){ -2 }, 1)), s[2]);
    mx z = mx_random_normal(rank + 1, whole, wide, NULL, NULL, key);
    mx y = cov->ndim == 2 ? mx_matmul(z, root)
                          : mx_squeeze(mx_matmul(mx_expand_dims(z, (int[]){ -2 }, 1), root), (int[]){ -2 }, 1);
    return mx_astype(mx_add(y, mx_astype(mean, wide)), t);
}

/* ---- permutations: the order of random bits */

mx mx_random_permutation_arange(int n, mx key)
{
    if (n < 0)
        return mx_fail("[permutation] expected a number that is not negative, got %d", n);
    return mx_argsort(bits("permutation", 1, &n, 4, key), 0);
}

mx mx_random_permutation(mx x, int axis, mx key)
{
    if (is_nil(x) || (axis = axis_of("permutation", axis, x->ndim)) < 0)
        return MX_NIL;
    x = mx_size_checked(x, axis);
    return mx_take(x, mx_random_permutation_arange(x->shape[axis], key), axis);
}
