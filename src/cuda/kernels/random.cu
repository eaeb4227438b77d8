/* random.cu: random bits, and numbers made of them without a way through memory.  The steps are those of the
 * element-wise operations that ops/random.c composes, each rounded to its type, so results are the same bits. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/lanes.h"
#include "cuda/kernels/random.h"

/* Rotations and exclusive ors are more than the units that do them keep up with, where the ones that multiply have
 * little to do: these add the key, by a 1 that the compiler does not know.  Products that turn words were slower. */
#ifdef __CUDACC__
#define INTO(x, y) asm("mad.lo.u32 %0, %1, %2, %0;" : "+r"(x) : "r"(y), "r"(gridDim.z))
#endif
#include "shared/threefry.h"

/* What a thread draws at once: the words of four pairs of a key, four from number at[0] on and four from at[1] on. */
struct drawn {
    uint32_t k0, k1;
    int64_t before; /* numbers, or bytes, of other keys */
    int64_t at[2];
    uint32_t w[2][4];
};

/* With the key that all share, if there is one. */
FN struct drawn draw_begin(const struct bits_args *a)
{
    struct drawn d;
    d.k0 = a->keys[0];
    d.k1 = a->keys[1];
    return d;
}

/* 0: not all of the eight words are there, whole; draw_pair has those that are. */
FN int draw(struct drawn *d, const struct bits_args *a, int64_t i, int64_t each)
{
    d->before = 0;
    d->at[0] = i * 4;
    if (a->n_keys > 1) {
        int64_t n = a->n_keys * a->quads;
        int64_t key = n <= 0xffffffffLL ? (uint32_t)i / (uint32_t)a->quads : i / a->quads;
        d->before = key * each;
        d->at[0] = (i - key * a->quads) * 4;
        d->k0 = a->keys[2 * key];
        d->k1 = a->keys[2 * key + 1];
    }
    d->at[1] = d->at[0] + a->pairs;
    if (d->at[1] + 4 > a->bytes / 4)
        return 0;
    UNROLLED
    for (int k = 0; k < 4; k++)
        threefry(&d->w[0][k], &d->w[1][k], (uint32_t)d->at[0] + k, (uint32_t)d->at[1] + k, d->k0, d->k1);
    return 1;
}

/* The first words, w[0][0] and w[1][0], and on to the next ones. */
FN void draw_pair(struct drawn *d, const struct bits_args *a)
{
    uint32_t second = d->at[1] < a->words ? (uint32_t)d->at[1] : 0;
    threefry(&d->w[0][0], &d->w[1][0], (uint32_t)d->at[0]++, second, d->k0, d->k1);
    d->at[1]++;
}

/* Four words as the bytes that they are. */
FN void put_words(uint8_t *y, const uint32_t w[4])
{
    if ((uint64_t)y % 16 == 0) {
        struct words4 v = { { w[0], w[1], w[2], w[3] } };
        put16(y, &v);
    } else if ((uint64_t)y % 4 == 0) {
        UNROLLED
        for (int k = 0; k < 4; k++) ((uint32_t *)y)[k] = w[k];
    } else {
        UNROLLED
        for (int k = 0; k < 16; k++) y[k] = (uint8_t)(w[k / 4] >> k % 4 * 8);
    }
}

/* Each of the quads of pairs that are this thread's. */
#define EACH_QUAD(i, a)                                                                           \
    ROLLED                                                                                        \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, n_ = (a).n_keys * (a).quads, \
                 step_ = (int64_t)gridDim.x * blockDim.x;                                         \
         i < n_; i += step_)

KERNEL(cu_random_bits, struct bits_args)
{
    struct drawn d = draw_begin(&a);
    EACH_QUAD(i, a)
    {
        int whole = draw(&d, &a, i, a.bytes);
        uint8_t *y = (uint8_t *)a.y + d.before;
        if (whole) {
            put_words(y + 4 * d.at[0], d.w[0]);
            put_words(y + 4 * d.at[1], d.w[1]);
            continue;
        }
        ROLLED
        for (int pair = 0; pair < 4 && d.at[0] < a.pairs; pair++) {
            draw_pair(&d, &a);
            ROLLED
            for (int k = 0; k < 8; k++) {
                int64_t at = 4 * ((k < 4 ? d.at[0] : d.at[1]) - 1) + k % 4;
                if (at < a.bytes)
                    y[at] = (uint8_t)((k < 4 ? d.w[0][0] : d.w[1][0]) >> k % 4 * 8);
            }
        }
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

/* Four elements. */
#define PUT_FOUR(S, y, v)                                 \
    if ((uint64_t)(y) % (4 * sizeof(S)) == 0) {           \
        PUT_LANES(y, v, 4 * sizeof(S));                   \
    } else {                                              \
        UNROLLED                                          \
        for (int k_ = 0; k_ < 4; k_++) (y)[k_] = (v)[k_]; \
    }

/* The kernel cu_<name> that makes `each` of a word r, or `all` eight y[h][k] of d.w[h][k] at once, of what is
 * `given`. */
#define DRAW(name, S, given, all, each)                             \
    KERNEL(cu_##name, struct draw_args)                             \
    {                                                               \
        struct drawn d = draw_begin(&a.bits);                       \
        given;                                                      \
        EACH_QUAD(i, a.bits)                                        \
        {                                                           \
            int whole = draw(&d, &a.bits, i, a.bits.words);         \
            S *to = (S *)a.bits.y + d.before;                       \
            if (whole) {                                            \
                union {                                             \
                    S v[4];                                         \
                    struct words4 align;                            \
                } y[2];                                             \
                all;                                                \
                PUT_FOUR(S, to + d.at[0], y[0].v)                   \
                PUT_FOUR(S, to + d.at[1], y[1].v)                   \
                continue;                                           \
            }                                                       \
            ROLLED                                                  \
            for (int k = 0; k < 4 && d.at[0] < a.bits.pairs; k++) { \
                draw_pair(&d, &a.bits);                             \
                ROLLED                                              \
                for (int h = 0; h < 2; h++) {                       \
                    uint32_t r = h ? d.w[1][0] : d.w[0][0];         \
                    int64_t at = (h ? d.at[1] : d.at[0]) - 1;       \
                    if (at < a.bits.words)                          \
                        to[at] = each;                              \
                }                                                   \
            }                                                       \
        }                                                           \
    }

#define WORD d.w[k / 4][k % 4]
#define EIGHT(each)                                           \
    {                                                         \
        UNROLLED                                              \
        for (int k = 0; k < 8; k++) y[k / 4].v[k % 4] = each; \
    }

#define ONE_OF(suffix, S, name, none) float name = NUMBER(suffix, S, a.name, none)

#define UNIFORM(suffix, S)                                                                                             \
    FN S uniform_##suffix(uint32_t r, float most, float range, float low)                                              \
    {                                                                                                                  \
        return STORED_##suffix(ROUNDED(suffix, range * ROUNDED(suffix, unit(r, most))) + low);                         \
    }                                                                                                                  \
    DRAW(uniform_##suffix, S, ONE_OF(f32, float, most, 1); ONE_OF(suffix, S, range, 1); ONE_OF(suffix, S, low, -0.0f); \
         ,                                                                                                             \
         if (range == 1 && low == 0)                                                                                   \
             EIGHT(STORED_##suffix(unit(WORD, most))) else EIGHT(uniform_##suffix(WORD, most, range, low)),            \
         uniform_##suffix(r, most, range, low))

UNIFORM(f32, float)
UNIFORM(f16, uint16_t)
UNIFORM(bf16, uint16_t)

/* A normal number of any word. */
FN_APART float normal_of(uint32_t r, float most, float range, float low)
{
    return m_erfinv_f32(uniform_f32(r, most, range, low));
}

/* One in 1,400 is far in erfinv's tail: all eight of a thread are made as if none were, which needs no branches, and
 * those that are once more.  A range that is a power of two, of which products are exact, takes a step less, and where
 * it ends at 1 or beyond so does `most`: what that holds back is far.  Others are all made as if they were. */
struct normal {
    float most, range, low, scale;
    int plain;
};
FN struct normal normal_begin(float most, float range, float low)
{
    struct normal n = { most, range, low, range * 0x1p-32f, 0 };
    n.plain = (bits_f32(range) & 0x7fffff) == 0 && range >= 0x1p-62f && range <= 0x1p62f && most >= 0x1.fffffep-1f &&
              range + low >= 1;
    return n;
}
FN void normals_of_eight(float y[8], const struct drawn *d, const struct normal *n)
{
    float t[8];
    int again = !n->plain;
    UNROLLED
    for (int k = 0; k < 8; k++) {
        float x = m_fma_f32((float)d->w[k / 4][k % 4], n->scale, n->low);
        t[k] = erfinv_rest_f32(x);
        y[k] = erfinv_near_f32(x, erfinv_log_f32(t[k]));
        again |= !(t[k] > ERFINV_FAR_F32);
    }
    if (again) {
        UNROLLED
        for (int k = 0; k < 8; k++)
            if (!n->plain || !(t[k] > ERFINV_FAR_F32))
                y[k] = normal_of(d->w[k / 4][k % 4], n->most, n->range, n->low);
    }
}

#define NORMAL(suffix, S)                                                                                     \
    DRAW(normal_##suffix, S, ONE_OF(f32, float, most, 1); ONE_OF(f32, float, range, 1);                       \
         ONE_OF(f32, float, low, -0.0f); ONE_OF(suffix, S, factor, 1); ONE_OF(suffix, S, loc, -0.0f);         \
         struct normal n = normal_begin(most, range, low), float x[8]; normals_of_eight(x, &d, &n);           \
         if (a.loc) EIGHT(STORED_##suffix(ROUNDED(suffix, factor * ROUNDED(suffix, x[k])) + loc)) else EIGHT( \
             STORED_##suffix(factor * ROUNDED(suffix, x[k]))),                                                \
         STORED_##suffix(ROUNDED(suffix, factor * ROUNDED(suffix, normal_of(r, most, range, low))) + loc))
NORMAL(f32, float)
NORMAL(f16, uint16_t)
NORMAL(bf16, uint16_t)
DRAW(bernoulli, uint8_t, ONE_OF(f32, float, bound, 0), EIGHT((uint8_t)((float)WORD < bound)),
     (uint8_t)((float)r < bound))
