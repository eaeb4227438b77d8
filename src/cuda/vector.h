/* vector.h: a vector with several matrices, whose lines it is multiplied with, as one launch, and what follows. */
#ifndef MX_CUDA_VECTOR_H
#define MX_CUDA_VECTOR_H

#include "cuda/producer.h"

enum { VECTOR_MATRICES = 4 };

/* One of the matrices, its numbers in the vector's type or packed; those of a launch are of one kind. */
struct vector_matrix {
    int kind;
    const void *vector, *x, *scales, *biases;
    int64_t k, m, line; /* elements of the vector, lines, and from one to the next, if they are not packed */
    void *y;
    const void *c; /* NULL, or what is added to y, rounded */
    bool there;    /* the matrix (gpu_was_there) */
};
/* All of them: if `gated`, two, into the first one's y silu of its products times the other's. */
struct vector_matrices {
    int n;
    bool gated;
    struct vector_matrix of[VECTOR_MATRICES];
};

/* Does the node multiply one vector with one matrix?  And if so, and the kernels for that do it, what is it? */
bool gpu_has_vector(const struct node *n);
typedef bool vector_matrix_fn(const struct run *r, mx y, struct vector_matrix *v);
vector_matrix_fn gpu_vector_product, gpu_vector_packed;    /* matmul, quantized_matmul */
bool gpu_vectors_there(const struct vector_matrices *all); /* all of them? */
typedef int vector_launch_fn(const struct run *r, const struct vector_matrices *all);
vector_launch_fn gpu_launch_products, gpu_launch_packed;

/* Is v, of k elements of this type, what a norm that is held (cuda/held.h) makes, and may the launch make
 * it that multiplies v?  All blocks make it and one of them writes it, whenever it does, so nothing else that the
 * launch reads may be that: the n others, some of which may be NULL. */
struct vector_norm;
bool gpu_norm_of_vector(const struct run *r, enum dtype t, const void *v, int64_t k, int n, const void *const others[],
                        struct vector_norm *norm);

/* Runs member `first` with what it can be one launch with; false: it cannot, and nothing was done.  *failed: after
 * mx_fail. */
bool gpu_produce_vectors(struct stream *s, int n, struct entry *const m[], const bool wanted[], int first,
                         struct produced *b, int *failed);

#endif
