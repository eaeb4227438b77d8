/* linalg.h: linear algebra.
 *
 * Matrices are the last two axes of an array; those before them are a batch, which the results have
 * too.  Operands are float32, float64 or complex64; integers count as float32, half types are
 * refused.  What a matrix does not allow (the inverse of a singular one) is an error when evaluated,
 * which names its place in the batch.  Matrices with NaN or infinities give NaN.
 *
 * Functions return 0 for success; ownership, results and errors as in array.h. */
#ifndef MLX_C_LINALG_H
#define MLX_C_LINALG_H

#include <stdbool.h>
#include <stddef.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Norms and products.  `axis` NULL stands for all axes of `a`. */

/* Norms of vectors along one axis, of any order, or of matrices of two axes, of the orders 1, -1, 2,
 * -2, infinity and -infinity. */
MLX_API int mlx_linalg_norm(mlx_array *res, const mlx_array a, double ord, const int *axis, size_t axis_num,
                            bool keepdims, const mlx_stream s);

/* Norms of matrices by name: "fro", the root of the sum of squares, or "nuc", the sum of singular
 * values. */
MLX_API int mlx_linalg_norm_matrix(mlx_array *res, const mlx_array a, const char *ord, const int *axis, size_t axis_num,
                                   bool keepdims, const mlx_stream s);

/* The root of the sum of squares over any axes. */
MLX_API int mlx_linalg_norm_l2(mlx_array *res, const mlx_array a, const int *axis, size_t axis_num, bool keepdims,
                               const mlx_stream s);

/* Cross products of vectors along an axis of size 3; of size 2 the third component is 0. */
MLX_API int mlx_linalg_cross(mlx_array *res, const mlx_array a, const mlx_array b, int axis, const mlx_stream s);

/* Inverses and systems of equations */

/* Inverses of square matrices. */
MLX_API int mlx_linalg_inv(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Inverses of triangular matrices; the other triangle is not read. */
MLX_API int mlx_linalg_tri_inv(mlx_array *res, const mlx_array a, bool upper, const mlx_stream s);

/* Pseudo-inverses; singular values that rounding could have made count as zero. */
MLX_API int mlx_linalg_pinv(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The x with a x = b, where b is a vector or has matrices in its last two axes. */
MLX_API int mlx_linalg_solve(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* The same for triangular matrices; the other triangle is not read. */
MLX_API int mlx_linalg_solve_triangular(mlx_array *res, const mlx_array a, const mlx_array b, bool upper,
                                        const mlx_stream s);

/* Factors */

/* The lower l with a = l l^H, or the upper u with a = u^H u, for Hermitian positive definite
 * matrices, of which only that triangle is read. */
MLX_API int mlx_linalg_cholesky(mlx_array *res, const mlx_array a, bool upper, const mlx_stream s);

/* Inverses of the matrices that have the Cholesky factors `a`. */
MLX_API int mlx_linalg_cholesky_inv(mlx_array *res, const mlx_array a, bool upper, const mlx_stream s);

/* q with orthonormal columns and upper triangular r, of which a (..., M, N) is the product: q is
 * (..., M, K) and r (..., K, N), where K is the smaller of M and N. */
MLX_API int mlx_linalg_qr(mlx_array *res_0, mlx_array *res_1, const mlx_array a, const mlx_stream s);

/* The arrays p, l and u with a = l[p] u: row numbers as uint32, a lower triangle with ones on its
 * diagonal, an upper triangle. */
MLX_API int mlx_linalg_lu(mlx_vector_array *res, const mlx_array a, const mlx_stream s);

/* `res_0` gets both triangles in one matrix, `res_1` for each row in turn the row that it was exchanged
 * with, as uint32. */
MLX_API int mlx_linalg_lu_factor(mlx_array *res_0, mlx_array *res_1, const mlx_array a, const mlx_stream s);

/* Singular values and eigenvalues */

/* The arrays u, s and v^H with a = u diag(s) v^H, u and v square, s in descending order and a vector;
 * without compute_uv, s alone. */
MLX_API int mlx_linalg_svd(mlx_vector_array *res, const mlx_array a, bool compute_uv, const mlx_stream s);

/* `res_0` gets eigenvalues, `res_1` eigenvectors as columns, complex64, of square matrices. */
MLX_API int mlx_linalg_eig(mlx_array *res_0, mlx_array *res_1, const mlx_array a, const mlx_stream s);

/* The eigenvalues of mlx_linalg_eig alone. */
MLX_API int mlx_linalg_eigvals(mlx_array *res, const mlx_array a, const mlx_stream s);

/* `res_0` gets eigenvalues, real and ascending, `res_1` orthonormal eigenvectors as columns, of
 * Hermitian matrices, of which the triangle "L" or "U" is read. */
MLX_API int mlx_linalg_eigh(mlx_array *res_0, mlx_array *res_1, const mlx_array a, const char *UPLO,
                            const mlx_stream s);

/* The eigenvalues of mlx_linalg_eigh alone. */
MLX_API int mlx_linalg_eigvalsh(mlx_array *res, const mlx_array a, const char *UPLO, const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
