/* sample.h: arrays for tests, laid out in memory every way there is, and their elements read back
 * without the library's help. */
#ifndef MX_TESTS_SAMPLE_H
#define MX_TESTS_SAMPLE_H

#include "core/array.h"
#include "core/scope.h"

/* The next number below n of a sequence that is the same in every run; a seed starts another. */
int64_t draw(int64_t n);
double draw_real(double low, double high);
void draw_seed(uint64_t seed);
/* A shape of sizes 0 or 1 .. most; returns the number of dimensions, at most max_ndim. */
int draw_shape(int max_ndim, int most, bool empty_too, int *shape);
enum dtype draw_dtype(void);

/* An array that is READY, with random small integers in it: dimensions lie in any order, with gaps,
 * backwards, or repeated (stride 0). */
mx sample(enum dtype t, int ndim, const int *shape);
/* The same without repeats, values between low and high. */
mx sample_between(enum dtype t, int ndim, const int *shape, double low, double high);
/* Row-major, of values. */
mx array_from(enum dtype t, int ndim, const int *shape, const double *v);

/* What an array holds, row-major, as numbers (the real part of complex ones). */
struct model {
    int ndim, shape[MX_MAX_NDIM];
    int64_t size;
    double *v; /* freed by model_drop */
};
struct model model_of(mx x); /* READY */
struct model model_new(int ndim, const int *shape);
void model_drop(struct model *m);
/* Number of the element at these coordinates, and the coordinates of a number. */
int64_t number_of(const struct model *m, const int64_t *at);
void place_of(const struct model *m, int64_t number, int64_t *at);
/* Fails the test (cmocka) unless y is READY, or becomes so by evaluation, and holds the same. */
void assert_holds(mx y, const struct model *want);
void assert_close(mx y, const struct model *want, double tolerance);
/* Fails the test unless y is MX_NIL or its evaluation fails, with `part` in the error, which it
 * clears. */
void assert_fails(mx y, enum mx_error kind, const char *part);

/* Fills a slot; what else the expression makes is let go of at once. */
#define KEEP(slot, expression)                                   \
    do {                                                         \
        MX_SCOPE(NULL);                                          \
        mx kept_ = (expression);                                 \
        if (is_nil(kept_) || mx_failed())                        \
            fail_msg("%s: %s", #expression, mx_error_message()); \
        mx_keep(slot, kept_);                                    \
    } while (0)

#endif
