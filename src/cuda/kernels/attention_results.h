/* attention_results.h: what becomes of the rows that a block of attention has added up.
 *
 * Include attention_at.h before. */
#ifndef MX_CUDA_KERNELS_ATTENTION_RESULTS_H
#define MX_CUDA_KERNELS_ATTENTION_RESULTS_H

/* A row has been added up: with its sink, if this is all there is; what the sums of V are to be multiplied with. */
FN T finish_row(const struct attention_call *a, const struct spot *s, int64_t r, T *top, T *sum)
{
    T by = 1;
    if (a->pieces > 1)
        return by;
    if (s->sinks && a->keys) {
        T sink = IN(s->sinks[over(r, a->length) * a->sinks.head]), most = sink > *top ? sink : *top;
        by = F(exp)(*top - most);
        *sum = *sum * by + F(exp)(sink - most);
        *top = most;
    }
    *sum = a->keys ? *sum : (T)1;
    return by / *sum;
}

FN int64_t rows_of_all(const struct attention_call *a) { return a->units * a->rows; }

/* What is kept of a row as its largest score.  Comparing passes over what is no number; the derivative is to see it. */
FN T kept_top(T top, T sum) { return sum == sum ? top : sum; }

/* `row` is among those of all units. */
FN void put_row(const struct attention_call *a, int64_t piece, int64_t row, T top, T sum)
{
    T *tops = (T *)a->top, *sums = (T *)a->sum;
    if (a->pieces > 1) {
        int64_t n = rows_of_all(a);
        tops = (T *)a->partial + a->pieces * n * a->e + piece * n;
        sums = tops + a->pieces * n;
    }
    tops[row] = kept_top(top, sum);
    sums[row] = sum;
}

FN void put_element(const struct attention_call *a, int64_t piece, int64_t row, int64_t column, T v)
{
    if (a->pieces > 1)
        ((T *)a->partial)[(piece * rows_of_all(a) + row) * a->e + column] = v;
    else
        ((S *)a->y)[row * a->e + column] = OUT(v);
}

/* Four neighbours, or as many of them as there are columns. */
FN void put_four(const struct attention_call *a, int64_t piece, int64_t row, int64_t column, const T v[4])
{
    if (a->fours && column < a->e) {
        union {
            T v[4];
            struct words4 align;
        } t;
        union {
            S v[4];
            struct words4 align;
        } u;
        for (int k = 0; k < 4; k++) {
            t.v[k] = v[k];
            u.v[k] = OUT(v[k]);
        }
        if (a->pieces > 1) {
            PUT_LANES((T *)a->partial + (piece * rows_of_all(a) + row) * a->e + column, t.v, sizeof t.v);
        } else {
            PUT_LANES((S *)a->y + row * a->e + column, u.v, sizeof u.v);
        }
        return;
    }
    for (int k = 0; k < 4; k++)
        if (column + k < a->e)
            put_element(a, piece, row, column + k, v[k]);
}

/* The weight that row r, which sees so many keys, gives to one, but for the sum of its weights. */
FN T raw_weight(const struct attention_call *a, const struct spot *s, int64_t r, int64_t seen, int64_t key, T top)
{
    const S *q = s->q + row_place(a, &a->q, r), *k = s->k + key * a->k.row;
    T score = 0;
    for (int64_t d = 0; d < a->d; d++) score += IN(q[d]) * IN(k[d]);
    score = seen ? score * (T)a->scale : LOWEST;
    if (a->mask.p)
        score = masked(a, s->mask_at + row_place(a, &a->mask, r), key, score);
    return F(exp)(score - top);
}

/* Of V what has been left out, for the rows of a block that see it, which have all been written; tops are theirs;
 * every: also of keys that all rows see.  By so many threads, of which this is one.  What the block works on is found
 * once more: it stays in registers where nothing asks for its address. */
FN_APART void add_left_out(const struct attention_call *a, int rows, int width, const T *tops, int every, int thread,
                           int threads)
{
    struct spot s = spot_of(a, rows, width);
    int64_t all = every ? 0 : seen_by_all(a, &s, rows), first = all > s.from ? all : s.from,
            columns = width ? width : a->e;
    for (int64_t i = thread; i < rows * columns; i += threads) {
        int64_t at = over(i, columns), column = s.column + rest_of(i, columns), r = s.row + at;
        if (r >= a->rows || column >= a->e)
            continue;
        int64_t seen = seen_by(a, rest_of(r, a->length)), end = seen && seen < s.end ? seen : s.end;
        T y = 0;
        for (int64_t key = first; key < end && y == y; key++) {
            T v = IN(s.v[key * a->v.row + column]);
            if (is_wild(v))
                y += v * raw_weight(a, &s, r, seen, key, tops[at]);
        }
        if (y == 0)
            continue;
        int64_t row = s.first + at;
        if (a->pieces > 1)
            y += ((const T *)a->partial)[(s.piece * rows_of_all(a) + row) * a->e + column];
        else
            y += IN(((const S *)a->y)[row * a->e + column]);
        put_element(a, s.piece, row, column, y);
    }
}

#endif
