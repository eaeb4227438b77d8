"""Where our answers differ from those of the `mlx` package on purpose.

Below a reason stand the patterns that it holds for: regular expressions that are looked for in "how call". How is
`value CLASS` where the package raises that and we do not, `raises CLASS` where we do and it does not, `class CLASS
CLASS` where both do, first its class, then ours, and `answer` where the results differ.
"""

import re

REASONS = r"""
types that the package refuses, converted: NumPy's, numbers for arrays, ints for bools
    ^value TypeError
NumPy's numbers and arrays, and buffers, are taken wherever arrays are
    ^value \w+ .*(np\.|b'a')
operators decline what they do not know, so that it may answer
    ^value \w+ mx\.array\.__\w+__\(\w,
complex numbers where a formula has a meaning for them
    ^value ValueError .*(1 \+ 2j|complex64)
integers and bools become floats, and -True is -1
    ^value ValueError .*([NB]\b|int8|uint32|X > 0|True|mx\.array\(1\))
ints as probabilities
    ^value ValueError mx\.random\.bernoulli\(
arrays without elements have an answer, which is NumPy's
    ^value ValueError .*mx\.zeros\(
no results are an answer
    ^value ValueError .*(num_samples=0|None, 0|nn\.Bilinear\(3, 3, 0)\)
operands broadcast
    ^value ValueError (mx\.(vecdot|linalg\.solve)|nn\.losses\.cosine_similarity_loss)\(
no axes and sizes alone, as in NumPy
    ^value ValueError mx\.fft\.i?r?fftn\(
no axes
    ^value ValueError mx\.median\(
a list as well as a tuple
    ^value ValueError mx\.vmap\(
indices from the end, and of the flattened array
    ^value ValueError mx\.take\w*\(
numbers and trees for arrays, arrays for sizes
    ^value RuntimeError mx\.(full|zeros|ones|meshgrid|atleast_\dd|depends)\(
half types
    ^value ValueError mx\.random\.multivariate_normal\(
an eps of 0 is one
    ^value ValueError nn\.\w+Norm\((1, )?3, (eps=)?0(\)|, )
steps need not be whole
    ^value ValueError optim\.\w+\(.*0\.5\)
NumPy's arrays and buffers are converted, and found to have another shape or value
    ^class TypeError ValueError .*(np\.|b'a')
a sequence, or an int for a bool, is converted, and its value is wrong
    ^class TypeError ValueError .*(\(-1,\)|, 0\)|=0\))
numbers are converted, and found to have another shape or value
    ^class TypeError ValueError mx\.(array\.__i?matmul__|reshape|trunc|arange|tensordot)\(
None stands for what is not there: a wrong value
    ^class TypeError ValueError (mx\.vmap|mx\.depends)\(
an axis that is not there, however large it is
    ^class TypeError ValueError nn\.losses\.\w+\(.*axis=(2 \*\* 33|\(2, 3\))
operators decline what they do not know; then Python says TypeError
    ^class ValueError TypeError nn\.
a method called through its class wants an array
    ^class ValueError TypeError mx\.array\.view\(
an accident there; here a wrong value, or type, with a message
    ^class (Index|Key|ZeroDivision|Attribute)Error (ValueError|TypeError)
the protocols say what may stand there; the package does not look
    ^raises \w+ mx\.array\.(__array__\(X, |__dlpack__\(X, max_version=)
an index outside of the array: memory beside it is read and written there
    ^raises ValueError mx\.array\.__[gs]etitem__\(
the same: there is nothing to read
    ^raises ValueError mx\.(take_along_axis|slice_update|put_along_axis)\(mx\.zeros\(
    ^raises ValueError nn\.losses\.nll_loss\(mx\.(zeros|ones)\(
floats have no bits to work on; the package cuts them off
    ^raises ValueError mx\.\S+\(N, np\.(float32|ones)\(
a matrix is no list of axes or sizes, not even one without elements
    ^raises \w+ .*mx\.zeros\(\(0, 3\)\)
a method called through its class wants an array
    ^raises TypeError mx\.array\.view\(
a negative output padding cuts off
    ^raises ValueError .*(output_padding=-|1, 0, 1, -1\))
blocks without size
    ^raises ValueError mx\.block_masked_mm\(.*(block_size=|, )(-|0\)|np\.int32\(0\))
cotangents that belong to no result
    ^raises ValueError mx\.vjp\(
no names
    ^raises \w+ mx\.(value_and_)?grad\(f, argnames=
the imaginary part is thrown away there
    ^raises ValueError mx\.(fft\.rfft|random\.categorical).*complex64
    ^raises ValueError (mx\.pad|mx\.random\.\w+|nn\.init\.(normal|uniform))\(.*(1 \+ 2j|complex64)
windows and results of no or negative length
    ^raises ValueError mx\.fft\.i?stft\(.*(win_length=|length=|None, 0\)|-1\))
as many frequencies as n_fft does not have
    ^raises ValueError mx\.fft\.istft\((X|S|mx\.ones|mx\.fft\.stft\(waves\(64\), 16\), 7)
neither L nor U
    ^raises ValueError mx\.linalg\.eig(vals)?h\(S, UPLO=
bounds that the dtype cannot hold give wrong numbers there
    ^raises ValueError mx\.random\.randint\(
NaN as a parameter gives NaN or nonsense later on
    ^raises ValueError .*float\('nan'\)
weights of another size than the data has
    ^raises ValueError nn\.(GroupNorm|BatchNorm)\(
a negative factor
    ^raises ValueError nn\.Upsample\(-
a threshold below 0 or complex
    ^raises \w+ nn\.losses\.smooth_l1_loss\(X, X, (beta=)?(-|1 \+ 2j|.*complex)
refused when the optimizer is made, not in its first step
    ^raises \w+ optim\.\w+\(X, (betas|momentum|weight_decay|dampening)=
    ^raises \w+ optim\.\w+\(X, .*(None|1 \+ 2j)\)
    ^raises \w+ optim\.Adafactor\(
a learning rate is one real number
    ^raises ValueError optim\.(Ada\w+|SGD|RMSprop|Lion|Muon)\((learning_rate=)?(X|[VSNB]\b|b'|\(|\[|np\.|mx\.)
    ^raises ValueError optim\.\w+\(.*(1 \+ 2j|complex64)
a bool is no index
    ^raises ValueError mx\.take\(X, True\)
several values for one place
    ^raises ValueError mx\.put_along_axis\(
several values; the first is taken there, or what lies there in memory
    ^raises ValueError mx\.pad\(X, 1, constant_values=
matrices that do not go together: memory beside them is read there
    ^raises ValueError mx\.segmented_mm\(
vectors without elements
    ^raises ValueError nn\.(Quantized)?Embedding\(4, np\.int32\(0\)\)
a nonlinearity that cannot be called
    ^raises ValueError nn\.RNN\(
a share outside of 0 to 1, or another shape
    ^raises ValueError nn\.init\.sparse\(
an array is no axis
    ^raises \w+ nn\.losses\.\w+\(.*axis=mx\.zeros
an array is no pair of paddings
    ^raises ValueError mx\.conv_general\(.*padding=mx\.zeros
the dtype that NumPy asks for
    ^answer mx\.array\.__array__\(
operators decline what they do not know; then Python compares identities
    ^answer mx\.array\.__(eq|ne)__\(
what is inside of a pickle
    ^answer mx\.array\.__getstate__\(
a shift by less than 0 or more than the bits is undefined in C; all bits fall out here
    ^answer .*shift\w*\(N, (-|b'a')
sums and products of bool are int32, whatever the axes
    ^answer .*(sum|prod)\(mx\.array\(True\)
integers are added up, and squared, as floats: they do not wrap
    ^answer .*(mean|var|std|norm|cosine_similarity_loss)\(.*uint32
integers and bools become floats first
    ^answer .*(softm\w+|logsumexp|cross_entropy|hadamard_transform)\(.*(mx\.array\((1|True)\)|B\)|int8|uint32|X > 0)
the dtype asked for
    ^answer (mx\.full|nn\.init\.constant)\(
an index outside of the array reads the nearest element, and writes nothing; memory beside it there
    ^answer .*(take|take_along_axis|__getitem__|Embedding|cross_entropy|slice|slice_update)\(
the order beside the place asked for is anybody's
    ^answer mx\.(arg)?partition\(
    ^answer mx\.topk\(
the signs of singular vectors are anybody's
    ^answer mx\.linalg\.svd\(
bases of 0 and below; angles of more than float32 has digits for
    ^answer .*(rope|RoPE)\(.*
angles of more than float32 has digits for
    ^answer nn\.SinusoidalPositionalEncoding\(4, max_freq=1e\+30
NaN as a parameter
    ^answer nn\.(\w+\()+.*float\('nan'\)
alphas of 0 and of other signs, and large ones: the formula without exp(x) - 1
    ^answer nn\.(celu|CELU)\(
the formula, where the package has max(x, slope x), which differs for slopes above 1
    ^answer nn\.(leaky_relu|LeakyReLU)\(
rounded once
    ^answer nn\.selu\(X\.astype\(mx\.bfloat16\)
-y of unsigned numbers wraps there
    ^answer nn\.losses\.margin_ranking_loss\(.*uint32
the norm is a real number, in float32 at least
    ^answer optim\.clip_grad_norm\(
a rate is a float, and does not wrap
    ^answer optim\.(exponential|step)_decay\(.*uint
NumPy's numbers are not cut off, and results are arrays
    ^answer optim\.(cosine_decay|linear_schedule)\(.*np\.
a prefix keeps its first character unless that is a point
    ^answer utils\.tree_flatten\(
Python's types stand for dtypes, and a function may have no use for that one
    ^class TypeError ValueError .*dtype=(int|float)\)
bytes are no number
    ^raises TypeError nn\.losses\.huber_loss\(X, X, delta=b'a'\)
"""

DIFFERENT = [re.compile(line.strip()) for line in REASONS.splitlines() if line.startswith(" ")]
