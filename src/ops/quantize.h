/* quantize.h: the arguments of operations on packed weights, which kernels read too. */
#ifndef MX_OPS_QUANTIZE_H
#define MX_OPS_QUANTIZE_H

#include "ops/rules.h"

enum quant_mode { MODE_AFFINE, MODE_MXFP4, MODE_MXFP8, MODE_NVFP4 };

/* Of every one of them.  Operands:
 *     quantize          w, perhaps a global scale          gives packed, scales, and biases if affine
 *     round_trip        likewise                           gives w as it comes back
 *     dequantize        packed, scales, biases if affine, perhaps a global scale
 *     quantized_matmul  x, packed, scales, biases if affine
 *     gather_qmm        as quantized_matmul, then flat indices of matrices of x and of packed */
struct quant_args {
    int group_size, bits;
    unsigned mode;
    unsigned dtype; /* of the numbers that dequantize gives */
    bool transpose; /* the rows of the packed matrix are what rows of x are multiplied with */
    bool both;      /* gather_qmm: asked for by gather_qqmm */
};

/* What a scale in nvfp4 is multiplied by, besides the global scale: the largest numbers of both
 * formats have the global scale as their product. */
#define NVFP4_LARGEST (6.0f * 448.0f)

#endif
