/* ggml.c: the block types of gguf files.
 *
 * Formulas and layouts are those of the ggml library's documentation of its formats.  d and m are
 * float16 scales, q integers; a block of 32 keeps elements i and i + 16 in the low and the high half
 * of one byte, so that packing for mx_quantized_matmul, which wants neighbours in one byte, is a
 * matter of moving bits.  The _K types have 256 items with scales of 16 or 32 of them, themselves in
 * 4 or 6 bits. */
#include "io/ggml.h"

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "shared/scalar.h"

static float f16_at(const uint8_t *p) { return f32_from_f16((uint16_t)(p[0] | p[1] << 8)); }

/* ---- blocks of 32 */

static void decode_q5_0(const uint8_t *b, float *y)
{
    float d = f16_at(b);
    uint32_t high;
    memcpy(&high, b + 2, 4);
    for (int i = 0; i < 32; i++) {
        int low = b[6 + i % 16] >> (i < 16 ? 0 : 4) & 15;
        y[i] = d * (float)((low | (int)(high >> i & 1) << 4) - 16);
    }
}

static void decode_q5_1(const uint8_t *b, float *y)
{
    float d = f16_at(b), m = f16_at(b + 2);
    uint32_t high;
    memcpy(&high, b + 4, 4);
    for (int i = 0; i < 32; i++) {
        int low = b[8 + i % 16] >> (i < 16 ? 0 : 4) & 15;
        y[i] = d * (float)(low | (int)(high >> i & 1) << 4) + m;
    }
}

static void decode_iq4_nl(const uint8_t *b, float *y)
{
    static const int8_t levels[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
    float d = f16_at(b);
    for (int i = 0; i < 32; i++) y[i] = d * (float)levels[b[2 + i % 16] >> (i < 16 ? 0 : 4) & 15];
}

/* ---- blocks of 256 */

/* scales[16] with a minimum in the upper half of each, q[64], d, dmin.  Each 32 bytes of q hold 128
 * items, two bits at a time. */
static void decode_q2_k(const uint8_t *b, float *y)
{
    const uint8_t *q = b + 16;
    float d = f16_at(b + 80), m = f16_at(b + 82);
    for (int i = 0; i < 256; i += 16) {
        float scale = d * (float)(b[i / 16] & 15), least = m * (float)(b[i / 16] >> 4);
        const uint8_t *at = q + i / 128 * 32 + i % 32;
        int shift = i % 128 / 32 * 2;
        for (int k = 0; k < 16; k++) y[i + k] = scale * (float)(at[k] >> shift & 3) - least;
    }
}

/* mask[32], q[64], scales[12], d.  A bit of the mask that is 0 takes 4 off. */
static void decode_q3_k(const uint8_t *b, float *y)
{
    const uint8_t *q = b + 32, *s = b + 96;
    float d = f16_at(b + 108);
    for (int i = 0; i < 256; i += 16) {
        int j = i / 16, shift = i % 128 / 32 * 2, bit = i / 32;
        int code = (s[j % 8] >> (j < 8 ? 0 : 4) & 15) | (s[8 + j % 4] >> (j / 4 * 2) & 3) << 4;
        float scale = d * (float)(code - 32);
        const uint8_t *at = q + i / 128 * 32 + i % 32, *mask = b + i % 32;
        for (int k = 0; k < 16; k++) y[i + k] = scale * (float)((at[k] >> shift & 3) - (~mask[k] >> bit & 1) * 4);
    }
}

/* Scale and minimum k of eight, six bits each in twelve bytes: the first four of both in the low bits of
 * bytes 0..3 and 4..7, the last four in halves of bytes 8..11 and the top bits of the others. */
static void k_scale_of(const uint8_t *s, int k, float *scale, float *least)
{
    *scale = (float)(k < 4 ? s[k] & 63 : (s[k + 4] & 15) | (s[k - 4] >> 6) << 4);
    *least = (float)(k < 4 ? s[k + 4] & 63 : s[k + 4] >> 4 | (s[k] >> 6) << 4);
}

static void decode_q4_k(const uint8_t *b, float *y)
{
    float d = f16_at(b), m = f16_at(b + 2);
    for (int k = 0; k < 8; k++) {
        float scale, least;
        k_scale_of(b + 4, k, &scale, &least);
        scale *= d;
        least *= m;
        for (int i = 0; i < 32; i++)
            y[k * 32 + i] = scale * (float)(b[16 + k / 2 * 32 + i] >> (k % 2 * 4) & 15) - least;
    }
}

static void decode_q5_k(const uint8_t *b, float *y)
{
    float d = f16_at(b), m = f16_at(b + 2);
    for (int k = 0; k < 8; k++) {
        float scale, least;
        k_scale_of(b + 4, k, &scale, &least);
        scale *= d;
        least *= m;
        for (int i = 0; i < 32; i++) {
            int low = b[48 + k / 2 * 32 + i] >> (k % 2 * 4) & 15;
            y[k * 32 + i] = scale * (float)(low | (b[16 + i] >> k & 1) << 4) - least;
        }
    }
}

/* low[128], high[64], scales[16], d */
static void decode_q6_k(const uint8_t *b, float *y)
{
    const uint8_t *high = b + 128;
    float d = f16_at(b + 208);
    for (int i = 0; i < 256; i += 16) {
        float scale = d * (float)(int8_t)b[192 + i / 16];
        const uint8_t *low = b + i / 128 * 64 + i % 64, *top = high + i / 128 * 32 + i % 32;
        int at = i % 128 / 64 * 4, above = i % 128 / 32 * 2;
        for (int k = 0; k < 16; k++)
            y[i + k] = scale * (float)(((low[k] >> at & 15) | (top[k] >> above & 3) << 4) - 32);
    }
}

/* d as float32, q[256], sums that are for products alone */
static void decode_q8_k(const uint8_t *b, float *y)
{
    float d;
    memcpy(&d, b, 4);
    for (int i = 0; i < 256; i++) y[i] = d * (float)(int8_t)b[4 + i];
}

/* ---- the table */

/* clang-format off */
static const struct ggml_type types[] = {
    { 0, "F32", GGML_PLAIN, DT_float32, 1, 4, 0, NULL },   { 1, "F16", GGML_PLAIN, DT_float16, 1, 2, 0, NULL },
    { 24, "I8", GGML_PLAIN, DT_int8, 1, 1, 0, NULL },      { 25, "I16", GGML_PLAIN, DT_int16, 1, 2, 0, NULL },
    { 26, "I32", GGML_PLAIN, DT_int32, 1, 4, 0, NULL },    { 27, "I64", GGML_PLAIN, DT_int64, 1, 8, 0, NULL },
    { 28, "F64", GGML_PLAIN, DT_float64, 1, 8, 0, NULL },  { 30, "BF16", GGML_PLAIN, DT_bfloat16, 1, 2, 0, NULL },
    { 2, "Q4_0", GGML_AFFINE, 0, 32, 18, 4, NULL },        { 3, "Q4_1", GGML_AFFINE, 0, 32, 20, 4, NULL },
    { 8, "Q8_0", GGML_AFFINE, 0, 32, 34, 8, NULL },        { 39, "MXFP4", GGML_MXFP4, 0, 32, 17, 4, NULL },
    { 6, "Q5_0", GGML_COARSE, 0, 32, 22, 0, decode_q5_0 }, { 7, "Q5_1", GGML_COARSE, 0, 32, 24, 0, decode_q5_1 },
    { 10, "Q2_K", GGML_COARSE, 0, 256, 84, 0, decode_q2_k },
    { 11, "Q3_K", GGML_COARSE, 0, 256, 110, 0, decode_q3_k },
    { 12, "Q4_K", GGML_COARSE, 0, 256, 144, 0, decode_q4_k },
    { 13, "Q5_K", GGML_COARSE, 0, 256, 176, 0, decode_q5_k },
    { 14, "Q6_K", GGML_COARSE, 0, 256, 210, 0, decode_q6_k },
    { 15, "Q8_K", GGML_COARSE, 0, 256, 292, 0, decode_q8_k },
    { 20, "IQ4_NL", GGML_COARSE, 0, 32, 18, 0, decode_iq4_nl },
};
/* clang-format on */
enum { TYPES = sizeof types / sizeof *types };

const struct ggml_type *ggml_type(uint32_t number)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].number == number)
            return &types[i];
    return NULL;
}

const char *ggml_name(uint32_t number)
{
    static const char *const others[42] = {
        [9] = "Q8_1",   [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S",
        [21] = "IQ3_S", [22] = "IQ2_S",   [23] = "IQ4_XS", [29] = "IQ1_M",   [34] = "TQ1_0",
        [35] = "TQ2_0", [40] = "NVFP4",   [41] = "Q1_0",
    };
    const struct ggml_type *t = ggml_type(number);
    return t ? t->name : number < 42 ? others[number] : NULL;
}

const struct ggml_type *ggml_of_dtype(enum dtype t)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].form == GGML_PLAIN && types[i].dtype == t)
            return &types[i];
    return NULL;
}

/* ---- parts of blocks */

/* Nibbles of items i and i + 16 in one byte become those of items 2 i and 2 i + 1. */
static void neighbours(const uint8_t *q, uint8_t *y)
{
    for (int i = 0; i < 8; i++) {
        y[i] = (uint8_t)((q[2 * i] & 15) | (q[2 * i + 1] & 15) << 4);
        y[8 + i] = (uint8_t)(q[2 * i] >> 4 | (q[2 * i + 1] & 0xf0));
    }
}

static void put_f16(uint8_t *y, float x)
{
    uint16_t h = f16_from_f32(x);
    memcpy(y, &h, 2);
}

/* Bytes that a block adds to a part. */
static int part_bytes(const struct ggml_type *t, enum ggml_part part)
{
    switch (part) {
    case GGML_WEIGHT: return t->items * t->bits / 8;
    case GGML_NUMBERS: return t->items * 2;
    default: return t->form == GGML_MXFP4 ? 1 : 2;
    }
}

static void unpack(const struct ggml_type *t, enum ggml_part part, const uint8_t *b, uint8_t *y)
{
    int q = t->bytes - t->items * t->bits / 8; /* where a packed weight begins */
    float numbers[256];
    switch (part) {
    case GGML_WEIGHT:
        if (t->bits == 4)
            neighbours(b + q, y);
        else
            for (int i = 0; i < t->items; i++) y[i] = b[q + i] ^ 0x80; /* from -128.. to 0.. */
        break;
    case GGML_SCALES: memcpy(y, b, (size_t)part_bytes(t, part)); break;
    case GGML_BIASES:
        if (q == 4)
            memcpy(y, b + 2, 2);
        else
            put_f16(y, f16_at(b) * (t->bits == 4 ? -8 : -128));
        break;
    case GGML_NUMBERS:
        t->decode(b, numbers);
        for (int i = 0; i < t->items; i++) put_f16(y + 2 * i, numbers[i]);
        break;
    }
}

/* ---- as sources */

struct unpacked {
    struct source source;
    struct source *of;
    uint64_t from;
    const struct ggml_type *type;
    enum ggml_part part;
};

enum { SOME = 64 << 10 }; /* bytes of blocks that are read at a time */

static bool unpacked_read(struct source *self, void *data, uint64_t n, uint64_t offset)
{
    struct unpacked *u = (struct unpacked *)self;
    uint64_t bytes = (uint64_t)u->type->bytes, each = (uint64_t)part_bytes(u->type, u->part), most = SOME / bytes;
    uint64_t block = offset / each, end = (offset + n + each - 1) / each, skip = offset % each;
    uint8_t *raw = mx_malloc(SOME), whole[512], *to = data;
    if (!raw)
        return false;
    while (block < end) {
        uint64_t count = end - block < most ? end - block : most;
        if (!source_read(u->of, raw, count * bytes, u->from + block * bytes)) {
            free(raw);
            return false;
        }
        for (uint64_t i = 0; i < count; i++) {
            if (skip == 0 && n >= each) {
                unpack(u->type, u->part, raw + i * bytes, to);
                to += each;
                n -= each;
                continue;
            }
            uint64_t take = each - skip < n ? each - skip : n;
            unpack(u->type, u->part, raw + i * bytes, whole);
            memcpy(to, whole + skip, take);
            to += take;
            n -= take;
            skip = 0;
        }
        block += count;
    }
    free(raw);
    return true;
}

static void unpacked_destroy(struct object *self)
{
    struct unpacked *u = (struct unpacked *)self;
    source_release(u->of);
    free((char *)(uintptr_t)u->source.label);
    free(u);
}

struct source *ggml_unpacked(struct source *of, const char *name, uint64_t offset, uint64_t items,
                             const struct ggml_type *t, enum ggml_part part)
{
    char *label = source_label(of, name);
    struct unpacked *u = label ? mx_malloc(sizeof *u) : NULL;
    if (!u) {
        free(label);
        return NULL;
    }
    uint64_t size = items / (uint64_t)t->items * (uint64_t)part_bytes(t, part);
    object_retain(&of->object);
    *u = (struct unpacked){
        { .object = { 1, unpacked_destroy },
          .label = label,
          .size = size,
          .in_parts = of->in_parts,
          .eager = of->eager,
          .read = unpacked_read },
        of,
        offset,
        t,
        part,
    };
    return &u->source;
}
