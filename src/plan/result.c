/* result.c: see result.h. */
#include "plan/result.h"

#include "core/buffer.h"
#include "core/stream.h"

void result_in(mx y, struct buffer *b)
{
    int64_t s = 1;
    for (int i = y->ndim; i-- > 0;) {
        y->strides[i] = s;
        s *= y->shape[i];
    }
    y->row = true;
    y->offset = 0;
    y->buf = b;
}

int result_new(struct stream *s, mx y)
{
    struct buffer *b = s && s->on->alloc ? buffer_new_on(s, (size_t)nbytes(y)) : buffer_new((size_t)nbytes(y));
    if (!b)
        return 1;
    result_in(y, b);
    return 0;
}

bool result_unwanted(const struct node *n, bool keep, mx y)
{
    return !keep && atomic_load_explicit(&n->refs, memory_order_acquire) == 1 &&
           atomic_load_explicit(&y->refs, memory_order_acquire) == 1;
}

bool result_fits(mx y, mx x, int uses)
{
    return atomic_load_explicit(&x->refs, memory_order_acquire) == uses && x->row && x->size == y->size &&
           itemsize(x) == itemsize(y) && x->offset == 0 && x->buf->bytes == (size_t)nbytes(y) && x->buf->writable &&
           !x->buf->mapped && atomic_load_explicit(&x->buf->refs, memory_order_acquire) == 1;
}

/* How often the node looks at x, if nobody looks at that after it; else 0. */
static int last_uses(const struct node *n, bool keep, mx x)
{
    int uses = 0;
    if (keep || atomic_load_explicit(&n->refs, memory_order_relaxed) != 1 ||
        atomic_load_explicit(&x->refs, memory_order_relaxed) > n->nin)
        return 0;
    for (int i = 0; i < n->nin; i++) uses += n->in[i] == x;
    return atomic_load_explicit(&x->refs, memory_order_acquire) == uses ? uses : 0;
}

bool operand_is_last(const struct node *n, bool keep, mx x)
{
    return last_uses(n, keep, x) == 1 && x->buf->writable && !x->buf->mapped &&
           atomic_load_explicit(&x->buf->refs, memory_order_acquire) == 1;
}

bool result_fits_operand(const struct node *n, bool keep, mx y, mx x)
{
    int uses = last_uses(n, keep, x);
    return uses && result_fits(y, x, uses);
}
