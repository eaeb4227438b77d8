/* specialized_text.c: an element-wise program as the text of a kernel, of what kernels/specialized.h defines.
 *
 * Slots become names: what a step made is v and its number; an operand is x, or o where it is one value. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda/specialize.h"

/* What a step calls; by its operation. */
static const char *const function_of[FUSED_OPS] = {
#define X(name) [FUSED_##name##_ONE] = #name "_f32",
    FUSED_WITH_ONE(X)
#undef X
#define X(name)                                                                           \
    [FUSED_##name##_BF16] = #name "_pair_bf16", [FUSED_##name##_F16] = #name "_pair_f16", \
    [FUSED_##name##_BF16_ONE] = #name "_pair_bf16", [FUSED_##name##_F16_ONE] = #name "_pair_f16",
        FUSED_ON_PAIRS(X)
#undef X
#define KIND f
#define UNARY(name, label, set, ...) ROW(set, [FUSED_##name##_F] = #name "_f32", )
#define BINARY(name, label, set, ...) ROW(set, [FUSED_##name##_F] = #name "_f32", )
#include "ops/ops.def"
#undef KIND
#define KIND i
#define UNARY(name, label, set, ...) ROW(set, [FUSED_##name##_I] = #name "_i32", [FUSED_##name##_U] = #name "_u32", )
#define BINARY(name, label, set, ...) ROW(set, [FUSED_##name##_I] = #name "_i32", [FUSED_##name##_U] = #name "_u32", )
#include "ops/ops.def"
#undef KIND
#define KIND b
#define UNARY(name, label, set, ...) ROW(set, [FUSED_##name##_B] = #name "_b8", )
#define BINARY(name, label, set, ...) ROW(set, [FUSED_##name##_B] = #name "_b8", )
#include "ops/ops.def"
#undef KIND
#define X(name) [FUSED_##name##_H] = #name "_half",
            FUSED_OF_HALF(X) FUSED_OF_HALVES(X)
#undef X
#define X(name) [FUSED_##name] = #name,
                FUSED_CASTS(X) X(COPY)
#undef X
};

/* Is it some tens of instructions, or hundreds?  Of those with formulas, but for power, of whole numbers too. */
static const bool is_long[FUSED_OPS] = {
#define LONG_ANY false
#define LONG_NUMERIC false
#define LONG_REAL false
#define LONG_INTEGER false
#define LONG_SHIFTED false
#define LONG_BOOL false
#define LONG_INEXACT true
#define LONG_FLOAT true
#define KIND f
#define UNARY(name, label, set, ...) ROW(set, [FUSED_##name##_F] = LONG_##set, )
#define BINARY(name, label, set, ...) ROW(set, [FUSED_##name##_F] = LONG_##set, )
#include "ops/ops.def"
#undef KIND
};

static const char *const type_names[DT_COUNT] = {
#define X(name, suffix, type, size, kind) [DT_##name] = #name,
    MX_DTYPES(X)
#undef X
};
static const char *const lies_names[] = {
    [FUSED_ONE] = "ONE", [FUSED_ROW] = "ROW", [FUSED_ROWS] = "ROWS", [FUSED_STRIDED] = "STRIDED", [FUSED_SAME] = "SAME"
};

/* How many times its lanes a thread has: as many loads are under way at once, which hides how long they take, in as
 * many registers, and as many copies of the formulas are in the kernel. */
static int units_of(const struct specialized *p, int *words)
{
    enum { MOST_WORDS = 16, MOST_FORMULAS = 32 };
    bool divides = p->ndim && !p->near; /* for each place, which takes code */
    int units = p->few || divides ? 1 : 4, formulas = 0;
    *words = 0;
    for (int i = 0; i < p->operands; i++)
        if (p->lies[i] != FUSED_ONE)
            *words += p->lanes * (int)dtype_size((enum dtype)p->type[i]) / 4;
    for (int i = 0; i < p->steps; i++) formulas += is_long[p->step[i].op];
    while (units > 1 && (units * *words > MOST_WORDS || units * p->lanes * formulas > MOST_FORMULAS)) units /= 2;
    *words *= units;
    return units;
}

enum { NAME = 16 }; /* a letter and any int */
struct names {
    char slot[FUSED_SLOT + 1][NAME], last[NAME];
};

/* What a step reads. */
static const char *name_of(struct names *n, int from, char one[NAME])
{
    if (from == FUSED_LAST)
        return n->last;
    if (from < FUSED_ONES)
        return n->slot[from & FUSED_SLOT];
    snprintf(one, NAME, "o%d", from - FUSED_ONES);
    return one;
}

static void put_step(FILE *f, struct names *n, const struct fused_step *s, int i)
{
    const char *type = type_names[s->as], *function = function_of[s->op];
    char one[3][NAME];
    const bool with_one = s->x[1] == FUSED_NOTHING && s->x[2] != FUSED_NOTHING;
    const char *x = name_of(n, s->x[0], one[0]), *y = name_of(n, s->x[with_one ? 2 : 1], one[1]);
    if (s->op == FUSED_SELECT)
        fprintf(f, "CHOOSE(v%d, %s, %s, %s, %s)\n", i, x, y, name_of(n, s->x[2], one[2]), type);
    else if (s->needs & FUSED_PAIRS)
        fprintf(f, "PAIRS(v%d, %s, %s, %s, %s)\n", i, function, x, y, type);
    else if (s->op == FUSED_divide_ONE)
        fprintf(f, "DIVIDE(v%d, %s, %d, %s)\n", i, x, s->x[2] - FUSED_ONES, type);
    else if (with_one || s->op >= FUSED_BINARY)
        fprintf(f, "TWO(v%d, %s, %s, %s, %s)\n", i, function, x, y, type);
    else
        fprintf(f, "ONE(v%d, %s, %s, %s)\n", i, function, x, type);
    snprintf(n->last, sizeof n->last, "v%d", i);
    if (s->to != FUSED_NOTHING)
        snprintf(n->slot[s->to & FUSED_SLOT], sizeof *n->slot, "v%d", i);
    if (s->out != FUSED_NOTHING)
        fprintf(f, "WRITE(%d, v%d, %s)\n", s->out, i, type);
}

/* A line for each operand that is no single value. */
static void put_reads(FILE *f, const struct specialized *p, const char *word)
{
    for (int i = 0; i < p->operands; i++)
        if (p->lies[i] != FUSED_ONE)
            fprintf(f, "%s(%d, %s, %s)\n", word, i, type_names[p->type[i]], lies_names[p->lies[i]]);
}

static void put_divisors(FILE *f, const struct specialized *p)
{
    uint32_t put = 0;
    for (int i = 0; i < p->steps; i++) {
        int x = p->step[i].x[2] - FUSED_ONES;
        if (p->step[i].op == FUSED_divide_ONE && !(put >> x & 1)) {
            fprintf(f, "DIVISOR(%d)\n", x);
            put |= 1u << x;
        }
    }
}

char *specialized_text(const struct specialized *p, int64_t *each)
{
    enum { MANY_WORDS = 16, MANY_STEPS = 24 };
    struct names names = { .last = "" };
    char *text = NULL;
    size_t size;
    int words, units = units_of(p, &words);
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    *each = (int64_t)FUSED_THREADS * p->lanes * units;
    fprintf(f, "#define LANES %d\n#define UNITS %d\n#define DIMS %d\n#define WHOLE %d\n#define NEAR %d\n", p->lanes,
            units, p->ndim, p->whole, p->near);
    fprintf(f, "#define BLOCKS %d\n", words > MANY_WORDS || p->steps > MANY_STEPS ? 4 : 8);
    fprintf(f, "#include \"cuda/kernels/specialized.h\"\nPROGRAM\n");
    for (int i = 0; i < p->operands; i++)
        fprintf(f, p->lies[i] == FUSED_ONE ? "SINGLE(%d, %s)\n" : "OPERAND(%d)\n", i, type_names[p->type[i]]);
    put_divisors(f, p);
    fprintf(f, "IF_ALL\n");
    put_reads(f, p, "READ");
    fprintf(f, "IF_SOME\n");
    put_reads(f, p, "READ_SOME");
    fprintf(f, "END_IF\nEACH_UNIT\n");
    for (int i = 0; i < p->operands; i++)
        if (p->lies[i] != FUSED_ONE)
            fprintf(f, "TAKE(%d, %s)\n", i, type_names[p->type[i]]);
    for (int i = 0; i < p->steps; i++)
        if (p->step[i].op == FUSED_READ)
            snprintf(names.slot[p->step[i].to & FUSED_SLOT], sizeof *names.slot, "x%d", p->step[i].x[1]);
        else
            put_step(f, &names, &p->step[i], i);
    fprintf(f, "END\n");
    bool cut = ferror(f);
    if (!fclose(f) && !cut)
        return text;
    free(text);
    return NULL;
}
