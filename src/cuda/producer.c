/* producer.c: see producer.h. */
#include "cuda/producer.h"

#include "plan/layout.h"

_Static_assert(FUSE_MOST <= 32, "members are bits of a word");

bool gpu_is_producer(const struct node *n) { return gpu_draws(n) || gpu_multiplies(n) || gpu_begins_fft2(n); }

/* The one member that reads the last one's result, which nobody else looks at, and by which operand; negative: none. */
static int only_reader(const struct epilogue *c, int *operand)
{
    int reader = -1;
    if (c->wanted[c->at])
        return -1;
    for (int i = c->at + 1; i < c->n; i++)
        for (int k = 0; k < c->m[i]->node->nin; k++)
            if (c->m[i]->from[k] == c->at) {
                if (reader >= 0)
                    return -1;
                reader = i;
                *operand = k;
            }
    return reader;
}

static void take_in(struct epilogue *c, int reader)
{
    c->at = reader;
    c->passed |= 1u << reader;
}

bool epilogue_takes(struct epilogue *c, int op, enum dtype to, mx *other)
{
    int operand = 0, reader = only_reader(c, &operand);
    if (reader < 0)
        return false;
    const struct entry *e = c->m[reader];
    const struct node *n = e->node;
    if ((int)n->op->id != op || e->one->dtype != to || n->nin != 1 + !!other)
        return false;
    if (other) {
        if (e->from[!operand] != OUTSIDE || !is_one_value(n->in[!operand]) || (operand && !(n->op->traits & COMMUTES)))
            return false;
        *other = n->in[!operand];
    }
    take_in(c, reader);
    return true;
}

bool epilogue_takes_sum(struct epilogue *c, mx *other)
{
    int operand = 0, reader = only_reader(c, &operand);
    if (reader < 0 || c->m[reader]->node->op->id != OP_add || c->m[reader]->from[!operand] != OUTSIDE)
        return false;
    mx y = c->m[reader]->one, x = c->m[c->at]->one;
    *other = c->m[reader]->node->in[!operand];
    if (x->size != y->size || x->dtype != y->dtype || (*other)->size != y->size || (*other)->dtype != y->dtype ||
        !(*other)->row)
        return false;
    take_in(c, reader);
    return true;
}

int epilogue_takes_product(struct epilogue *c)
{
    int operand = 0, again = 0, reader = only_reader(c, &operand);
    if (reader < 0 || c->m[reader]->node->op->id != OP_multiply)
        return -1;
    struct epilogue other = *c;
    other.at = c->m[reader]->from[!operand];
    if (other.at == OUTSIDE || only_reader(&other, &again) != reader || !gpu_is_producer(c->m[other.at]->node))
        return -1;
    mx y = c->m[reader]->one, x = c->m[other.at]->one;
    if (x->size != y->size || x->dtype != y->dtype || c->m[c->at]->one->size != y->size)
        return -1;
    take_in(c, reader);
    c->passed |= 1u << other.at;
    return other.at;
}

/* Its operand is a producer's, which is in memory before the rest runs. */
static bool is_ended_by_fft(int n, struct entry *const m[])
{
    const struct entry *e = m[n - 1];
    return e->node->nin == 1 && e->from[0] != OUTSIDE && gpu_ends_fft2(e->node, m[e->from[0]]->node);
}

int gpu_run_producers(struct stream *s, int n, struct entry *const m[], const bool wanted[])
{
    struct entry rest[FUSE_MOST], *left[FUSE_MOST];
    bool needed[FUSE_MOST];
    uint8_t number[FUSE_MOST];
    uint32_t gone = 0, made = 0; /* members that are done; those whose results are in memory */
    bool ends = is_ended_by_fft(n, m);
    int n_left = 0, failed = 0;
    for (int i = 0; i < n - ends && !failed; i++) {
        struct produced b = { .gone = gone };
        const struct node *node = m[i]->node;
        if (gone >> i & 1 || !gpu_is_producer(node))
            continue;
        producer_fn *produce = gpu_draws(node)        ? gpu_produce_draws
                               : gpu_multiplies(node) ? gpu_produce_product
                                                      : gpu_produce_fft;
        failed = produce(s, n, m, wanted, i, &b);
        gone |= b.members;
        made |= b.made;
    }
    for (int i = 0; i < n - ends && !failed; i++) {
        number[i] = gone >> i & 1 ? OUTSIDE : (uint8_t)n_left;
        if (number[i] == OUTSIDE)
            continue;
        needed[n_left] = wanted[i];
        left[n_left] = &rest[n_left];
        rest[n_left] = *m[i];
        for (int k = 0; k < m[i]->node->nin; k++)
            rest[n_left].from[k] = m[i]->from[k] == OUTSIDE ? OUTSIDE : number[m[i]->from[k]];
        n_left++;
    }
    if (!failed && n_left)
        failed = n_left > 1 ? gpu_run_fused(s, n_left, left, needed) : cuda_backend.run(s, left[0]);
    if (!failed && ends && !(gone >> (n - 1) & 1))
        failed = cuda_backend.run(s, m[n - 1]);
    for (int i = 0; i < n; i++)
        if (made >> i & 1 && !wanted[i] && m[i]->one->buf) {
            buffer_release(m[i]->one->buf);
            m[i]->one->buf = NULL;
        }
    return failed;
}
