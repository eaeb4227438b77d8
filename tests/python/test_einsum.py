"""einsum against NumPy, its path against NumPy's greedy one, its speed against matmul."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

RNG = np.random.default_rng(0)
LETTERS = "abcdXY"


def compare(subscripts, *operands, tolerance=1e-9):
    got = mx.einsum(subscripts, *[mx.array(x, dtype=mx.float64) for x in operands])
    want = np.einsum(subscripts, *operands)
    assert got.shape == want.shape
    np.testing.assert_allclose(np.array(got), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "subscripts, shapes",
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ij,jk", [(3, 4), (4, 5)]),
        ("ba", [(3, 4)]),
        ("Ba,aB->", [(3, 4), (4, 3)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("iii->i", [(3, 3, 3)]),
        ("ijij->ij", [(3, 2, 3, 2)]),
        ("i...i", [(2, 3, 2)]),
        ("i,i,i->i", [(3,), (3,), (3,)]),
        ("i,j,k->kij", [(2,), (3,), (4,)]),
        ("bij,bjk->bik", [(6, 3, 4), (6, 4, 5)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("...,...", [(2, 1), (3,)]),
        ("ij->", [(3, 4)]),
        ("ij,kl->il", [(3, 4), (2, 5)]),
        ("ij,j", [(3, 4), (1,)]),
        ("i,i", [(1,), (3,)]),
        ("ea,fb,abcd,gc,hd->efgh", [(4, 5), (4, 5), (5, 5, 5, 5), (4, 5), (4, 5)]),
        (" i j , j k -> i k ", [(3, 4), (4, 5)]),
        (",", [(), ()]),
        ("", [()]),
        ("...->...", [(2, 3)]),
        ("i...->...", [(2, 3)]),
        ("ij,jk->ik", [(3, 0), (0, 5)]),
        ("ij,jk->ik", [(0, 3), (3, 5)]),
        ("bi,bi->b", [(7, 5), (7, 5)]),
        ("ij,ij->", [(4, 5), (4, 5)]),
        ("ij->ij", [(4, 5)]),
        ("ij,ik,il->jkl", [(4, 2), (4, 3), (4, 2)]),
    ],
)
def test_values(subscripts, shapes):
    compare(subscripts, *[RNG.standard_normal(s) for s in shapes])


@st.composite
def contractions(draw):
    """Subscripts and operands that fit them."""
    size = {c: draw(st.integers(1, 3)) for c in LETTERS}
    batch = draw(st.sampled_from([(), (2,), (2, 3)]))
    terms, operands, used = [], [], ""
    for _ in range(draw(st.integers(1, 4))):
        letters = draw(st.text(LETTERS, max_size=4))
        used += letters
        shape = [size[c] for c in letters]
        if draw(st.booleans()):
            at, few = draw(st.integers(0, len(letters))), draw(st.integers(0, len(batch)))
            kept = tuple(draw(st.sampled_from([d, 1])) for d in batch[few:])
            letters, shape = letters[:at] + "..." + letters[at:], [*shape[:at], *kept, *shape[at:]]
        terms.append(letters)
        operands.append(RNG.standard_normal(shape))
    subscripts = ",".join(terms)
    if draw(st.booleans()):
        out = draw(st.permutations(sorted(set(used))))[: draw(st.integers(0, 6))]
        at = draw(st.integers(0, len(out)))
        subscripts += "->" + "".join(out[:at]) + "..." * ("..." in subscripts) + "".join(out[at:])
    return subscripts, operands


@given(contractions())
def test_any_subscripts(case):
    subscripts, operands = case
    compare(subscripts, *operands)


def test_strided_operands():
    a, b = RNG.standard_normal((4, 6, 5)), RNG.standard_normal((5, 4, 3))
    x, y = mx.array(a, dtype=mx.float64), mx.array(b, dtype=mx.float64)
    got = mx.einsum("abc,cad->bd", x[:, ::2, ::-1], y[:, ::-1])
    np.testing.assert_allclose(np.array(got), np.einsum("abc,cad->bd", a[:, ::2, ::-1], b[:, ::-1]), rtol=1e-9)


def test_dtypes():
    i = np.arange(6).reshape(2, 3)
    for t in (np.int8, np.int32, np.int64, np.uint8, bool):
        a = (i * 50).astype(t)
        for subscripts in ("ij,kj->ik", "ij,ij->", "ij,ij->ij"):
            got = np.array(mx.einsum(subscripts, mx.array(a), mx.array(a)))
            want = np.einsum(subscripts, a, a)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    z = (i + 1j * i[::-1]).astype(np.complex64)
    got = np.array(mx.einsum("ij,kj->ik", mx.array(z), mx.array(z)))
    np.testing.assert_allclose(got, np.einsum("ij,kj->ik", z, z), rtol=1e-5)
    assert mx.einsum("i,i", mx.ones((3,), dtype=mx.float16), mx.ones((3,), dtype=mx.float16)).dtype == mx.float16
    assert mx.einsum("ij->", mx.ones((100, 100), dtype=mx.float16)).item() == 10000


def test_missing_ellipsis_is_summed():
    assert mx.einsum("...i->i", mx.ones((2, 3))).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "subscripts, operands, message",
    [
        ("ij,jk->iz", 2, "subscripts of the result"),
        ("ij,jk->iik", 2, "each once"),
        ("ij,jk->ik->", 2, "nothing after"),
        ("ij,jk->ik,", 2, "nothing after"),
        ("ij", 2, "as many operands"),
        ("ij,jk", 1, "as many operands"),
        ("i1", 1, "'1'"),
        ("i.j", 1, "'.'"),
        ("i......", 1, "'.'"),
        ("ij-ij", 1, "'-'"),
        ("ijk", 1, "a subscript for each dimension, got 3"),
        ("i", 1, "a subscript for each dimension, got 1"),
        ("ij,ij", 2, "size 2 for subscript 'i' .*, got 3"),
        ("ii", 1, "one size for subscript 'i', got 2 and 3"),
        ("ij" * 40, 1, "at most"),
    ],
)
def test_refused(subscripts, operands, message):
    x = [mx.ones((2, 3)), mx.ones((3, 2))][:operands]
    for f in (mx.einsum, mx.einsum_path):
        with pytest.raises(ValueError, match=rf"\[{f.__name__}\].*" + message):
            f(subscripts, *x)


def test_no_operands():
    with pytest.raises(ValueError, match="an operand or more, got none"):
        mx.einsum("i")
    with pytest.raises(TypeError):
        mx.einsum(1, mx.ones((2,)))


@pytest.mark.parametrize(
    "subscripts, shapes",
    [
        ("ij,jk,kl,lm->im", [(2, 30), (30, 4), (4, 50), (50, 6)]),
        ("ij,jk,kl->il", [(3, 3), (3, 3), (3, 3)]),
        ("ea,fb,abcd,gc,hd->efgh", [(4, 5), (4, 5), (5, 5, 5, 5), (4, 5), (4, 5)]),
        ("ij,kl->ijkl", [(2, 3), (4, 5)]),
        ("ii", [(3, 3)]),
    ],
)
def test_path(subscripts, shapes):
    operands = [np.ones(s, np.float32) for s in shapes]
    path, text = mx.einsum_path(subscripts, *map(mx.array, operands))
    assert path == np.einsum_path(subscripts, *operands, optimize="greedy")[0][1:]
    assert f"Complete contraction:  {subscripts}\n" in text


def test_path_text():
    x = mx.ones((3, 3))
    assert mx.einsum_path("ij,jk,kl->il", x, x, x)[1] == (
        "  Complete contraction:  ij,jk,kl->il\n         Naive scaling:  4\n     Optimized scaling:  3\n"
        "      Naive FLOP count:  243\n  Optimized FLOP count:  108\n"
    )


def test_derivatives_and_vmap():
    a, b = (mx.array(RNG.standard_normal(s), dtype=mx.float64) for s in ((3, 4), (4, 5)))
    c = mx.array(RNG.standard_normal((3, 5)), dtype=mx.float64)
    da, db = mx.vjp(lambda a, b: mx.einsum("ij,jk->ik", a, b), [a, b], [c])[1]
    np.testing.assert_allclose(np.array(da), np.array(c) @ np.array(b).T, rtol=1e-9)
    np.testing.assert_allclose(np.array(db), np.array(a).T @ np.array(c), rtol=1e-9)
    square = mx.array(RNG.standard_normal((3, 3)), dtype=mx.float64)
    assert mx.grad(lambda x: mx.einsum("ii", x))(square).tolist() == np.eye(3).tolist()
    batch = mx.array(RNG.standard_normal((6, 3, 4)), dtype=mx.float64)
    got = mx.vmap(lambda x: mx.einsum("ij,kj->ik", x, a))(batch)
    np.testing.assert_allclose(np.array(got), np.array(batch) @ np.array(a).T, rtol=1e-9)


def test_contractions_are_matrix_products(tmp_path):
    """An outer product and a sum would take a hundred times as long, and the memory of the product."""
    a, b = mx.random.normal((1024, 1024)), mx.random.normal((1024, 1024))
    mx.eval(a, b)
    mx.reset_peak_memory()
    before = mx.get_peak_memory()
    mx.eval(mx.einsum("ij,jk,kl->il", a, b, a))
    assert mx.get_peak_memory() - before < 16 * a.nbytes


@pytest.mark.parametrize(
    "subscripts, shapes",
    [
        ("bhd,bd->bh", [(2, 1, 3), (2, 3)]),
        ("cb,b,cab->ab", [(2, 3), (3,), (2, 1, 3)]),
        (",bac,ca->ba", [(), (1, 2, 2), (2, 2)]),
        ("bhd,hd->bh", [(1, 2, 3), (2, 3)]),
        (",,dce,cdd->ec", [(), (), (1, 3, 1), (3, 1, 1)]),
    ],
)
def test_subscripts_of_size_one_stay(subscripts, shapes):
    arrays = [np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in shapes]
    got = mx.einsum(subscripts, *map(mx.array, arrays))
    want = np.einsum(subscripts, *arrays)
    assert got.shape == want.shape
    np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "subscripts, traced, called",
    [
        ("ij,ij->", [(5, 5), (5, 5)], [(5, 1), (1, 5)]),
        ("ijk,jk->i", [(3, 2, 1), (2, 1)], [(4, 4, 1), (1, 4)]),
        ("ijk,jkl->il", [(3, 2, 2), (2, 2, 3)], [(3, 1, 4), (4, 1, 3)]),
    ],
)
def test_any_shape_with_sizes_that_broadcast(subscripts, traced, called, tmp_path):
    f = mx.compile(lambda *x: mx.einsum(subscripts, *x), shapeless=True)
    f(*[mx.ones(shape) for shape in traced])
    x = [RNG.standard_normal(shape) for shape in called]
    want = mx.einsum(subscripts, *map(mx.array, x))
    assert mx.allclose(f(*map(mx.array, x)), want)
    path = str(tmp_path / "f.mlxfn")
    mx.export_function(path, lambda *x: mx.einsum(subscripts, *x), *[mx.ones(s) for s in traced], shapeless=True)
    with pytest.raises(ValueError, match="expected shape"):
        mx.eval(mx.import_function(path)(*map(mx.array, x)))


@pytest.mark.parametrize("n", [64, 65, 200])
def test_many_operands(n):
    """A chain of matrices, from the left and out of order, and a product of vectors: any number of operands."""
    rng = np.random.default_rng(n)
    matrices = [np.linalg.qr(rng.standard_normal((3, 3)))[0].astype(np.float32) for _ in range(n)]
    letters = "abcdefghij"
    terms = [letters[i % 10] + letters[(i + 1) % 10] for i in range(9)]
    want = np.linalg.multi_dot(matrices[:9])
    ones = ["" for _ in range(n - 9)]
    subscripts = ",".join(terms + ones) + "->aj"
    operands = [mx.array(m) for m in matrices[:9]] + [mx.array(1.0)] * (n - 10) + [mx.array(2.0)]
    np.testing.assert_allclose(np.array(mx.einsum(subscripts, *operands)), 2 * want, rtol=1e-5, atol=1e-6)
    vectors = 1 + 0.01 * rng.standard_normal((n, 4)).astype(np.float32)
    got = mx.einsum(",".join("a" * n) + "->a", *map(mx.array, vectors))
    np.testing.assert_allclose(np.array(got), vectors.astype(np.float64).prod(0), rtol=1e-4)
    path, _ = mx.einsum_path(",".join("a" * n) + "->a", *map(mx.array, vectors))
    assert len(path) == n - 1 and path[-1] == (0, 1)


def test_thousands_of_operands():
    """The next pair is found in a time that does not depend on how many are left."""
    n, ones = 20000, mx.array(np.full(3, 1 + 2.0**-12, np.float32))
    got = mx.einsum(",".join("a" * n) + "->a", *[ones] * n)
    np.testing.assert_allclose(np.array(got), (1 + 2.0**-12) ** n, rtol=1e-3)


def random_terms(rng):
    letters = rng.choice(list("abcdefg"), rng.integers(2, 7), replace=False)
    sizes = {c: int(rng.integers(1, 4)) for c in letters}
    terms = ["".join(rng.choice(letters, rng.integers(0, 4))) for _ in range(rng.integers(2, 9))]
    used = sorted(set("".join(terms)))
    output = "".join(rng.permutation(used)[: rng.integers(0, len(used) + 1)]) if used else ""
    return terms, sizes, output


@pytest.mark.parametrize("seed", range(60))
def test_random_operands(seed):
    """Indices that occur once, twice, often, twice in one operand; kept or not: which of them a pair may sum over."""
    rng = np.random.default_rng(seed)
    terms, sizes, output = random_terms(rng)
    operands = [rng.integers(-2, 3, [sizes[c] for c in t]).astype(np.float32) for t in terms]
    subscripts = ",".join(terms) + "->" + output
    want = np.einsum(subscripts, *[x.astype(np.float64) for x in operands])
    np.testing.assert_array_equal(np.array(mx.einsum(subscripts, *map(mx.array, operands))), want)
