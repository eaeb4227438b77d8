"""Kernels in CUDA C++ that use what programs use: for a GPU, and for the compiler alone. Of each: what it is made and
called with, and what comes out."""

import mlx.core as mx
import numpy as np

THREAD = "auto i = cooperative_groups::this_grid().thread_rank();\n"
X = np.arange(64, dtype=np.float32).reshape(8, 8) / 8


def sums_of_warps():
    return X.reshape(2, 32).sum(axis=1)


# name: (source, more for cuda_kernel, inputs, template, shape and dtype of the output, result)
BODIES = {
    "exponentials": (
        THREAD + "T tmp = x[i];\ny[i] = exp(tmp);",
        {},
        [X],
        [("T", mx.float32)],
        (8, 8),
        mx.float32,
        np.exp(X),
    ),
    "exponentials_of_halves": (
        THREAD + "T tmp = x[i];\ny[i] = exp(tmp);",
        {},
        [X.astype(np.float16)],
        [("T", mx.float16)],
        (8, 8),
        mx.float16,
        np.exp(X),
    ),
    "halves": (
        THREAD + "T a = x[i]; a += 1; a = -(a * T(2)) / 4.0f; y[i] = a > T(0) ? a : T(3) - a;",
        {},
        [X.astype(np.float16)],
        [("T", mx.float16)],
        (8, 8),
        mx.float16,
        3 + (X + 1) / 2,
    ),
    "bfloat16": (
        THREAD + "bfloat16 a = __float2bfloat16(float(x[i])); y[i] = max(float(a), float(N)) + (B ? 1 : 0);",
        {},
        [X],
        [("N", 2), ("B", True)],
        (8, 8),
        mx.bfloat16,
        np.maximum(X, 2) + 1,
    ),
    "strides": (
        THREAD
        + "y[i] = x[elem_to_loc(i, x_shape.data(), x_strides.data(), x_ndim)] + 0 * x_shape[1]"
        + " + 0 * elem_to_loc(i, x_shape, x_strides, x_ndim);",
        {"ensure_row_contiguous": False},
        [X.T],
        [],
        (8, 8),
        mx.float32,
        X.T,
    ),
    "tiles": (
        """
        namespace cg = cooperative_groups;
        auto block = cg::this_thread_block();
        auto tile = cg::tiled_partition<32>(block);
        float v = x[block.thread_rank()];
        for (int by = 16; by > 0; by /= 2) v += tile.shfl_down(v, by);
        tile.sync();
        if (tile.thread_rank() == 0) y[tile.meta_group_rank()] = v;
        block.sync();
        """,
        {},
        [X],
        [],
        (2,),
        mx.float32,
        sums_of_warps(),
    ),
    "reductions": (
        "auto tile = cg::tiled_partition<32>(cg::this_thread_block());\n"
        "float v = cg::reduce(tile, x[threadIdx.x], cg::plus<float>());\n"
        "if (tile.thread_rank() == 0) y[tile.meta_group_rank()] = v;",
        {"header": "#include <cooperative_groups/reduce.h>\nnamespace cg = cooperative_groups;"},
        [X],
        [],
        (2,),
        mx.float32,
        sums_of_warps(),
    ),
    "shared_memory": (
        "extern __shared__ float tile[];\ntile[threadIdx.x] = x[threadIdx.x];\n__syncthreads();\n"
        "y[threadIdx.x] = tile[63 - threadIdx.x];",
        {"shared_memory": 65536},
        [X],
        [],
        (8, 8),
        mx.float32,
        X.reshape(-1)[::-1].reshape(8, 8),
    ),
    "templates": (
        THREAD + "if constexpr (B) y[i] = times<N>(x[i]); else y[i] = 0;",
        {"header": "template <int K, typename T> T times(T v) { return v * K; }"},
        [X],
        [("N", -3), ("B", True)],
        (8, 8),
        mx.float32,
        X * -3,
    ),
    "atomics": (
        "atomicAdd(&y[threadIdx.x % 2], float16(1)); if (y[0] < float16(0)) y[0] = __ushort_as_half(0);",
        {},
        [X],
        [],
        (2,),
        mx.float16,
        np.full(2, 32),
    ),
    "complex": (
        THREAD + "complex64 a(x[i], 2), b = a * conj(a) + a - a; b += 1; y[i] = -b == b ? a : b;",
        {},
        [X],
        [],
        (8, 8),
        mx.complex64,
        X * X + 5 + 0j,
    ),
    "headers": (
        THREAD + "__half2 two = __float2half2_rn(x[i]); y[i] = __low2half(__hadd2(two, two));",
        {"header": "#include <cuda_fp16.h>\n#include <cuda/std/cmath>"},
        [X],
        [],
        (8, 8),
        mx.float16,
        2 * X,
    ),
}


def call(name):
    source, options, inputs, template, shape, dtype, _ = BODIES[name]
    kernel = mx.fast.cuda_kernel(name=name, input_names=["x"], output_names=["y"], source=source, **options)
    return kernel(
        inputs=[mx.array(inputs[0])],
        template=template,
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
        output_shapes=[shape],
        output_dtypes=[dtype],
        init_value=0,
        stream=mx.gpu,
    )[0]
