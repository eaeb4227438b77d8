/* einsum.c: sums of products named by their indices, "ij,jk->ik".
 *
 * An index is a number: letters are 0 to 51, the dimensions that an ellipsis stands for follow,
 * counted from the right so that they broadcast.  Operands lose what they alone have and nobody asks
 * for (diagonals, sums), and then are contracted two at a time, each pair as a matrix product: the
 * indices of both that are still needed are its batch, those that are not are summed over. */
#include "ops/einsum.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "ops/rules.h"

enum { LETTERS = 52, INDICES = LETTERS + MX_MAX_NDIM, ELLIPSIS = -1, ABSENT = -1 };
enum { SHORT = 64 };    /* dots of no more elements cost more as matrix products of their own */
enum { SEARCHED = 64 }; /* of more operands these, the first, are looked through for a pair to contract */

typedef unsigned __int128 set; /* of indices */

/* An operand or a product of some: index[d] names dimension d. */
struct term {
    mx x;
    int n, index[MX_MAX_NDIM];
};

struct einsum {
    int n;
    struct term *term;
    int rank, output[INDICES]; /* what the result is indexed by */
    int size[INDICES];         /* ABSENT: an index of no operand */
};

static set only(int index) { return (set)1 << index; }
static bool has(set s, int index) { return s >> index & 1; }

static set set_of(int n, const int *index)
{
    set s = 0;
    for (int i = 0; i < n; i++) s |= only(index[i]);
    return s;
}

static set indices(const struct term *t) { return set_of(t->n, t->index); }

static int count(set s) { return __builtin_popcountll((uint64_t)s) + __builtin_popcountll((uint64_t)(s >> 64)); }

static int lowest(set s)
{
    return (uint64_t)s ? __builtin_ctzll((uint64_t)s) : 64 + __builtin_ctzll((uint64_t)(s >> 64));
}

static double volume(const struct einsum *e, set s)
{
    double v = 1;
    for (; s; s &= s - 1) v *= e->size[lowest(s)];
    return v;
}

/* ---- reading subscripts */

static int letter(char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= 'A' && c <= 'Z' ? c - 'A' : ABSENT; }

/* The letter of an index; '.' for dimensions of an ellipsis. */
static char name_of(int i) { return i < 26 ? (char)('A' + i) : i < LETTERS ? (char)('a' + i - 26) : '.'; }

/* The subscripts of one operand, or of the result, up to what ends them. */
static const char *read_term(const char *s, const char *whole, int *index, int *n)
{
    bool ellipsis = false;
    for (*n = 0; *s && *s != ',' && strncmp(s, "->", 2); s++) {
        int i = letter(*s);
        if (isspace((unsigned char)*s))
            continue;
        if (!strncmp(s, "...", 3) && !ellipsis) {
            ellipsis = true;
            i = ELLIPSIS;
            s += 2;
        } else if (i == ABSENT) {
            mx_fail("[einsum] expected letters, ',', '->' and at most one '...' for each operand, got '%c' in '%s'", *s,
                    whole);
            return NULL;
        }
        if (*n == MX_MAX_NDIM) {
            mx_fail("[einsum] expected at most %d subscripts for each operand, got more in '%s'", MX_MAX_NDIM, whole);
            return NULL;
        }
        index[(*n)++] = i;
    }
    return s;
}

/* The size of an index, as operand k has it; 1 gives way to any other. */
static bool agree(struct einsum *e, int k, int index, int size, mx x)
{
    int *have = &e->size[index];
    if (*have != ABSENT && *have != 1 && size != 1 && *have != size) {
        mx_fail("[einsum] expected size %d for subscript '%c' as in operands before, got %d in operand %d of shape %s",
                *have, name_of(index), size, k, shape_of(x));
        return false;
    }
    if (*have == ABSENT || *have == 1)
        *have = size;
    return true;
}

/* Operand k, its dimensions named: by letters as they are, and where there is an ellipsis by those it
 * stands for. */
static bool add_term(struct einsum *e, int k, int n, const int *index, mx x)
{
    struct term *t = &e->term[k];
    bool ellipsis = false;
    for (int i = 0; i < n; i++) ellipsis |= index[i] == ELLIPSIS;
    int more = x->ndim - (n - ellipsis);
    if (more < 0 || (more > 0 && !ellipsis)) {
        mx_fail("[einsum] expected a subscript for each dimension, got %d for operand %d of shape %s", n - ellipsis, k,
                shape_of(x));
        return false;
    }
    *t = (struct term){ .x = x };
    for (int i = 0; i < n; i++) {
        if (index[i] != ELLIPSIS)
            t->index[t->n++] = index[i];
        else
            for (int d = more; d-- > 0;) t->index[t->n++] = LETTERS + d;
    }
    for (int d = 0; d < t->n; d++) {
        for (int c = 0; c < d; c++)
            if (t->index[c] == t->index[d] && x->shape[c] != x->shape[d]) {
                mx_fail("[einsum] expected one size for subscript '%c', got %d and %d in operand %d of shape %s",
                        name_of(t->index[d]), x->shape[c], x->shape[d], k, shape_of(x));
                return false;
            }
        if (!agree(e, k, t->index[d], x->shape[d], x))
            return false;
    }
    return true;
}

/* Without "->": what an ellipsis stands for, then the letters that occur once, in their order. */
static void implied_output(struct einsum *e)
{
    int times[INDICES] = { 0 };
    for (int k = 0; k < e->n; k++)
        for (int d = 0; d < e->term[k].n; d++) times[e->term[k].index[d]]++;
    e->rank = 0;
    for (int i = INDICES; i-- > LETTERS;)
        if (times[i])
            e->output[e->rank++] = i;
    for (int i = 0; i < LETTERS; i++)
        if (times[i] == 1)
            e->output[e->rank++] = i;
}

static bool read_output(struct einsum *e, const char *s, const char *whole)
{
    int index[MX_MAX_NDIM], n;
    s = read_term(s, whole, index, &n);
    if (!s)
        return false;
    if (*s) {
        mx_fail("[einsum] expected nothing after the subscripts of the result, got '%s' in '%s'", s, whole);
        return false;
    }
    e->rank = 0;
    for (int i = 0; i < n; i++) {
        if (index[i] != ELLIPSIS) {
            e->output[e->rank++] = index[i];
            continue;
        }
        for (int d = INDICES; d-- > LETTERS;)
            if (e->size[d] != ABSENT)
                e->output[e->rank++] = d;
    }
    for (int i = 0; i < e->rank; i++)
        if (e->size[e->output[i]] == ABSENT || has(set_of(i, e->output), e->output[i])) {
            mx_fail("[einsum] expected subscripts of the result to be those of operands, each once, got '%s'", whole);
            return false;
        }
    return true;
}

static bool read_subscripts(struct einsum *e, const char *subscripts, int n, const mx x[])
{
    e->term = NULL;
    if (n < 1) {
        mx_fail("[einsum] expected an operand or more, got none");
        return false;
    }
    e->term = mx_malloc(2 * (size_t)n * sizeof *e->term); /* and products behind them */
    if (!e->term)
        return false;
    const char *s = subscripts;
    for (int i = 0; i < INDICES; i++) e->size[i] = ABSENT;
    for (e->n = 0; s; s++) {
        int index[MX_MAX_NDIM], m;
        s = read_term(s, subscripts, index, &m);
        if (!s || (e->n < n && (is_nil(x[e->n]) || !add_term(e, e->n, m, index, x[e->n]))))
            return false;
        e->n++;
        if (*s != ',')
            break;
    }
    if (e->n != n) {
        mx_fail("[einsum] expected as many operands as '%s' has subscripts for, %d, got %d", subscripts, e->n, n);
        return false;
    }
    if (!*s)
        implied_output(e);
    else if (!read_output(e, s + 2, subscripts))
        return false;
    if (e->rank <= MX_MAX_NDIM)
        return true;
    mx_fail("[einsum] expected at most %d dimensions of the result, got %d", MX_MAX_NDIM, e->rank);
    return false;
}

/* ---- the order of contractions: greedy, the pair that makes memory smallest, then the cheapest */

static double flops(const struct einsum *e, set all, bool sums, int terms)
{
    int factor = terms > 2 ? terms - 1 : 1;
    return volume(e, all) * (factor + sums);
}

/* How often the indices occur in terms, as far as it matters. */
struct uses {
    int times[INDICES];
    set once, twice; /* the indices that occur so often */
};

static void count_uses(struct uses *u, set term, int change)
{
    for (; term; term &= term - 1) {
        int i = lowest(term), times = u->times[i] += change;
        u->once = (u->once & ~only(i)) | (times == 1 ? only(i) : 0);
        u->twice = (u->twice & ~only(i)) | (times == 2 ? only(i) : 0);
    }
}

/* What is left of two terms once they are contracted: not what these alone have, but for the output. */
static set left_of(set a, set b, const struct uses *u, set output)
{
    return (a | b) & (output | ~(((a ^ b) & u->once) | (a & b & u->twice)));
}

/* Takes places i < j, which are among the first, out of a list of elements of some size: it then begins two places
 * later. */
static void *without_pair(void *list, size_t size, int i, int j)
{
    char *v = list;
    memmove(v + (size_t)(i + 2) * size, v + (size_t)(i + 1) * size, (size_t)(j - i - 1) * size);
    memmove(v + 2 * size, v, (size_t)i * size);
    return v + 2 * size;
}

static bool find_path(const struct einsum *e, struct einsum_path *p)
{
    set all = 0, output = set_of(e->rank, e->output);
    int n = e->n;
    struct uses uses = { 0 };
    set *terms = mx_malloc(2 * (size_t)n * sizeof *terms), *term = terms; /* see without_pair */
    *p = (struct einsum_path){ .pair = NULL };
    p->pair = term ? mx_malloc((size_t)n * sizeof *p->pair) : NULL;
    if (!p->pair) {
        free(terms);
        return false;
    }
    for (int k = 0; k < n; k++) {
        all |= term[k] = indices(&e->term[k]);
        count_uses(&uses, term[k], 1);
    }
    p->naive_scaling = count(all);
    p->naive_flops = flops(e, all, (all & ~output) != 0, n);
    p->flops = n > 1 ? 0 : p->naive_flops;
    p->scaling = n > 1 ? 0 : p->naive_scaling;
    for (bool fresh = false; n > 1; fresh = true, n--) {
        /* Pairs with what was made last come last, and the first of equals is taken. */
        double best[2] = { 0, 0 };
        int at[2] = { -1, -1 }, m = n < SEARCHED ? n : SEARCHED;
        for (int outer = 0; outer < 2 && at[0] < 0; outer++)
            for (int last = 0; last < 2; last++)
                for (int i = 0; i < m; i++)
                    for (int j = i + 1; j < m; j++) {
                        if ((fresh && j == n - 1) != last || (!outer && !(term[i] & term[j])))
                            continue;
                        set left = left_of(term[i], term[j], &uses, output), both = term[i] | term[j];
                        double grown = volume(e, left) - volume(e, term[i]) - volume(e, term[j]);
                        double cost = flops(e, both, (both & ~left) != 0, 2);
                        if (at[0] >= 0 && (grown > best[0] || (grown == best[0] && cost >= best[1])))
                            continue;
                        best[0] = grown, best[1] = cost;
                        at[0] = i, at[1] = j;
                    }
        set a = term[at[0]], b = term[at[1]], left = left_of(a, b, &uses, output), both = a | b;
        p->flops += best[1];
        p->scaling = count(both) > p->scaling ? count(both) : p->scaling;
        memcpy(p->pair[p->n++], at, sizeof at);
        count_uses(&uses, a, -1);
        count_uses(&uses, b, -1);
        count_uses(&uses, left, 1);
        term = without_pair(term, sizeof *term, at[0], at[1]);
        term[n - 2] = left;
    }
    free(terms);
    return true;
}

bool mx_einsum_path(const char *subscripts, int n, const mx x[], struct einsum_path *path)
{
    struct einsum e;
    path->pair = NULL;
    bool good = read_subscripts(&e, subscripts, n, x) && find_path(&e, path);
    free(e.term);
    return good;
}

/* ---- doing it */

static int index_place(const struct term *t, int index)
{
    for (int d = 0; d < t->n; d++)
        if (t->index[d] == index)
            return d;
    return -1;
}

static void forget_index(struct term *t, int d)
{
    memmove(t->index + d, t->index + d + 1, (size_t)(--t->n - d) * sizeof *t->index);
}

/* Diagonals for indices that occur twice, and no dimension where a size of 1 broadcasts. */
static void simplify_term(const struct einsum *e, struct term *t)
{
    for (int d = 0; d < t->n; d++)
        for (int c = d + 1; c < t->n;) {
            int index = t->index[d];
            if (t->index[c] != index) {
                c++;
                continue;
            }
            t->x = mx_diagonal(t->x, 0, d, c);
            forget_index(t, c);
            forget_index(t, d);
            t->index[t->n++] = index;
            c = d + 1;
        }
    for (int d = t->n; d-- > 0;)
        if (dim(t->x, d) == 1 && e->size[t->index[d]] != 1) {
            t->x = mx_squeeze(t->x, &d, 1);
            forget_index(t, d);
        }
}

/* Without the indices that are not wanted. */
static void sum_out(struct term *t, set wanted)
{
    int axes[MX_MAX_NDIM], n = 0, kept = 0;
    for (int d = 0; d < t->n; d++) {
        if (has(wanted, t->index[d]))
            t->index[kept++] = t->index[d];
        else
            axes[n++] = d;
    }
    t->n = kept;
    if (n) {
        enum dtype dtype = t->x->dtype;
        t->x = mx_astype(mx_sum(t->x, axes, n, false), dtype);
    }
}

/* The dimensions of t by groups of indices. */
static mx arranged(const struct term *t, int n, const int *order)
{
    int axes[MX_MAX_NDIM];
    bool same = n == t->n;
    for (int i = 0; i < n; i++) {
        axes[i] = index_place(t, order[i]);
        same = same && axes[i] == i;
    }
    return same ? t->x : mx_transpose(t->x, axes, n);
}

/* The indices of t that are among some, in t's order. */
static int pick(const struct term *t, set some, int *index)
{
    int n = 0;
    for (int d = 0; d < t->n; d++)
        if (has(some, t->index[d]))
            index[n++] = t->index[d];
    return n;
}

static int append_indices(int *to, int at, int n, const int *from)
{
    for (int i = 0; i < n; i++) to[at + i] = from[i];
    return at + n;
}

static const int *left_places(int from, int n, int *out)
{
    for (int i = 0; i < n; i++) out[i] = from + i;
    return out;
}

/* n dimensions from `at` on as one. */
static mx joined(mx x, int at, int n) { return n ? mx_flatten(x, at, at + n - 1) : mx_expand_dims(x, &at, 1); }

/* The first `kept` dimensions, then m as one, and n. */
static mx as_matrix(mx x, int kept, int m, int n) { return joined(joined(x, kept + m, n), kept, m); }

/* Are the last n dimensions of t these? */
static bool letters_end_with(const struct term *t, int n, const int *index)
{
    for (int i = 0; i < n; i++)
        if (t->index[t->n - n + i] != index[i])
            return false;
    return true;
}

/* Many dots: products of elements, summed where they stand. */
static mx dots(struct term a, const struct term *b, set wanted)
{
    enum dtype t = a.x->dtype, wide = dtype_is_half(t) ? DT_float32 : t;
    a.x = mx_multiply(mx_astype(a.x, wide), mx_astype(arranged(b, a.n, a.index), wide));
    sum_out(&a, wanted);
    return mx_astype(a.x, t);
}

/* The product of a and b, summed over the indices that both have and nobody wants. */
static struct term contract(const struct einsum *e, struct term a, struct term b, set wanted)
{
    struct term y = { .x = MX_NIL };
    int batch[MX_MAX_NDIM], left[MX_MAX_NDIM], right[MX_MAX_NDIM], inner[MX_MAX_NDIM], order[2 * MX_MAX_NDIM];
    sum_out(&a, wanted | indices(&b));
    sum_out(&b, wanted | indices(&a));
    set sa = indices(&a), sb = indices(&b);
    int nbatch = pick(&a, sb & wanted, batch), ninner = pick(&a, sb & ~wanted, inner);
    int nleft = pick(&a, ~sb, left), nright = pick(&b, ~sa, right);
    if (nbatch + nleft + nright > MX_MAX_NDIM) {
        mx_fail("[einsum] expected at most %d dimensions of a product, got %d", MX_MAX_NDIM, nbatch + nleft + nright);
        return y;
    }
    y.n = append_indices(y.index, append_indices(y.index, append_indices(y.index, 0, nbatch, batch), nleft, left),
                         nright, right);
    mx p = arranged(&a,
                    append_indices(order, append_indices(order, append_indices(order, 0, nbatch, batch), nleft, left),
                                   ninner, inner),
                    order);
    mx q = arranged(&b,
                    append_indices(order, append_indices(order, append_indices(order, 0, nbatch, batch), ninner, inner),
                                   nright, right),
                    order);
    if (is_nil(p) || is_nil(q))
        return y;
    if (ninner == 0) { /* nothing is summed: b's own dimensions stand behind a's */
        mx wide = mx_expand_dims(p, left_places(nbatch + nleft, nright, order), nright);
        y.x = mx_multiply(wide, mx_expand_dims(q, left_places(nbatch, nleft, order), nleft));
        return y;
    }
    int64_t depth = 1;
    for (int i = 0; i < ninner; i++) depth *= e->size[inner[i]];
    if (nbatch && nleft + nright == 0 &&
        (depth <= SHORT || !letters_end_with(&a, ninner, inner) || !letters_end_with(&b, ninner, inner))) {
        y.x = dots(a, &b, wanted);
        return y;
    }
    if (ninner > 1) { /* as one they would hide, in a graph for any shape, a size of 1 that broadcasts */
        struct size alike[MX_MAX_NDIM];
        for (int i = 0; i < nbatch + nleft; i++) alike[i] = size_of(p, i);
        for (int i = 0; i < ninner; i++) alike[nbatch + nleft + i] = size_of(q, nbatch + i);
        p = mx_sizes_checked(p, nbatch + nleft + ninner, alike);
    }
    y.x = mx_matmul(as_matrix(p, nbatch, nleft, ninner), as_matrix(q, nbatch, ninner, nright));
    if (is_nil(y.x))
        return y;
    if (nleft < 2 && nright < 2) {
        int gone[2], n = 0;
        if (!nleft)
            gone[n++] = nbatch;
        if (!nright)
            gone[n++] = nbatch + 1;
        y.x = n ? mx_squeeze(y.x, gone, n) : y.x;
        return y;
    }
    struct size sizes[MX_MAX_NDIM];
    for (int i = 0; i < nbatch; i++) sizes[i] = size_of(y.x, i);
    for (int i = 0; i < nleft; i++) sizes[nbatch + i] = size_of(p, nbatch + i);
    for (int i = 0; i < nright; i++) sizes[nbatch + nleft + i] = size_of(q, nbatch + ninner + i);
    y.x = mx_reshape_by(y.x, nbatch + nleft + nright, sizes);
    return y;
}

/* The operands, pair after pair, as the path says. */
static mx contract_all(struct einsum *e, const struct einsum_path *path)
{
    set wanted = set_of(e->rank, e->output);
    struct uses uses = { 0 };
    struct term *term = e->term;
    for (int k = 0; k < e->n; k++) count_uses(&uses, indices(&term[k]), 1);
    for (int c = 0, n = e->n; c < path->n; c++, n--) {
        const int *at = path->pair[c];
        struct term a = term[at[0]], b = term[at[1]];
        set both = indices(&a) | indices(&b), left = left_of(indices(&a), indices(&b), &uses, wanted);
        count_uses(&uses, indices(&a), -1);
        count_uses(&uses, indices(&b), -1);
        term = without_pair(term, sizeof *term, at[0], at[1]);
        struct term *y = &term[n - 2];
        *y = contract(e, a, b, left | ~both);
        if (is_nil(y->x))
            return MX_NIL;
        count_uses(&uses, indices(y), 1);
    }
    sum_out(term, wanted);
    return arranged(term, e->rank, e->output);
}

mx mx_einsum(const char *subscripts, int n, const mx x[])
{
    struct einsum e;
    struct einsum_path path = { .pair = NULL };
    mx y = MX_NIL;
    if (read_subscripts(&e, subscripts, n, x)) {
        enum dtype t = x[0]->dtype;
        for (int k = 1; k < n; k++) t = promote(t, x[k]->dtype);
        for (int k = 0; k < n; k++) {
            e.term[k].x = mx_astype(x[k], t == DT_bool_ ? DT_int32 : t); /* a sum of bool is whether any holds */
            simplify_term(&e, &e.term[k]);
        }
        if (find_path(&e, &path))
            y = mx_astype(contract_all(&e, &path), t);
    }
    free(path.pair);
    free(e.term);
    return y;
}
