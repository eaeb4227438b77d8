"""A wrong call is answered by a message that begins with the function that was called and says what was
expected and what arrived: for every function of the tables, however it is made.

The cases are a table of names and arguments; a name is there once for each thing that can be wrong.
"""

import pathlib
import re

import mlx.core as mx
import pytest

pytestmark = pytest.mark.usefixtures("index_errors")

ROOT = pathlib.Path(__file__).resolve().parents[2]

GIVEN = {
    "mx": mx,
    "S": mx.array(1.0),  # of no dimensions
    "V": mx.zeros(5),
    "E": mx.zeros(0),
    "X": mx.zeros((3, 4)),
    "M": mx.zeros((4, 4)),
    "T": mx.zeros((2, 3, 4)),
    "W": mx.zeros((128, 128)),
    "C": mx.zeros((3, 4), mx.complex64),
    "B": mx.zeros((3, 4), mx.bool_),
    "H": mx.zeros((4, 4), mx.float16),
    "I": mx.zeros((3, 4), mx.int32),
    "J": mx.array([0, 9]),  # an index out of range
    "U": mx.zeros((4, 16), mx.uint32),  # the codes of a matrix of 4 x 128 in 4 bits
    "Y": mx.zeros((4, 2)),  # their scales
    "K": mx.random.key(0),
    "LAUNCH": {
        "inputs": [],
        "output_shapes": [(1,)],
        "output_dtypes": [mx.float32],
        "scalars": [],
        "grid": (1, 1, 1),
        "threadgroup": (1, 1, 1),
    },
}

CASES = """
distributed.init      | backend='carrier pigeons'
distributed.init      | all_gather_factory=len
distributed.send      | V, 1
distributed.recv      | (2,), mx.float32, 1
distributed.recv_like | V, 1
divmod              | V, X
reciprocal          | 'a'
where               | B, V, X
where               | B, V
clip                | V, X, None
isclose             | V, X
allclose            | V, X
view                | mx.zeros((3, 3), mx.uint8), mx.float32
view                | mx.array(1, mx.uint8), mx.float32
reshape             | X, (5, 2)
reshape             | X, (-1, -1)
reshape             | X, (-1, 5)
reshape             | X, (-2, 6)
flatten             | X, 1, 0
unflatten           | X, 0, (2, 2)
unflatten           | X, 5, (3, 1)
unflatten           | X, 0, ()
unflatten           | X, 0, (-1, -1)
squeeze             | X, 0
squeeze             | X, 5
squeeze             | mx.zeros((1, 1)), (0, 0)
expand_dims         | X, 5
expand_dims         | X, (0, 0)
transpose           | X, (0,)
transpose           | X, (0, 0)
transpose           | X, (0, 5)
permute_dims        | X, (0, 0)
matrix_transpose    | V
swapaxes            | X, 0, 5
moveaxis            | X, 0, 5
moveaxis            | X, (0, 1), (0, 5)
moveaxis            | X, (0, 0), (0, 1)
moveaxis            | X, (0, 1), 0
flip                | X, 5
broadcast_to        | X, (3, 5)
broadcast_to        | X, (4,)
broadcast_to        | X, (-1, 4)
broadcast_arrays    | X, V
broadcast_shapes    | (3, 4), (5,)
concatenate         | [X, V]
concatenate         | [X, mx.zeros((3, 5))]
concatenate         | []
concatenate         | [X], 5
concatenate         | [S, S]
concat              | [X, V]
stack               | [X, V]
stack               | []
stack               | [X], 5
unstack             | S
unstack             | X, axis=5
split               | X, 2
split               | X, 0
split               | X, 2, 5
split               | S, 1
pad                 | X, (1, 2, 3)
pad                 | X, [(1, 2)] * 3
pad                 | X, -1
pad                 | X, 1, 'mirror'
pad                 | X, 1, 'constant', V
slice               | X, J, (0, 0), (1, 1)
slice               | X, V, (0, 1), (1, 1)
slice               | X, mx.array([0, 0]), (0, 5), (1, 1)
slice               | X, mx.array([0, 0]), (0, 1), (9, 1)
slice               | X, mx.array([0, 0]), (0, 1), (1,)
slice_update        | X, X, mx.array([0.0, 0.0]), (0, 1)
slice_update        | X, mx.zeros((4, 4)), mx.array([0, 0]), (0, 1)
slice_update        | X, X, mx.array([0, 0, 0]), (0, 1)
slice_update        | X, X, mx.array([0, 0]), (0, 5)
arange              | 0, 5, 0
arange              | 0, float('nan')
arange              | 0, 1e12
arange              | 0, 5, dtype=mx.bool_
linspace            | 0, 1, -1
full                | (-1,), 1
full                | (2, 3), V
full_like           | X, V
zeros               | (-1,)
zeros               | (1 << 30, 1 << 30, 1 << 30)
ones                | (-1,)
empty               | (-1,)
eye                 | -1
eye                 | 2, -1
identity            | -1
tri                 | 2**31
tril                | V
triu                | V
asarray             | [[1, 2], [3]]
asarray             | [1, 2], copy=False
from_dlpack         | 5
sum                 | X, 5
sum                 | X, (0, 0)
prod                | X, 5
all                 | X, 5
any                 | X, 5
min                 | X, 5
min                 | E
max                 | X, 5
max                 | E
minmax              | X, 5
minmax              | E
mean                | X, 5
logsumexp           | X, 5
var                 | X, 5
std                 | X, 5
count_nonzero       | X, axis=5
argmin              | X, 5
argmin              | E
argmax              | X, 5
argmax              | E
softmax             | X, 5
softmax             | X, (0, 0)
sort                | X, 5
sort                | S
argsort             | X, 5
argsort             | S
partition           | X, 9
partition           | X, 0, 5
argpartition        | X, 9
argpartition        | X, 0, 5
topk                | X, 9
topk                | X, -1
topk                | X, 1, 5
median              | X, 5
median              | E
searchsorted        | X, V
searchsorted        | V, V, side='middle'
unique              | V, -1
unique              | X, 3, fill_value=V
cumsum              | X, axis=5
cumprod             | X, axis=5
cumulative_sum      | X, axis=5
cumulative_sum      | V, inclusive=False, include_initial=True
cumulative_prod     | X, axis=5
cummax              | X, axis=5
cummin              | X, axis=5
logcumsumexp        | X, axis=5
matmul              | X, X
matmul              | S, X
matmul              | mx.zeros((2, 3, 4)), mx.zeros((3, 4, 5))
addmm               | X, X, X
addmm               | V, X, M
addmm               | X, S, M
take                | X, J, 0
take                | X, V
take                | X, J, 5
take                | X, 9, 0
take_along_axis     | X, J
take_along_axis     | X, V[None], 0
take_along_axis     | X, I, 5
take_along_axis     | X, I[:2], 1
take_along_axis     | X, I + 9, 1
put_along_axis      | X, J, S, 1
put_along_axis      | X, I, V, 1
put_along_axis      | X, X, S, 1
put_along_axis      | X, I, S, 5
put_along_axis      | X, I + 9, S, 1
as_strided          | X, (2,), (1, 1)
as_strided          | X, (9,), (9,)
as_strided          | X, (-1,), (1,)
as_strided          | X, offset=-1
signbit             | C
nextafter           | V, X
nextafter           | C, X
isin                | 'a', V
convolve            | X, V
convolve            | V, X
convolve            | V, V, 'circular'
convolve            | E, V
conv1d              | X, T
conv1d              | T, X
conv1d              | T, T, stride=0
conv1d              | T, T, dilation=0
conv1d              | T, T, padding=-9
conv1d              | T, T, groups=3
conv1d              | T, mx.zeros((2, 3, 5))
conv1d              | T, mx.zeros((2, 9, 4))
conv2d              | T, mx.zeros((2, 3, 4, 4))
conv2d              | mx.zeros((2, 3, 4, 4)), mx.zeros((2, 3, 4, 5))
conv2d              | mx.zeros((2, 3, 4, 4)), mx.zeros((2, 3, 4, 4)), (0, 1)
conv2d              | mx.zeros((2, 3, 4, 4)), mx.zeros((2, 3, 4, 4)), (1, 1, 1)
conv3d              | T, T
conv3d              | mx.zeros((1, 3, 3, 3, 4)), mx.zeros((1, 3, 3, 3, 5))
conv_transpose1d    | X, T
conv_transpose1d    | T, mx.zeros((2, 3, 5))
conv_transpose1d    | T, T, stride=0
conv_transpose1d    | T, T, padding=9
conv_transpose1d    | T, T, output_padding=-1
conv_transpose1d    | T, T, groups=3
conv_transpose2d    | T, T
conv_transpose2d    | mx.zeros((2, 3, 4, 4)), mx.zeros((2, 3, 4, 5))
conv_transpose3d    | T, T
conv_transpose3d    | mx.zeros((1, 3, 3, 3, 4)), mx.zeros((1, 3, 3, 3, 5))
conv_general        | X, T
conv_general        | T, mx.zeros((2, 3, 5))
conv_general        | T, T, input_dilation=0
conv_general        | T, T, stride=(1, 1)
conv_general        | T, T, padding=((1, 1), (1, 1))
conv_general        | T.astype(mx.int32), T.astype(mx.int32)
quantize            | V
quantize            | X
quantize            | I
quantize            | W, group_size=0
quantize            | W, group_size=33
quantize            | W, bits=7
quantize            | W, bits=0
quantize            | W, mode='int4'
quantize            | W, global_scale=S
quantize            | W, mode='nvfp4', global_scale=V
quantize            | W, mode='nvfp4', bits=8
dequantize          | U, Y
dequantize          | U, Y, V
dequantize          | Y, Y, Y
dequantize          | U, V, V
dequantize          | U, Y, Y, group_size=0
dequantize          | U, Y, Y, mode='int4'
dequantize          | U, Y, Y, dtype=mx.int32
quantized_matmul    | X, U, Y, Y
quantized_matmul    | V, U, Y
quantized_matmul    | V, U, Y, V
quantized_matmul    | I, U, Y, Y
quantized_matmul    | W, U, Y, Y, group_size=0
quantized_matmul    | W, U, Y, Y, mode='int4'
gather_qmm          | X, U, Y, Y
gather_qmm          | W, U, Y
gather_qmm          | W, U, Y, Y, lhs_indices=V
gather_qmm          | W, U, Y, Y, rhs_indices=J
gather_qmm          | W, U, Y, Y, mode='int4'
gather_qqmm         | X, M
gather_qqmm         | W, W, lhs_indices=V
gather_qqmm         | W, W, rhs_indices=J
gather_qqmm         | W, W, mode='affine'
gather_qqmm         | W, mx.zeros((4, 64))
qqmm                | X, M
qqmm                | W, mx.zeros((4, 64))
qqmm                | W, W, mode='affine'
qqmm                | I, I
from_fp8            | X
from_fp8            | mx.zeros(3, mx.uint8), mx.int32
to_fp8              | C
to_fp8              | I
gather_mm           | X, X
gather_mm           | V, M
gather_mm           | M, M, lhs_indices=V
gather_mm           | T, M, lhs_indices=J
gather_mm           | T, M, lhs_indices=mx.zeros(2, mx.int32), rhs_indices=mx.zeros(3, mx.int32)
segmented_mm        | X, X, mx.zeros((1, 2), mx.int32)
segmented_mm        | V, M, mx.zeros((1, 2), mx.int32)
segmented_mm        | X, M, mx.zeros((1, 3), mx.int32)
segmented_mm        | X, M, mx.zeros((1, 2))
segmented_mm        | X, M, mx.array([[0, 9]])
block_masked_mm     | X, X
block_masked_mm     | W, W, 0
block_masked_mm     | W, W, 64, X
block_masked_mm     | W, W, 64, mask_lhs=X
block_masked_mm     | W, W, 64, mask_rhs=X
block_masked_mm     | V, W
hadamard_transform  | X[:, :3]
hadamard_transform  | C
result_type         |
einsum              | 'ij,jk', X, X
einsum              | 'ij', V
einsum              | 'i', V, V
einsum              | 'i?', X
einsum_path         | 'ij,jk', X, X
einsum_path         | 'ij', V
inner               | X, V
outer               | 'a', V
kron                | 'a', V
vecdot              | X, V
vecdot              | X, X, axis=5
tensordot           | X, X, 5
tensordot           | X, X, [[0], [0, 1]]
tensordot           | X, X, -1
repeat              | X, -1
repeat              | X, 2, 5
repeat              | X, mx.array([1, 2, 3])
repeat              | X, mx.array([1.0]), 0
repeat              | V, mx.array([-1]), 0
tile                | X, -1
roll                | X, 1, 5
meshgrid            | V, indexing='yx'
diagonal            | V
diagonal            | X, 0, 0, 0
diagonal            | X, 0, 0, 5
diag                | T
diag                | S
trace               | V
trace               | X, 0, 0, 5
diff                | X, -1
diff                | X, 1, 5
diff                | S
bartlett            | 1 << 62
load                | 'there is no such file.npy'
load                | 'x.unknown'
save                | '/there/is/no/such/folder/x.npy', X
set_memory_limit    | -1
set_cache_limit     | -1
set_wired_limit     | -1
set_printoptions    | -2
set_checks          | "NaN"
printoptions        | -2
vjp                 | lambda x: x, [X], [V]
vjp                 | lambda x: x, [X], []
jvp                 | lambda x: x, [X], [V]
jvp                 | lambda x: x, [X], []
grad                | lambda x: x, -1
value_and_grad      | lambda x: x, -1
random.seed         | -1
random.key          | -1
random.split        | V
random.split        | K, -1
random.uniform      | V, X, [3, 4]
random.uniform      | 0, 1, [-1]
random.uniform      | 0, 1, [3], mx.int32
random.uniform      | 0, 1, [3], key=V
random.normal       | [-1]
random.normal       | [3], mx.int32
random.normal       | [3], loc=V
random.normal       | [3], key=V
random.randint      | 0, 5, [-1]
random.randint      | 0, 5, [3], mx.float32
random.randint      | V, X, [3, 4]
random.randint      | 0, 5, [3], key=V
random.bernoulli    | V, [3]
random.bernoulli    | C
random.bernoulli    | 0.5, [-1]
random.bernoulli    | 0.5, key=V
random.truncated_normal | 0, 1, [-1]
random.truncated_normal | 0, 1, [3], mx.int32
random.truncated_normal | V, X, [3, 4]
random.truncated_normal | 0, 1, key=V
random.gumbel       | [-1]
random.gumbel       | [3], mx.int32
random.gumbel       | [3], key=V
random.categorical  | S
random.categorical  | X, 5
random.categorical  | X, shape=[7]
random.categorical  | X, num_samples=-1
random.categorical  | X, shape=[3], num_samples=1
random.categorical  | C
random.categorical  | X, key=V
random.multivariate_normal | V, X
random.multivariate_normal | S, M
random.multivariate_normal | V, M
random.multivariate_normal | V, mx.eye(5), [3], mx.int32
random.multivariate_normal | V, mx.eye(5), key=V
random.permutation  | X, 5
random.permutation  | -1
random.permutation  | S
random.permutation  | X, key=V
random.laplace      | [-1]
random.laplace      | [3], mx.int32
random.laplace      | [3], key=V
fast.rms_norm       | X, V, 1e-5
fast.rms_norm       | S, None, 1e-5
fast.rms_norm       | C, None, 1e-5
fast.layer_norm     | X, V, None, 1e-5
fast.layer_norm     | X, None, V, 1e-5
fast.layer_norm     | S, None, None, 1e-5
fast.layer_norm     | C, None, None, 1e-5
fast.cross_entropy  | X, V
fast.cross_entropy  | X, X
fast.cross_entropy  | X, mx.zeros(3)
fast.cross_entropy  | I, mx.zeros(3, mx.int32)
fast.cross_entropy  | X, mx.array([0, 1, 9])
fast.cross_entropy  | S, mx.array(1)
fast.rope           | V, 4, traditional=False, base=1e4, scale=1.0, offset=0
fast.rope           | T, 9, traditional=False, base=1e4, scale=1.0, offset=0
fast.rope           | T, 3, traditional=False, base=1e4, scale=1.0, offset=0
fast.rope           | T, 4, traditional=False, base=None, scale=1.0, offset=0
fast.rope           | T, 4, traditional=False, base=1e4, scale=1.0, offset=0, freqs=V
fast.rope           | T, 4, traditional=False, base=None, scale=1.0, offset=0, freqs=V
fast.rope           | T, 4, traditional=False, base=1e4, scale=1.0, offset=V
fast.rope           | C, 4, traditional=False, base=1e4, scale=1.0, offset=0
fast.scaled_dot_product_attention | T, T, T, scale=1.0
fast.scaled_dot_product_attention | T[None], T[None], V, scale=1.0
fast.scaled_dot_product_attention | T[None], T[None, :, :, :3], T[None], scale=1.0
fast.scaled_dot_product_attention | T[None], mx.zeros((1, 3, 3, 4)), mx.zeros((1, 3, 3, 4)), scale=1.0
fast.scaled_dot_product_attention | T[None], T[None], T[None], scale=1.0, mask='window'
fast.scaled_dot_product_attention | T[None], T[None], T[None], scale=1.0, mask=V
fast.scaled_dot_product_attention | T[None], T[None], T[None], scale=1.0, sinks=V
fast.scaled_dot_product_attention | *[T[None].astype(mx.int32)] * 3, scale=1.0
fast.gated_delta_update | T, T, T, V, V
fast.cpu_kernel     | 'a b', ['x'], ['y'], ''
fast.cpu_kernel     | 'k', ['x'], ['x'], ''
fast.cpu_kernel     | 'k', ['int'], ['y'], ''
fast.cpu_kernel     | 'k', ['x'], [], ''
fast.cpu_kernel     | 'k', ['x'], ['y'], '', compile_options={'math_mode': 'slow'}
fast.cpu_kernel     | 'k', ['x'], ['y'], '', compile_options={'speed': 1}
fast.metal_kernel   | 'k', ['x', 'x'], ['y'], ''
fast.metal_kernel   | 'k', ['x'], ['y'], '', compile_options={'speed': 1}
fast.cuda_kernel    | 'k', ['x'], [], ''
fast.cuda_kernel    | 'k', ['x'], ['y'], '', shared_memory=-1
fast.precompiled_cuda_kernel | name='k', compiled_source='', **LAUNCH
fast.precompiled_cuda_kernel | name='k', compiled_source=b'', **{**LAUNCH, 'grid': (1, 1)}
fast.precompiled_cuda_kernel | name='k', compiled_source=b'', **{**LAUNCH, 'output_dtypes': []}
fast.gated_delta_update | *[T[None]] * 3, V, V
fast.gated_delta_update | *[T[None]] * 3, mx.zeros((1, 2, 3)), V
fast.gated_delta_update | *[T[None]] * 3, mx.zeros((1, 2, 3)), mx.zeros((1, 2, 3)), V
fast.gated_delta_update | *[T[None]] * 3, mx.zeros((1, 2, 3)), mx.zeros((1, 2, 3)), None, V
linalg.norm         | X, axis=5
linalg.norm         | X, axis=[0, 0]
linalg.norm         | T, 'fro', [0, 1, 2]
linalg.norm         | X, 'max'
linalg.norm         | X, 3
linalg.norm         | T, 2
linalg.norm         | E, float('inf')
linalg.matrix_norm  | V
linalg.matrix_norm  | X, ord='max'
linalg.vector_norm  | X, axis=5
linalg.vector_norm  | X, axis=[0, 5]
linalg.matrix_power | X, 2
linalg.matrix_power | V, 2
linalg.matrix_rank  | V
linalg.matrix_rank  | H
linalg.diagonal     | V
linalg.trace        | V
linalg.vecdot       | X, V
linalg.vecdot       | X, X, axis=5
linalg.qr           | X, mode='full'
linalg.svdvals      | V
linalg.svdvals      | H
linalg.qr           | V
linalg.qr           | H
linalg.svd          | V
linalg.svd          | H
linalg.inv          | X
linalg.inv          | H
linalg.inv          | V
linalg.inv          | M
linalg.tri_inv      | X
linalg.tri_inv      | H
linalg.tri_inv      | M
linalg.cholesky     | X
linalg.cholesky     | H
linalg.cholesky     | M
linalg.cholesky_inv | X
linalg.cholesky_inv | H
linalg.cholesky_inv | M
linalg.pinv         | V
linalg.pinv         | H
linalg.cross        | X, X
linalg.cross        | X[:, :3], V
linalg.cross        | X, X, 5
linalg.eigvals      | X
linalg.eigvals      | H
linalg.eig          | X
linalg.eig          | H
linalg.eigvalsh     | X
linalg.eigvalsh     | M, 'Q'
linalg.eigvalsh     | H
linalg.eigh         | X
linalg.eigh         | M, 'Q'
linalg.eigh         | H
linalg.lu           | V
linalg.lu           | H
linalg.lu_factor    | V
linalg.lu_factor    | H
linalg.solve        | X, X
linalg.solve        | M, V
linalg.solve        | M, mx.zeros((5, 5))
linalg.solve        | M, M
linalg.solve        | H, H
linalg.solve        | M, S
linalg.solve_triangular | X, X
linalg.solve_triangular | M, V
linalg.solve_triangular | M, M
linalg.solve_triangular | H, H
linalg.det          | X
linalg.det          | V
linalg.slogdet      | X
linalg.slogdet      | V
fft.fft             | X, 0
fft.fft             | X, 4, 5
fft.fft             | S
fft.fft             | X, norm='half'
fft.ifft            | X, 0
fft.ifft            | X, 4, 5
fft.ifft            | X, norm='half'
fft.hfft            | X, 0
fft.hfft            | X, 4, 5
fft.ihfft           | X, 0
fft.ihfft           | X, norm='half'
fft.ihfft           | C
fft.rfft            | X, 0
fft.rfft            | X, 4, 5
fft.rfft            | C
fft.irfft           | X, 0
fft.irfft           | X, 4, 5
fft.fft2            | V
fft.fft2            | X, (0, 1)
fft.fft2            | X, (4,)
fft.fft2            | X, axes=(0, 0)
fft.ifft2           | V
fft.rfft2           | V
fft.irfft2          | V
fft.fftn            | X, (0, 1)
fft.fftn            | X, axes=(0, 5)
fft.fftn            | X, (1, 2, 3)
fft.fftn            | X, (), (0,)
fft.ifftn           | X, axes=(0, 5)
fft.rfftn           | X, axes=(0, 5)
fft.irfftn          | X, axes=(0, 5)
fft.fftfreq         | 0
fft.fftfreq         | 4, 0.0
fft.rfftfreq        | 0
fft.rfftfreq        | 4, 0.0
fft.fftshift        | X, 5
fft.ifftshift       | X, 5
fft.stft            | V, 0
fft.stft            | V, 4, 0
fft.stft            | V, 4, win_length=8
fft.stft            | V, 4, window=X
fft.stft            | V, 4, pad_mode='mirror'
fft.stft            | S, 4
fft.stft            | C, 4, onesided=True
fft.istft           | V
fft.istft           | C, 9
fft.istft           | C, 4, 0
fft.istft           | C, 4, window=X
fft.istft           | C, 4, length=-1
"""


def cases():
    for line in CASES.strip().split("\n"):
        name, arguments = line.split("|", 1)
        yield name.strip(), arguments.strip()


def message(name, arguments):
    """What is raised by the call, or else by evaluating its result."""
    with pytest.raises(Exception) as caught:
        mx.eval(eval(f"mx.{name}({arguments})", GIVEN))
    return caught.value


# What was expected and what arrived, or both in one phrase: an axis or an index and its range, shapes that do not
# go together, an argument of the wrong kind as Python itself says it.
SAYS_BOTH = re.compile(
    r"expected .*\bgot\b|is out of (range|bounds) for .*\d|shapes? .* cannot be broadcast|"
    r"cannot broadcast .* shape|must be .*, not |could not (open|create) .*: ",
    re.S,
)


def told(name):
    """The docstring, or that of the function that it refers to."""
    module, _, last = f"mx.{name}".rpartition(".")
    doc = eval(f"mx.{name}", GIVEN).__doc__
    return doc + "".join(eval(f"{module}.{other}", GIVEN).__doc__ for other in re.findall(r":func:`(\w+)`", doc))


def check(name, said):
    if isinstance(said, Exception):
        kinds, doc = {kind.__name__ for kind in type(said).__mro__}, told(name)
        assert "TypeError" in kinds or any(kind in doc for kind in kinds - {"Exception", "object"}), (
            f"the docstring of {name} tells of none of {sorted(kinds)}"
        )
        said = str(said)
    shown = name if name.startswith(("linalg.", "at.", "random.split")) else name.split(".")[-1]
    assert said.startswith((f"[{shown}] ", f"{shown}() ", f"{shown}(): "))
    assert SAYS_BOTH.search(said)


@pytest.mark.parametrize("name, arguments", list(cases()), ids=[f"{n}({a})" for n, a in cases()])
def test_message(name, arguments):
    check(name, message(name, arguments))


@pytest.mark.parametrize(
    "statement, name",
    [
        ("X[9]", "getitem"),
        ("X['a']", "getitem"),
        ("X[0, 0, 0]", "getitem"),
        ("X[mx.array([0.5])]", "getitem"),
        ("X[mx.zeros(5, mx.bool_)]", "getitem"),
        ("X[..., ...]", "getitem"),
        ("mx.eval(X[J])", "getitem"),
        ("mx.eval(X[J, J])", "getitem"),
        ("X[mx.array([0, 1]), mx.array([0, 1, 2])]", "getitem"),
        ("X.at[9].add(1)", "at.add"),
        ("X.at[0].maximum(V)", "at.maximum"),
        ("mx.eval(X.at[J].multiply(2))", "setitem"),
        ("I.__setitem__(0, 1 << 40)", "setitem"),
        ("I.__setitem__(0, V)", "setitem"),
        ("mx.eval(I.at[J].add(1))", "setitem"),
        ("V + X", "add"),
        ("X @ X", "matmul"),
        ("divmod(V, X)", "divmod"),
        ("X.sum(5)", "sum"),
        ("X.reshape(5)", "reshape"),
    ],
)
def test_operators(statement, name):
    with pytest.raises((ValueError, IndexError)) as caught:
        eval(statement, GIVEN)
    check(name, str(caught.value))


def rows(functions=True):
    """The name of every function of the tables, with those of functions or without."""
    modules = {"RANDOM": "random.", "FUSED": "fast.", "LINALG": "linalg.", "FFT": "fft.", "DISTRIBUTED": "distributed."}
    text = (ROOT / "python/src/functions.def").read_text()
    pattern = r"^(FUNCTION|RANDOM|FUSED|LINALG|FFT|DISTRIBUTED)\((\w+),((?:.|\n ).*)"
    for kind, name, rest in re.findall(pattern, text, re.M):
        if (functions or "Callable" not in rest) and not re.match("_[^_]", name):
            yield modules.get(kind, "") + name
    text = (ROOT / "src/ops/ops.def").read_text()
    for name in re.findall(r"^(?:UNARY|BINARY) *\((\w+),", text, re.M):
        if hasattr(mx, name):
            yield name


# Element-wise: two shapes that do not go together, and what a dtype set leaves out.
def elementwise(kind):
    text = (ROOT / "src/ops/ops.def").read_text()
    for name, dtypes in re.findall(rf"^{kind} *\((\w+), *\"\w+\", *(\w+),", text, re.M):
        if hasattr(mx, name):
            yield name, dtypes


@pytest.mark.parametrize("name", [name for name, _ in elementwise("BINARY")])
def test_shapes(name):
    operand = "B" if name.startswith(("logical", "bitwise")) or name.endswith("shift") else "X"
    check(name, message(name, f"{operand}, {operand}[:, :3]"))


REFUSED = {"REAL": "C", "FLOAT": "C", "INTEGER": "X", "SHIFTED": "X"}


@pytest.mark.parametrize(
    "name, arguments",
    [(name, REFUSED[dtypes]) for name, dtypes in elementwise("UNARY") if dtypes in REFUSED]
    + [(name, f"{REFUSED[dtypes]}, {REFUSED[dtypes]}") for name, dtypes in elementwise("BINARY") if dtypes in REFUSED],
)
def test_dtypes(name, arguments):
    check(name, message(name, arguments))


# Functions with nothing to give them, or that take anything.
TAKE_ANYTHING = """
__array_namespace_info__ atleast_1d atleast_2d atleast_3d arange default_device clear_streams synchronize
get_active_memory get_peak_memory reset_peak_memory get_cache_memory get_memory_limit clear_cache
get_array_buffer_size einsum einsum_path eval async_eval get_printoptions broadcast_arrays broadcast_shapes
meshgrid result_type disable_compile enable_compile can_cast
"""

# Whose only mistake is the kind of an argument.
ONLY_KINDS = """
set_index_errors
positive round nonzero argwhere degrees radians stop_gradient conj conjugate isnan isinf isfinite isposinf isneginf
nan_to_num array_equal astype contiguous zeros_like ones_like empty_like depends flatnonzero unique_all unique_counts
unique_inverse unique_values issubdtype isdtype set_default_device is_available device_count device_info
default_stream set_default_stream new_stream new_thread_unsafe_stream new_thread_local_stream stream
blackman hamming hanning save_safetensors save_gguf vmap compile checkpoint scan while_loop cond import_function
inspect_function linalg.pinv distributed.is_available
distributed.all_sum distributed.all_max distributed.all_min distributed.all_gather distributed.sum_scatter
"""


KEYWORDS_ONLY = {"fast.precompiled_cuda_kernel"}


@pytest.mark.parametrize("name", sorted(set(rows()) - set(TAKE_ANYTHING.split()) - KEYWORDS_ONLY))
def test_kinds(name):
    """The first argument is of a kind that no function takes, and there are as many as have to be."""
    said, given = "missing", [object()]
    while "missing" in said:
        with pytest.raises((TypeError, ValueError)) as caught:
            eval(f"mx.{name}", GIVEN)(*given)
        said = str(caught.value)
        given.append(mx.array(1))
    check(name, said)


def test_every_function_is_here():
    covered = {name for name, _ in cases()} | set(TAKE_ANYTHING.split())
    covered |= {name for kind in ("UNARY", "BINARY") for name, _ in elementwise(kind)}
    covered |= set(ONLY_KINDS.split())
    assert set(rows(functions=False)) - covered == set()


ABSENT = mx.Device(mx.gpu, 7)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda x: mx.scan(lambda c, r: (c + r, c), x[0], x, stream=ABSENT), "scan"),
        (lambda x: mx.while_loop(lambda c: c < 3, lambda c: c + 1, x[0, 0], stream=ABSENT), "while_loop"),
        (lambda x: mx.cond(x[0, 0] > 1, mx.sin, mx.cos, x, stream=ABSENT), "cond"),
        (lambda x: mx.stream(ABSENT).__enter__(), "stream"),
        (lambda x: x.to_device(ABSENT), "to_device"),
        (lambda x: mx.sin(x, stream=ABSENT), "sin"),
    ],
)
def test_a_device_that_is_not_there(call, name):
    with pytest.raises(mx.Error, match=rf"^\[{name}\] there is no Device\(gpu, 7\)"):
        call(mx.ones((2, 2)))


@pytest.mark.parametrize("name", ["", "/", "folder/"])
def test_names_that_are_none(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    x = mx.ones(2)
    for call, who in (
        (lambda: mx.save(name, x), "save"),
        (lambda: mx.savez(name, x), "savez"),
        (lambda: mx.save_safetensors(name, {"x": x}), "save_safetensors"),
        (lambda: mx.save_gguf(name, {"x": x}), "save_gguf"),
    ):
        with pytest.raises(mx.Error, match=rf"^\[{who}\] expected the name of a file, got '{name}'"):
            call()
    assert [p.name for p in tmp_path.rglob("*")] == ["folder"]


@pytest.mark.parametrize("axis", [2**31, 2**32 + 1, -(2**32), 2**64, -(2**70)])
def test_axes_beyond_all_arrays(axis):
    x = mx.ones((2, 6))
    for call in (
        lambda: mx.vmap(lambda v: v, in_axes=axis)(x),
        lambda: mx.vmap(lambda v: v, out_axes=axis)(x),
        lambda: mx.vmap(lambda v: v, in_axes=(axis,))(x),
    ):
        with pytest.raises(ValueError, match=rf"^\[vmap\] axis {axis} is out of bounds for an array of"):
            call()


def test_softmax_of_nothing():
    for dtype in (mx.float32, mx.complex64):
        y = mx.softmax(mx.zeros((3, 0), dtype), axis=-1)
        assert y.shape == (3, 0) and y.dtype == dtype and y.tolist() == [[], [], []]
