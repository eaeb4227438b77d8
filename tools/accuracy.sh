#!/usr/bin/env bash
# Writes docs/accuracy.md anew: some minutes on an idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --build build/release --target accuracy
table=$(build/release/tests/accuracy)
{
    cat <<'TEXT'
# Accuracy

The largest errors seen, in units in the last place of the true result, which `long double` gives.
`make accuracy` makes this table (tests/accuracy/accuracy.c): functions of one operand over every
float16 and bfloat16 number and over 10^8 float32 numbers spread evenly over all bit patterns (`erfinv`,
whose reference is an iteration: 10^6); functions of two over 10^6 pairs of half types and 10^7 of
float32, of every magnitude and of ordinary size by turns. Half types are computed in float32 and
rounded once, hence 0.5; on a GPU some have shorter formulas, by which less than one result in a
thousand is the other neighbour of the true one ([cuda.md](cuda.md#how-it-works)). The kernels are those
of the best instruction set of the machine that made it; tests hold every instruction set to bounds
(tests/property/elementwise_accuracy.c).

`logaddexp` has no bound relative to its result where its two terms cancel, near 0: there the error is
that of the terms, at most 2 units of the larger operand. `sigmoid` adds up the errors of an exponential,
a sum and a quotient. All other functions are within 2 units for float32; `power`, for which bases near 1 with large
exponents are the hard ones, is within 1.2 there, and gives whole powers of whole numbers exactly where those are
float32 (tests/python/test_powers.py).

TEXT
    echo "$table"
} >docs/accuracy.md
