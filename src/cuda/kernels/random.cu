/* random.cu: random bits, and numbers made of them without a way through memory.  The steps are those of the
 * element-wise operations that ops/random.c composes, each rounded to its type, so results are the same bits. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/lanes.h"
#include "cuda/kernels/random.h"
#include "shared/threefry.h"

/* The words of a thread: four from number `first` of a key on, and four from `pairs` behind; how many of them there
 * are. */
struct drawn {
    int64_t key, at[2], n[2];
    uint32_t w[2][4];
};

/* False: there are none for this thread. */
FN int draw(struct drawn *d, const struct bits_args *a)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, n = a->n_keys * a->quads;
    if (i >= n)
        return 0;
    d->key = a->n_keys == 1 ? 0 : n <= 0xffffffffLL ? (uint32_t)i / (uint32_t)a->quads : i / a->quads;
    d->at[0] = (i - d->key * a->quads) * 4;
    d->at[1] = d->at[0] + a->pairs;
    d->n[0] = a->pairs - d->at[0];
    d->n[1] = a->words - d->at[1];
    uint32_t k0 = a->keys[2 * d->key], k1 = a->keys[2 * d->key + 1];
    uint32_t second[4];
    UNROLLED
    for (int k = 0; k < 4; k++) second[k] = (uint32_t)d->at[1] + k;
    if (d->n[1] < 4) {
        UNROLLED
        for (int k = 0; k < 4; k++) second[k] = k < d->n[1] ? second[k] : 0;
    }
    UNROLLED
    for (int k = 0; k < 4; k++) threefry(&d->w[0][k], &d->w[1][k], (uint32_t)d->at[0] + k, second[k], k0, k1);
    return 1;
}

/* Four words as the bytes that they are, as far as there are some left for them. */
FN void put_words(uint8_t *y, const uint32_t w[4], int64_t left)
{
    if (left >= 16 && (uint64_t)y % 16 == 0) {
        struct words4 v = { { w[0], w[1], w[2], w[3] } };
        put16(y, &v);
    } else if (left % 4 == 0 && (uint64_t)y % 4 == 0) {
        UNROLLED
        for (int k = 0; k < 4; k++)
            if (4 * k < left)
                ((uint32_t *)y)[k] = w[k];
    } else {
        UNROLLED
        for (int k = 0; k < 16; k++)
            if (k < left)
                y[k] = (uint8_t)(w[k / 4] >> k % 4 * 8);
    }
}

KERNEL(cu_random_bits, struct bits_args)
{
    struct drawn d;
    if (!draw(&d, &a))
        return;
    UNROLLED
    for (int h = 0; h < 2; h++) {
        int64_t left = a.bytes - 4 * d.at[h];
        put_words((uint8_t *)a.y + d.key * a.bytes + 4 * d.at[h], d.w[h], left < 4 * d.n[h] ? left : 4 * d.n[h]);
    }
}

/* ---- distributions */

#define STORED_f32(x) (x)
#define STORED_f16(x) f16_from_f32(x)
#define STORED_bf16(x) bf16_from_f32(x)
#define LOADED_f32(x) (x)
#define LOADED_f16(x) f32_from_f16(x)
#define LOADED_bf16(x) f32_from_bf16(x)
#define ROUNDED(suffix, x) LOADED_##suffix(STORED_##suffix(x))
/* The number at p, which nobody gave where that is NULL. */
#define NUMBER(suffix, S, p, none) ((p) ? LOADED_##suffix(*(const S *)(p)) : (none))

/* r / 2^32, below 1 */
FN float unit(uint32_t r, float most) { return fminf((float)r * 0x1p-32f, most); }

/* Four elements, or the first n of them. */
#define PUT_FOUR(S, y, v, n)                                \
    if ((n) >= 4 && (uint64_t)(y) % (4 * sizeof(S)) == 0) { \
        PUT_LANES(y, v, 4 * sizeof(S));                     \
    } else {                                                \
        UNROLLED                                            \
        for (int k_ = 0; k_ < 4; k_++)                      \
            if (k_ < (n))                                   \
                (y)[k_] = (v)[k_];                          \
    }

/* The kernel cu_<name> that makes `each` of word k of half h, or of what is `given` for all of them. */
#define DRAW(name, S, given, each)                                 \
    KERNEL(cu_##name, struct draw_args)                            \
    {                                                              \
        struct drawn d;                                            \
        if (!draw(&d, &a.bits))                                    \
            return;                                                \
        given;                                                     \
        UNROLLED                                                   \
        for (int h = 0; h < 2; h++) {                              \
            union {                                                \
                S v[4];                                            \
                struct words4 align;                               \
            } u;                                                   \
            UNROLLED                                               \
            for (int k = 0; k < 4; k++) u.v[k] = each;             \
            S *y = (S *)a.bits.y + d.key * a.bits.words + d.at[h]; \
            PUT_FOUR(S, y, u.v, d.n[h])                            \
        }                                                          \
    }

#define ONE_OF(suffix, S, name, none) float name = NUMBER(suffix, S, a.name, none)
#define UNIFORM(suffix, S)                                                                     \
    FN S uniform_##suffix(uint32_t r, float most, float range, float low)                      \
    {                                                                                          \
        return STORED_##suffix(ROUNDED(suffix, range * ROUNDED(suffix, unit(r, most))) + low); \
    }                                                                                          \
    DRAW(uniform_##suffix, S, ONE_OF(f32, float, most, 1); ONE_OF(suffix, S, range, 1);        \
         ONE_OF(suffix, S, low, -0.0f), uniform_##suffix(d.w[h][k], most, range, low))

UNIFORM(f32, float)
UNIFORM(f16, uint16_t)
UNIFORM(bf16, uint16_t)

/* One in 300 is far in erfinv's tail: all eight of a thread are made as if none were, which need no branches, and those
 * that are once more. */
FN_APART float erfinv_once_more(float u) { return m_erfinv_f32(u); }
FN void normals_of_eight(float x[8], const struct drawn *d, float most, float range, float low)
{
    float y[8], w[8];
    int far = 0;
    UNROLLED
    for (int k = 0; k < 8; k++) {
        x[k] = uniform_f32(d->w[k / 4][k % 4], most, range, low);
        w[k] = erfinv_log_f32(x[k]);
        y[k] = erfinv_near_f32(x[k], w[k]);
        far |= !(w[k] < 5);
    }
    if (far) {
        UNROLLED
        for (int k = 0; k < 8; k++)
            if (!(w[k] < 5))
                y[k] = erfinv_once_more(x[k]);
    }
    UNROLLED
    for (int k = 0; k < 8; k++) x[k] = y[k];
}

#define NORMAL(suffix, S)                                                                                         \
    DRAW(normal_##suffix, S, ONE_OF(f32, float, most, 1); ONE_OF(f32, float, range, 1);                           \
         ONE_OF(f32, float, low, -0.0f); ONE_OF(suffix, S, factor, 1); ONE_OF(suffix, S, loc, -0.0f); float x[8]; \
         normals_of_eight(x, &d, most, range, low),                                                               \
         STORED_##suffix(ROUNDED(suffix, factor * ROUNDED(suffix, x[4 * h + k])) + loc))
NORMAL(f32, float)
NORMAL(f16, uint16_t)
NORMAL(bf16, uint16_t)
DRAW(bernoulli, uint8_t, ONE_OF(f32, float, bound, 0), (uint8_t)((float)d.w[h][k] < bound))
