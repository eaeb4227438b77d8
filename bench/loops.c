/* loops.c: the plainest threaded loops over memory that has been written before: what the machine
 * gives to a program without any framework.  Built and loaded by bench_basics.py. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { THREADS_MAX = 256 };

struct part {
    const float *a, *b, *table;
    float *y;
    size_t n;
    double sum;
};

static void *add_part(void *arg)
{
    struct part *p = arg;
    const float *a = p->a, *b = p->b;
    float *y = p->y;
    for (size_t i = 0; i < p->n; i++) y[i] = a[i] + b[i];
    return NULL;
}

static void *sum_part(void *arg)
{
    struct part *p = arg;
    float lane[64] = { 0 };
    size_t i = 0;
    for (; i + 64 <= p->n; i += 64)
        for (int k = 0; k < 64; k++) lane[k] += p->a[i + (size_t)k];
    for (; i < p->n; i++) lane[0] += p->a[i];
    for (int k = 0; k < 64; k++) p->sum += (double)lane[k];
    return NULL;
}

static void *touch_part(void *arg)
{
    struct part *p = arg;
    for (size_t i = 0; i < p->n; i++) p->y[i] = p->a[i] * 0.5f;
    return NULL;
}

/* y[i] = a[b[i]], where b holds indices that nobody checks; the best of what was tried. */
static void *take_part(void *arg)
{
    struct part *p = arg;
    const float *table = p->table;
    const char *index = (const char *)p->b;
    for (size_t i = 0; i + 2 <= p->n; i += 2) {
        uint64_t two;
        memcpy(&two, index + 4 * i, sizeof two);
        p->y[i] = table[(uint32_t)two];
        p->y[i + 1] = table[two >> 32];
    }
    return NULL;
}

static double in_parts(void *(*f)(void *), const float *a, const float *b, float *y, size_t n, int threads)
{
    pthread_t t[THREADS_MAX];
    struct part p[THREADS_MAX];
    size_t each = (n / (size_t)threads + 63) / 64 * 64;
    for (int i = 0; i < threads; i++) {
        size_t at = each * (size_t)i < n ? each * (size_t)i : n;
        p[i] = (struct part){ a + at, b + at, a, y + at, n - at < each ? n - at : each, 0 };
        if (i)
            pthread_create(&t[i], NULL, f, &p[i]);
    }
    f(&p[0]);
    double sum = p[0].sum;
    for (int i = 1; i < threads; i++) {
        pthread_join(t[i], NULL);
        sum += p[i].sum;
    }
    return sum;
}

void loop_add(const float *a, const float *b, float *y, size_t n, int threads)
{
    in_parts(add_part, a, b, y, n, threads);
}
double loop_sum(const float *a, size_t n, int threads) { return in_parts(sum_part, a, a, NULL, n, threads); }
void loop_scale(const float *a, float *y, size_t n, int threads) { in_parts(touch_part, a, a, y, n, threads); }
void loop_take(const float *a, const float *index, float *y, size_t n, int threads)
{
    in_parts(take_part, a, index, y, n, threads);
}
