"""mlx.core.random: known numbers, the state, shapes and distributions."""

import io
import math
import threading

import mlx.core as mx
import numpy as np
import pytest
from scipy import special, stats

r = mx.random

# After seed(42), in this order; numbers that other implementations of the same generator give.
KNOWN = [
    (lambda: r.uniform(shape=(3,)), [0.2851702570915222, 0.6119449138641357, 0.17565257847309113]),
    (
        lambda: r.uniform(-1, 2, (2, 2)),
        [[1.2543251514434814, 0.3517282009124756], [1.4843173027038574, 0.08191871643066406]],
    ),
    (lambda: r.normal((3,)), [-0.09680049866437912, 0.7366597056388855, 0.861169159412384]),
    (lambda: r.normal((2,), loc=1.0, scale=2.0), [2.187553882598877, 3.1838197708129883]),
    (lambda: r.randint(0, 10, (5,)), [0, 5, 4, 7, 2]),
    (lambda: r.randint(-5, 5, (4,), dtype=mx.int8), [3, -3, 4, -1]),
    (lambda: r.bernoulli(0.3, (6,)), [False, False, True, False, False, True]),
    (lambda: r.bernoulli(mx.array([0.0, 0.5, 1.0])), [False, False, True]),
    (lambda: r.gumbel((2,)), [-0.2046695053577423, 0.08229096978902817]),
    (lambda: r.laplace((2,)), [-0.25270116329193115, 1.9107246398925781]),
    (
        lambda: r.truncated_normal(-1, 1, (3,)),
        [-0.11216793209314346, -0.7994874119758606, -0.05830543115735054],
    ),
    (lambda: r.categorical(mx.array([[0.1, 2.0, 0.3], [5.0, 1, 1]])), [2, 0]),
    (lambda: r.uniform() * 0, 0),
    (lambda: r.uniform() * 0, 0),
    (lambda: r.uniform(shape=(3,), dtype=mx.float16), [0.87353515625, 0.9365234375, 0.35693359375]),
]


def test_known_numbers_in_order():
    r.seed(42)
    assert r.state[0].tolist() == [0, 42]
    for draw, want in KNOWN:
        assert np.allclose(draw().tolist(), want, rtol=1e-5, atol=1e-6)
    assert r.state[0].tolist() == [2227035060, 2872287042]


def test_bits_uniform_and_integers_are_equal_to_the_bit():
    k = r.key(7)
    assert k.tolist() == [0, 7]
    assert r.key(2**64 - 1).tolist() == [2**32 - 1] * 2
    assert r.split(k).tolist() == [[966301609, 989289821], [1948237315, 1058547403]]
    assert r.split(k, 3).tolist() == [
        [276534068, 861967409],
        [1905761346, 1641862660],
        [2900896126, 1402713516],
    ]
    want = [0.22498463094234467, 0.42616042494773865, 0.4536093473434448]
    assert r.uniform(shape=(3,), key=k).tolist() == want
    assert r.randint(0, 100, (4,), key=k).tolist() == [22, 23, 45, 24]
    assert r.bernoulli(0.5, (6,), key=k).tolist() == [True, True, True, True, False, True]


def threefry(key, n):
    """The words that a draw of n has: of all first halves of the counters' pairs, then of all second ones."""
    rounds = [13, 15, 26, 6], [17, 29, 16, 24]
    keys = [np.uint32(k) for k in (*key, key[0] ^ key[1] ^ 0x1BD11BDA)]
    counters = np.arange(n + n % 2, dtype=np.uint32)
    counters[n:] = 0
    x, y = np.split(counters, 2)
    x, y = x + keys[0], y + keys[1]
    for i in range(5):
        for by in rounds[i % 2]:
            x = x + y
            y = (y << np.uint32(by) | y >> np.uint32(32 - by)) ^ x
        x, y = x + keys[(i + 1) % 3], y + keys[(i + 2) % 3] + np.uint32(i + 1)
    return np.concatenate([x, y])[:n]


def test_words_of_draws_of_every_length():
    keys = [[1234567, 89], [0, 2**32 - 1], [2**31, 5]]
    for n in [*range(150), 255, 256, 257, 1023, 1025, 2047, 2048, 2049, 4099, 1 << 15, 40001]:
        draw = threefry(keys[n % 3], 2 * n)
        assert np.array_equal(np.array(r.split(mx.array(keys[n % 3], mx.uint32), n)), draw.reshape(n, 2))
        unit = np.minimum((threefry(keys[0], n) / 2.0**32).astype(np.float32), np.float32(1 - 2**-24))
        assert np.array_equal(np.array(r.uniform(shape=(n,), key=mx.array(keys[0], mx.uint32))), unit)
        rows = mx.vmap(lambda k, n=n: r.uniform(shape=(n,), key=k))(mx.array(keys, mx.uint32))
        assert np.array_equal(np.array(rows[0]), unit)


def test_samples_of_rows():
    logits = mx.array([[0.1, 2.0, 0.3], [1.0, 1.0, 1.0]])
    k = r.key(3)
    assert r.categorical(logits, num_samples=4, key=k).tolist() == [[1, 1, 2, 1], [0, 1, 2, 2]]
    assert r.categorical(logits, axis=0, shape=(4, 3), key=k).tolist() == [
        [1, 0, 1],
        [0, 1, 0],
        [1, 0, 1],
        [1, 1, 1],
    ]


@pytest.mark.parametrize("n", [2, 3, 100, 1000])
def test_many_samples_of_one_distribution(n):
    # Where uniform numbers fall in the cumulative distribution, to what float32 resolves.
    logits = np.random.default_rng(n).normal(size=n).astype(np.float32) * 2
    sums = np.cumsum(np.exp(logits.astype(np.float64) - logits.max()))
    k = r.key(n)
    for given, options, shape in [
        (mx.array(logits), {"num_samples": 500}, (500,)),
        (mx.array(logits)[None], {}, (1,)),
        (mx.array(logits)[None], {"num_samples": 40}, (1, 40)),
        (mx.array(logits)[:, None], {"num_samples": 40, "axis": 0}, (1, 40)),
        (mx.array(logits), {"shape": (3, 50)}, (3, 50)),
        (mx.array(logits)[None], {"shape": (50, 1)}, (50, 1)),
    ]:
        at = np.array(r.uniform(shape=shape, key=k), np.float64) * sums[-1]
        got = np.array(r.categorical(given, key=k, **options)).astype(int)
        assert got.shape == shape
        slack = 1e-5 * sums[-1]
        assert (at <= sums[got] + slack).all() and (at >= np.where(got, sums[got - 1], 0) - slack).all()


def test_samples_of_one_distribution_known():
    logits = mx.log(mx.array([0.1, 0.2, 0.7]))
    k = r.key(5)
    assert r.categorical(logits, num_samples=8, key=k).tolist() == [1, 0, 2, 0, 2, 2, 0, 2]
    assert r.categorical(logits, shape=(5,), key=k).tolist() == [2, 2, 2, 2, 0]
    assert r.categorical(logits[None], num_samples=4, key=k).tolist() == [[2, 1, 2, 2]]
    inf = float("inf")
    for v, want in [([0, -inf, 0], {0, 2}), ([0, inf, 0], {1}), ([-inf] * 3, {0, 1, 2}), ([0, 0, -inf], {0, 1})]:
        assert set(r.categorical(mx.array(v, mx.float32), num_samples=100, key=k).tolist()) == want
    rows = mx.stack([logits, logits[::-1]])
    got = mx.vmap(lambda l: r.categorical(l, num_samples=8, key=k))(rows)
    assert got.tolist() == [r.categorical(l, num_samples=8, key=k).tolist() for l in rows]


def test_state_can_be_kept_and_put_back():
    r.seed(1)
    kept = r.state[0]
    a = r.uniform(shape=(4,))
    b = r.uniform(shape=(4,))
    assert a.tolist() != b.tolist()
    r.state[0] = kept
    assert r.uniform(shape=(4,)).tolist() == a.tolist()
    assert len(r.state) == len(list(r.state)) == 1
    with pytest.raises(IndexError):
        r.state[1]
    with pytest.raises(TypeError):
        r.state[0] = 3
    with pytest.raises(ValueError):
        r.state[0] = mx.zeros(2)


def test_a_key_does_not_touch_the_state():
    r.seed(5)
    before = r.state[0].tolist()
    r.normal((3,), key=r.key(1))
    assert r.state[0].tolist() == before


def test_shapes_and_dtypes():
    for draw in [r.uniform, r.normal, r.gumbel, r.laplace]:
        assert draw(shape=(2, 3)).shape == (2, 3)
        assert draw().shape == ()
        assert draw(shape=[0]).shape == (0,)
        for dtype in [mx.float16, mx.bfloat16, mx.float32]:
            assert draw(shape=(2,), dtype=dtype).dtype == dtype
        assert draw(shape=(2,), dtype=None).dtype == mx.float32
    assert r.randint(0, mx.array([[1], [2]]), (2, 3)).shape == (2, 3)
    assert r.bernoulli().dtype == mx.bool_
    assert r.bernoulli(mx.zeros((2, 1))).shape == (2, 1)
    assert r.truncated_normal(mx.zeros((2, 1)), mx.ones(3)).shape == (2, 3)
    assert r.categorical(mx.zeros((2, 5)), num_samples=3).shape == (2, 3)
    assert r.categorical(mx.zeros((2, 5)), axis=0).shape == (5,)
    assert r.categorical(mx.zeros((2, 5))).dtype == mx.uint32
    assert r.normal((2, 2), loc=mx.array([0.0, 100.0])).shape == (2, 2)


@pytest.mark.parametrize(
    "draw, cdf",
    [
        (lambda n, k: r.uniform(-1, 3, (n,), key=k), stats.uniform(-1, 4).cdf),
        (lambda n, k: r.normal((n,), loc=2.0, scale=3.0, key=k), stats.norm(2, 3).cdf),
        (lambda n, k: r.gumbel((n,), key=k), stats.gumbel_r.cdf),
        (lambda n, k: r.laplace((n,), loc=1.0, scale=2.0, key=k), stats.laplace(1, 2).cdf),
        (lambda n, k: r.truncated_normal(-1, 2, (n,), key=k), stats.truncnorm(-1, 2).cdf),
    ],
)
def test_distributions(draw, cdf):
    sample = np.array(draw(200_000, r.key(3)), np.float64)
    assert stats.kstest(sample, cdf).pvalue > 1e-3


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    "low, high", [(50, 60), (5.5, 6), (4, math.inf), (-60, -50), (-math.inf, -4.5), (9, 9.5), (1e6, math.inf)]
)
def test_normal_numbers_of_the_tails(low, high, lazy):
    """Also where the distribution function is 1 in float32; bounds that are not known make no difference."""
    with mx.stream(mx.cpu):
        for dtype, n in ((mx.float32, 20_000), (mx.float64, 20_000), (mx.float16, 2000)):
            if dtype == mx.float16 and abs(low) > 6e4:
                continue
            bounds = [mx.array(float(v), dtype) + (0 if lazy else mx.array(0, dtype)) for v in (low, high)]
            if not lazy:
                mx.eval(bounds)
            x = np.array(r.truncated_normal(*bounds, (n,), dtype, key=r.key(3))).astype(np.float64)
            assert ((low <= x) & (x <= high)).all()
            near, far = (low, high) if low > 0 else (-high, -low)
            x = np.abs(x)
            # log of what is beyond x, as a share of what is beyond `near`, which is uniform between its ends.
            beyond_near = special.log_ndtr(-float(near))
            within = [1 - np.exp(special.log_ndtr(-np.asarray(v, np.float64)) - beyond_near) for v in (x, far)]
            share = within[0] / within[1]
            coarse = near * {mx.float32: 2.0**-24, mx.float64: 2.0**-53, mx.float16: 2.0**-11}[dtype] * near
            assert stats.kstest(share, "uniform").statistic < 1.95 / n**0.5 + coarse


def test_normal_numbers_of_bounds_in_an_array():
    """Each element by its own; where erf tells numbers apart they are what they were."""
    low, high = mx.array([-1.0, 50.0, -6.0, 3.0, 7.0]), mx.array([2.0, 60.0, -5.0, mx.inf, mx.inf])
    x = r.truncated_normal(low, high, key=r.key(0))
    assert ((low <= x) & (x < mx.minimum(high, low + 4))).all()
    for i in range(5):
        one = r.truncated_normal(low[i], high[i], (5,), key=r.key(0))[i]
        np.testing.assert_allclose(x[i].item(), one.item(), rtol=1e-6)
    grad = mx.grad(lambda v: r.truncated_normal(v, v + 1, (3,), key=r.key(0)).sum())
    open_end = mx.grad(lambda v: r.truncated_normal(v, math.inf, (3,), key=r.key(0)).sum())
    for v in (0.5, 20.0, -20.0):
        assert np.isfinite(grad(mx.array(v)).item())
    assert abs(open_end(mx.array(20.0)).item() - 3) < 0.05


def test_frequencies():
    n = 100_000
    counts = np.bincount(np.array(r.randint(0, 7, (n,), key=r.key(2))), minlength=7)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert abs(np.array(r.bernoulli(0.3, (n,), key=r.key(4))).mean() - 0.3) < 0.01
    p = np.array([0.5, 0.3, 0.2])
    drawn = r.categorical(mx.log(mx.array(p)), num_samples=n, key=r.key(6))
    assert stats.chisquare(np.bincount(np.array(drawn), minlength=3), p * n).pvalue > 1e-3
    u = np.array(r.uniform(shape=(n,), key=r.key(8)))
    assert u.min() >= 0 and u.max() < 1


def test_threads_do_not_draw_the_same_numbers():
    r.seed(0)
    drawn = []
    threads = [threading.Thread(target=lambda: drawn.append(r.uniform(shape=(8,)).tolist())) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({tuple(d) for d in drawn}) == 8


@pytest.mark.parametrize(
    "bad, error",
    [
        (lambda: r.uniform(dtype=mx.int32), ValueError),
        (lambda: r.normal(dtype=mx.int32), ValueError),
        (lambda: r.randint(0, 10, (3,), dtype=mx.float32), ValueError),
        (lambda: r.uniform(key=mx.zeros(2)), ValueError),
        (lambda: r.uniform(key=mx.zeros(3, mx.uint32)), ValueError),
        (lambda: r.categorical(mx.zeros(3), shape=(2,), num_samples=2), ValueError),
        (lambda: r.categorical(mx.zeros(3), axis=2), IndexError),
        (lambda: r.uniform(shape=(-1,)), ValueError),
        (lambda: r.uniform(mx.zeros(3), 1, (2,)), ValueError),
        (lambda: r.key(-1), ValueError),
        (lambda: r.key(2**64), ValueError),
        (lambda: r.seed(1.5), TypeError),
        (lambda: r.uniform(key=3), TypeError),
        (lambda: r.uniform(shape="a"), TypeError),
        (lambda: r.uniform(shape=3), TypeError),
        (lambda: r.split(r.key(0), -1), ValueError),
        (lambda: r.normal(loc="a"), TypeError),
    ],
)
def test_bad_arguments(bad, error):
    with pytest.raises(error):
        bad()


def test_half_types_fill_their_range():
    for dtype in [mx.float16, mx.bfloat16]:
        u = np.array(r.uniform(shape=(10_000,), dtype=dtype, key=r.key(1)).astype(mx.float32))
        assert 0 <= u.min() < 0.01
        assert 0.98 < u.max() < 1
        assert math.isclose(u.mean(), 0.5, abs_tol=0.02)


def test_multivariate_normal():
    mean, cov, key = mx.array([1.0, 2.0]), mx.array([[2.0, 1.0], [1.0, 3.0]]), r.key(7)
    known = [[-1.3633297, 0.0788107], [0.7078637, 1.4444508], [1.4801515, 1.3833611]]
    np.testing.assert_allclose(np.array(r.multivariate_normal(mean, cov, [3], key=key)), known, rtol=1e-5)
    x = np.array(r.multivariate_normal(mean, cov, [20000], key=key), dtype=np.float64)
    np.testing.assert_allclose(x.mean(0), np.array(mean), atol=0.05)
    np.testing.assert_allclose(np.cov(x.T), np.array(cov), atol=0.1)
    covs = mx.stack([cov, mx.eye(2)])
    y = r.multivariate_normal(mean, covs, [5, 2], dtype=mx.float64, key=key)
    assert y.shape == (5, 2, 2) and y.dtype == mx.float64
    z = np.array(r.normal((5, 2, 2), dtype=mx.float64, key=key))
    np.testing.assert_allclose(np.array(y)[:, 1], z[:, 1] + np.array(mean), rtol=1e-6)
    assert r.multivariate_normal(mx.zeros((5, 2)), covs[:, None]).shape == (2, 5, 2)
    assert r.multivariate_normal(mean, cov, dtype=mx.float16).dtype == mx.float16
    for args in [(mean, mx.eye(3)), (mx.array(1.0), mx.eye(1)), (mx.zeros((5, 2)), cov, [4]), (mean, covs, [3])]:
        with pytest.raises(ValueError, match="multivariate_normal"):
            r.multivariate_normal(*args)
    with pytest.raises(ValueError, match="floating-point dtype, got int32"):
        r.multivariate_normal(mean, cov, dtype=mx.int32)


@pytest.mark.parametrize(
    "low, high", [(math.nan, 5), (0, math.nan), (-math.inf, 5), (0, math.inf), (0, 1e30), (-3e9, 0)]
)
def test_integers_between_limits_that_are_none(low, high):
    for wrap in (lambda v: v, np.float64):
        with pytest.raises(mx.Error, match=r"\[randint\] expected the (lower|upper) bound to be from -2147483648 to"):
            r.randint(wrap(low), wrap(high), (4,))
    assert set(r.randint(0.0, mx.array([2.0]), (100,)).tolist()) == {0, 1}


@pytest.mark.parametrize("dtype", [mx.bool_, mx.uint8, mx.int8, mx.uint32, mx.int32, mx.uint64, mx.int64], ids=str)
@pytest.mark.parametrize(
    "low, high",
    [(-1, 310), (300, 310), (0, -5), (-5, -2), (-9, -9), (0, 2**40), (-0.5, 3), (math.nan, 5), (0, math.nan),
     (-math.inf, 5), (0, math.inf), (0, 1e30), (-1e30, 0)],
)  # fmt: skip
def test_limits_in_arrays_give_the_same_whether_or_not_they_are_computed(low, high, dtype):
    low, high, key = mx.array(low), mx.array(high), r.key(7)
    lazy = r.randint(low + 0, high + 0, (20,), dtype, key).tolist()
    there = [low + 0, high + 0]
    mx.eval(there)
    assert r.randint(*there, (20,), dtype, key).tolist() == lazy
    assert mx.compile(lambda a, b: r.randint(a, b, (20,), dtype, key))(low, high).tolist() == lazy


@pytest.mark.parametrize("logits", [[math.nan, 0, 1], [math.nan] * 3, [-math.inf] * 3, [math.inf, 0, math.inf]])
def test_logits_without_probabilities_give_some_category(logits):
    logits = mx.array(logits)
    for draws in (r.categorical(logits, num_samples=50), r.categorical(mx.stack([logits] * 40), num_samples=5)):
        assert draws.max().item() < 3
    if not np.isnan(np.array(logits)).any():
        assert set(r.categorical(logits, num_samples=200).tolist()) == set(np.flatnonzero(logits == logits.max()))


def test_uniform_of_a_range_wider_than_its_type_holds():
    for t, a in ((mx.float32, 3e38), (mx.float16, 6e4), (mx.float64, 1.5e308)):
        with mx.stream(mx.cpu):
            ends = [mx.array(v, t) for v in (-a, a)] if t == mx.float64 else (-a, a)
            x = np.array(mx.random.uniform(*ends, (1000,), dtype=t, key=mx.random.key(3))).astype(np.float64)
        assert np.isfinite(x).all() and abs(x).max() <= a * (1 + 1e-3)
        assert abs((x / a).mean()) < 0.1 and x.min() < -0.9 * a and x.max() > 0.9 * a


@pytest.mark.parametrize("complex_one", [1j, mx.array(1j)], ids=["number", "array"])
@pytest.mark.parametrize(
    "name, draw",
    [
        ("uniform", lambda z: r.uniform(z, 1, (2,))),
        ("uniform", lambda z: r.uniform(0, z, (2,), mx.float16)),
        ("normal", lambda z: r.normal((2,), loc=z)),
        ("normal", lambda z: r.normal((2,), scale=z)),
        ("truncated_normal", lambda z: r.truncated_normal(z, 2)),
        ("truncated_normal", lambda z: r.truncated_normal(0, z, (2,))),
        ("randint", lambda z: r.randint(z, 5)),
        ("randint", lambda z: r.randint(0, z)),
        ("multivariate_normal", lambda z: r.multivariate_normal(mx.zeros(2) * z, mx.eye(2))),
        ("multivariate_normal", lambda z: r.multivariate_normal(mx.zeros(2), mx.eye(2) * z)),
    ],
)
def test_real_numbers_have_real_parameters(name, draw, complex_one):
    with pytest.raises(ValueError, match=rf"\[{name}\] expected real parameters, got complex64"):
        draw(complex_one)


def test_complex_numbers_have_complex_parameters():
    key = r.key(2)
    x, y = r.normal((5,), mx.complex64, 2j, 3j, key), r.normal((5,), mx.complex64, key=key)
    assert mx.allclose(x, 3j * y + 2j).item()


def test_draws_that_nobody_evaluates_leave_nothing():
    mx.random.seed(3)
    first = [mx.random.uniform(shape=(2,)) for _ in range(3)]
    mx.random.seed(3)
    key, drawn = mx.random.state[0], []
    for _ in range(3):
        key, other = mx.random.split(key)
        drawn.append(mx.random.uniform(shape=(2,), key=other))
    assert mx.array_equal(mx.stack(first), mx.stack(drawn))
    before = mx.get_active_memory()
    for _ in range(2000):
        mx.random.uniform(shape=(2,))
    assert mx.get_active_memory() - before < 1000
    dot = io.StringIO()
    mx.export_to_dot(dot, mx.random.state[0])
    assert "RandomBits" not in dot.getvalue()


def of_many(low, high, shape, key):
    """The numbers that 96 bits say, by Python's integers."""
    words = np.array(r.split(key, 3 * math.prod(shape) // 2)).astype(object).reshape(*shape, 3)
    numbers = words[..., 0] + (words[..., 1] << 32) + (words[..., 2] << 64)
    return (low + (numbers * (high - low) >> 96)).tolist()


@pytest.mark.parametrize(
    "dtype, low, high",
    [
        (mx.int64, 0, 2**24 + 1),
        (mx.int64, 0, 2**31 - 1),
        (mx.int64, -(2**40), 2**40 + 7),
        (mx.int64, 2**40, 2**40 + 10),
        (mx.int64, -(2**63), 2**63 - 1),
        (mx.int64, -(2**63), 2**63),
        (mx.int64, -(2**63), -(2**63) + 2),
        (mx.int64, 2**62, 2**62 + 5),
        (mx.uint64, 0, 2**40),
        (mx.uint64, 5, 3 * 2**62),
        (mx.uint64, 2**64 - 10, 2**64 - 1),
    ],
)
def test_integers_of_64_bits_have_them_all(dtype, low, high):
    key = r.key(7)
    bounds = mx.array(low, dtype), mx.array(high, mx.uint64 if high >= 2**63 else dtype)
    mx.eval(bounds)
    expected = of_many(low, high, (50,), key)
    drawn = r.randint(*bounds, (50,), dtype=dtype, key=key)
    assert drawn.dtype == dtype and drawn.tolist() == expected
    compiled = mx.compile(lambda a, b, k: r.randint(a, b, (50,), dtype=dtype, key=k))
    assert compiled(*bounds, key).tolist() == expected
    lazy = [mx.maximum(b, b) for b in bounds]
    assert r.randint(*lazy, (50,), dtype=dtype, key=key).tolist() == expected


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32, mx.float64])
def test_wide_bounds_are_the_same_whoever_knows_them(dtype):
    key, most, cpu = r.key(4), mx.finfo(dtype).max, mx.cpu
    with mx.stream(cpu):
        for low, high in ((-most, most), (-most, most / 512), (0.0, most), (-1.5, 2.25), (0.0, mx.inf)):
            bounds = mx.array(low, dtype), mx.array(high, dtype)
            mx.eval(bounds)
            there = r.uniform(*bounds, (40,), dtype, key)
            lazy = [mx.maximum(b, b) for b in bounds]
            compiled = mx.compile(lambda a, b: r.uniform(a, b, (40,), dtype, key))
            for other in (r.uniform(*lazy, (40,), dtype, key), compiled(*bounds)):
                assert mx.array_equal(there, other, equal_nan=True)
            if high < mx.inf:
                u = np.array(r.uniform(0.0, 1.0, (40,), dtype, key).astype(mx.float64))
                low, high = (float(b.astype(mx.float64).item()) for b in bounds)
                expected = (low / 2 + (high / 2 - low / 2) * u) * 2
                np.testing.assert_allclose(np.array(there.astype(mx.float64)), expected, rtol=0.02, atol=abs(low) / 64)
            columns = r.uniform(mx.stack([bounds[0], bounds[0]]), bounds[1], (20, 2), dtype, key)
            assert mx.array_equal(columns.flatten(), there, equal_nan=True)


def test_low_bits_of_wide_integers_are_uniform():
    n = 60_000
    for high, dtype in ((2**40, mx.int64), (3 * 2**62, mx.uint64), (2**31 - 1, mx.int64)):
        drawn = np.array(r.randint(mx.array(0, dtype), mx.array(high, dtype), (n,), dtype=dtype, key=r.key(1)))
        for k in (3, 8):
            counts = np.bincount((drawn % drawn.dtype.type(k)).astype(int), minlength=k)
            assert ((counts - n / k) ** 2 / (n / k)).sum() < 40


def test_few_integers_of_64_bits_are_those_of_32():
    key = r.key(3)
    for low, high in ((0, 10), (-5, 2**24 - 5), (0, 2**24), (-(2**24), 0), (5, 5), (7, -3)):
        expected = r.randint(low, high, (100,), key=key).tolist()
        for wrap in (int, mx.array, lambda v: mx.maximum(mx.array(v), v)):
            assert r.randint(wrap(low), wrap(high), (100,), dtype=mx.int64, key=key).tolist() == expected
    both = r.randint(mx.array([0, -(2**50), 9], mx.int64), mx.array([10, 2**50, 9], mx.int64), (4, 3), mx.int64, key)
    assert both[:, 0].tolist() == r.randint(0, 10, (4, 3), key=key)[:, 0].tolist()
    assert both[:, 1].tolist() == [row[1] for row in of_many(-(2**50), 2**50, (4, 3), key)]
    assert both[:, 2].tolist() == [9] * 4
    for high in (2**62 + 1, 3, -(2**63)):
        nothing = r.randint(mx.array(2**62 + 1), mx.array(high), (3,), dtype=mx.int64, key=key)
        assert nothing.tolist() == [2**62 + 1] * 3
