/* Every row of ops.def has its rules: a table of operation by rule, printed, without a blank that
 * is not none by nature. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mlxfn/mlxfn.h"
#include "ops/index.h"
#include "ops/op.h"
#include "run/backend.h"
#include "run/control.h"

enum { RULES = 4 };
static const char *const rule_names[RULES] = { "shapes", "vjp", "jvp", "vmap" };

/* Arrays made of nothing have nothing to be differentiated or batched by. */
static bool takes_operands(const struct op *op)
{
    return op->id != OP_arange && op->id != OP_linspace && op->id != OP_eye && op->id != OP_load;
}

/* "yes", "none" by nature, or NULL: a blank. */
static const char *rule(const struct op *op, int i)
{
    if (i > 0 && (!takes_operands(op) || op->id == OP_cpu_kernel ||
                  op->id == OP_cuda_kernel)) /* whose text nobody differentiates */
        return "none";
    bool elementwise = op->id < OP_where; /* whose rules come from the partial */
    switch (i) {
    case 0: return op->shapes ? "yes" : NULL;
    case 1: return !op->vjp ? NULL : op->vjp == no_vjp || (elementwise && !op->partial) ? "none" : "yes";
    case 2: return !op->jvp ? NULL : op->jvp == no_jvp || (elementwise && !op->partial) ? "none" : "yes";
    default: return op->vmap ? "yes" : NULL;
    }
}

static void every_rule(void **state)
{
    (void)state;
    int blanks = 0;
    print_message("%-24s %-8s %-8s %-8s %-8s\n", "operation", rule_names[0], rule_names[1], rule_names[2],
                  rule_names[3]);
    for (int id = 0; id < OP_COUNT; id++) {
        const struct op *op = op_table[id];
        char line[128];
        int n = snprintf(line, sizeof line, "%-24s", op->name);
        for (int i = 0; i < RULES; i++) {
            const char *have = rule(op, i);
            n += snprintf(line + n, sizeof line - (size_t)n, " %-8s", have ? have : "BLANK");
            blanks += !have;
        }
        print_message("%s\n", line);
    }
    assert_int_equal(blanks, 0);
}

static int graphs_in(const struct op *op)
{
    int n = 0;
    for (const struct field *f = op->fields; f && f->kind; f++) n += f->kind == F_OBJECT;
    return n;
}

static const bool is_element_wise[] = {
#define UNARY(...) true,
#define BINARY(...) true,
#define OTHER(...) false,
#include "ops/ops.def"
};

/* Every operation says how exported files are written; what is written as its arguments can be read. */
static void every_form(void **state)
{
    (void)state;
    for (int id = 0; id < OP_COUNT; id++) {
        const struct op *op = op_table[id];
        if (!wire_stated(op))
            fail_msg("%s has neither a row in src/mlxfn/forms.def nor .fits, by which its arguments are read from a "
                     "file",
                     op->name);
        if (!wire_has_extension(op))
            continue;
        if (is_element_wise[id] && !wire_composable(op))
            fail_msg("%s, which is element-wise, has no row in src/mlxfn/forms.def, by which others read it", op->name);
        assert_ptr_equal(extension_named(op->name, strlen(op->name)), op);
        if (graphs_in(op) > 2 || !op->rebuild != !graphs_in(op))
            fail_msg("%s has %d graphs in its arguments, and %s .rebuild", op->name, graphs_in(op),
                     op->rebuild ? "a" : "no");
    }
    const char *before = "";
    for (int i = 0; primitive_at(i); i++) { /* found by halving */
        assert_true(strcmp(before, primitive_at(i)->name) < 0);
        before = primitive_at(i)->name;
        assert_ptr_equal(primitive_named(before, strlen(before)), primitive_at(i));
    }
    assert_null(primitive_named("Sum", 3));
}

/* Members of argument structs that are no arguments: equal nodes may differ in them. */
static const struct {
    int op;
    size_t bytes;
} no_arguments[] = {
    { OP_gather_axis, sizeof(((struct gather_axis_args *)0)->given) }, /* for messages */
    { OP_scatter_axis, sizeof(((struct scatter_axis_args *)0)->given) },
    { OP_cholesky, 4 }, /* `factor`, of inverses alone, and padding */
};

static size_t not_described(const struct op *op)
{
    for (size_t i = 0; i < sizeof no_arguments / sizeof *no_arguments; i++)
        if (no_arguments[i].op == op->id)
            return no_arguments[i].bytes;
    return 0;
}

static struct extent {
    size_t size, align;
} extent_of(const struct field *f)
{
    switch ((enum field_kind)f->kind) {
    case F_BOOL: return (struct extent){ sizeof(bool), _Alignof(bool) };
    case F_INT:
    case F_ENUM: return (struct extent){ sizeof(int), _Alignof(int) };
    case F_I64: return (struct extent){ sizeof(int64_t), _Alignof(int64_t) };
    case F_F64: return (struct extent){ sizeof(double), _Alignof(double) };
    case F_INTS:
    case F_SIZES: return (struct extent){ sizeof(struct ints), _Alignof(struct ints) };
    case F_TEXT: return (struct extent){ sizeof(struct text), _Alignof(struct text) };
    case F_OBJECT: return (struct extent){ sizeof(struct object *), _Alignof(struct object *) };
    default: return (struct extent){ 0, 0 };
    }
}

/* What no field describes is not copied in full, compared or written to files: nodes that differ in it would be taken
 * for one.  Of what may be padding tests/python/test_fields.py knows. */
static void fields_cover_arguments(void **state)
{
    (void)state;
    for (int id = 0; id < OP_COUNT; id++) {
        const struct op *op = op_table[id];
        size_t align_at[256] = { 0 }, most = 1, gap = 0;
        bool covered[256] = { false };
        assert_in_range(op->args_size, 0, sizeof covered - 1);
        for (const struct field *f = op->fields; f && f->kind; f++) {
            struct extent e = extent_of(f);
            for (size_t i = 0; i < e.size; i++) {
                if (f->offset + i >= op->args_size || covered[f->offset + i])
                    fail_msg("%s: field %s is of another struct, or there twice", op->name, f->name);
                covered[f->offset + i] = true;
            }
            align_at[f->offset] = e.align;
            most = e.align > most ? e.align : most;
        }
        align_at[op->args_size] = not_described(op) + most;
        for (size_t i = 0; i <= op->args_size; i++) {
            if (align_at[i] && gap >= align_at[i])
                fail_msg("%s: no field describes %zu bytes of its arguments before byte %zu", op->name, gap, i);
            gap = covered[i] ? 0 : gap + 1;
        }
    }
}

/* The columns of ops.def are those of the table. */
static void columns_agree(void **state)
{
    (void)state;
    static const struct row {
        const char *name, *label;
        unsigned traits;
        enum dtype_set dtypes;
    } rows[] = {
#define UNARY(name, label, dtypes, traits, form, doc) { #name, label, traits, dtypes },
#define BINARY(name, label, dtypes, traits, form, doc) { #name, label, traits, dtypes },
#define OTHER(name, label, traits) { #name, label, traits, ANY },
#include "ops/ops.def"
    };
    assert_int_equal(sizeof rows / sizeof *rows, OP_COUNT);
    for (int id = 0; id < OP_COUNT; id++) {
        assert_string_equal(op_table[id]->name, rows[id].name);
        assert_string_equal(op_table[id]->label, rows[id].label);
        assert_int_equal(op_table[id]->traits, rows[id].traits);
        assert_int_equal(op_table[id]->dtypes, rows[id].dtypes);
    }
}

/* A derivative that exists one way exists the other way, and names are told apart. */
static void rows_agree(void **state)
{
    (void)state;
    for (int id = 0; id < OP_COUNT; id++) {
        const struct op *op = op_table[id];
        assert_int_equal(op->id, id);
        if ((op->vjp == no_vjp) != (op->jvp == no_jvp))
            fail_msg("%s has a derivative one way only", op->name);
        for (int other = 0; other < id; other++) {
            assert_string_not_equal(op->name, op_table[other]->name);
            assert_string_not_equal(op->label, op_table[other]->label);
        }
    }
}

static void cpu_runs_every_row(void **state)
{
    (void)state;
    for (int id = 0; id < OP_COUNT; id++) {
        struct node n = { .op = op_table[id] };
        if (!cpu_backend.supports(&n) && !control_is(n.op))
            fail_msg("%s has no CPU kernel", op_table[id]->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule), cmocka_unit_test(every_form),         cmocka_unit_test(columns_agree),
        cmocka_unit_test(rows_agree), cmocka_unit_test(cpu_runs_every_row), cmocka_unit_test(fields_cover_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
