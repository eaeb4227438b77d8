/* conv.c: see conv.h. */
#include "plan/conv.h"

#include <string.h>

#include "core/sizes.h"

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t c = a % b;
        a = b;
        b = c;
    }
    return a;
}

/* Positions phase, phase + period, ...: the taps k with (phase stride - low + k dilation) divisible
 * by the spread of the input. */
struct conv_axis conv_phase(const struct conv_whole *w, int64_t phase)
{
    int64_t t = w->spread, apart = t / gcd(w->dilation, t), k = 0, from = 0;
    for (; k < apart && k < w->taps; k++)
        if ((from = phase * w->stride - w->low + k * w->dilation) % t == 0)
            break;
    bool any = k < apart && k < w->taps;
    return (struct conv_axis){
        .in = w->in,
        .out = ceil_div(w->out - phase, w->period),
        .first = phase,
        .step = w->period,
        .taps = any ? ceil_div(w->taps - k, apart) : 0,
        .tap = k,
        .apart = apart,
        .at = any ? from / t : 0,
        .stride = w->period * w->stride / t,
        .dilation = apart * w->dilation / t,
    };
}

void conv_plan_of(struct conv_plan *p, const struct conv_args *args, mx x, mx w, mx y)
{
    int n = args->stride.n;
    p->images = dim(x, 0);
    p->channels = dim(x, -1);
    p->groups = args->groups;
    p->in = p->channels / p->groups;
    p->out = dim(w, 0) / p->groups;
    p->parts = p->taps = 1;
    for (int i = 0; i < 3; i++) {
        int k = i - (3 - n);
        struct conv_whole *a = &p->axis[i];
        *a = (struct conv_whole){ 1, 1, 1, 1, 0, 1, 1, 1 };
        if (k >= 0)
            *a = (struct conv_whole){ dim(x, 1 + k),
                                      dim(y, 1 + k),
                                      dim(w, 1 + k),
                                      args->stride.v[k],
                                      args->low.v[k],
                                      args->dilation.v[k],
                                      args->input_dilation.v[k],
                                      1 };
        a->period = a->spread / gcd(a->stride, a->spread);
        p->parts *= least(a->period, a->out);
        p->taps *= a->taps;
    }
}

int64_t conv_part(const struct conv_plan *p, int64_t i, struct conv_axis axis[3])
{
    int64_t taps = 1;
    for (int d = 2; d >= 0; d--) {
        int64_t here = least(p->axis[d].period, p->axis[d].out);
        axis[d] = conv_phase(&p->axis[d], i % here);
        i /= here;
        taps *= axis[d].taps;
    }
    return taps;
}

bool conv_is_product(const struct conv_args *a, mx x, mx w, mx y)
{
    bool yes = a->groups == 1;
    for (int i = 0; i < a->size.n; i++)
        yes = yes && dim(w, 1 + i) == 1 && a->low.v[i] == 0 && dim(x, 1 + i) == dim(y, 1 + i) &&
              (a->stride.v[i] == a->input_dilation.v[i] || dim(x, 1 + i) == 1);
    return yes;
}

void conv_strides(mx x, int64_t strides[5])
{
    int n = x->ndim - 2;
    memset(strides, 0, 5 * sizeof *strides);
    strides[0] = x->strides[0];
    for (int i = 0; i < n; i++) strides[4 - n + i] = x->strides[1 + i];
    strides[4] = x->strides[1 + n];
}
