/* worth.h: how much work is worth a thread, and from where on another way is taken.
 *
 * A piece is worth a thread where it takes longer than handing it over does: half a microsecond to a thread that still
 * looks for work, some microseconds to one that sleeps.  `bench/bench_threads.py` measures these numbers: what a unit
 * takes on one thread, and what 2 to 64 pieces gain from all threads.  They do not depend on how many there are: what
 * is too small for two is too small for 64, and large work has pieces for all.  What results depend on, the lengths of
 * sums that are added up for themselves, stands with the kernels and follows from shapes alone. */
#ifndef MX_CPU_WORTH_H
#define MX_CPU_WORTH_H

enum {
    WORTH_MOVED = 1 << 14,        /* elements moved, cast, looked up or added */
    WORTH_COPIED = 1 << 16,       /* bytes moved in long runs */
    WORTH_COMPUTED = 1 << 12,     /* elements of exp, sin, ... */
    WORTH_FOLDED = 1 << 14,       /* elements summed up, */
    WORTH_SCANNED = 1 << 14,      /* or summed up to each, */
    WORTH_NORMED = 1 << 14,       /* or of rows that are scaled by their sums */
    WORTH_SORTED = 1 << 13,       /* elements of rows */
    WORTH_SEARCHED = 1 << 10,     /* elements that are looked for in a sorted row */
    WORTH_DRAWN = 1 << 13,        /* pairs of words of random bits */
    WORTH_MULTIPLIED = 1 << 15,   /* products that are added up, of matrices */
    WORTH_FACTORED = 1 << 15,     /* the same of small factorizations, one by one, */
    WORTH_SIDE_BY_SIDE = 1 << 14, /* and of those that are computed a lane each */
    WORTH_TURNED = 1 << 12,       /* complex numbers times roots of unity */
};

/* Ways. */
enum {
    SMALL_PRODUCT = 1 << 23, /* products, up to which operands are read where they lie, in L1 and L2; */
    SMALL_FOR_ALL = 1 << 26, /* by several threads, which would meet while they pack, so many of floats, */
    SMALL_RIGHT = 640 << 10, /* with as many bytes of B, which each thread reads */
    FEW_UNPACKED = 24,       /* rows that are multiplied with packed weights as these are read, */
    FEW_ACROSS = 8,          /* and with those that are not transposed */
    FEW_QUERIES = 8,         /* of one head of keys, which read K and V where they lie */
    PACK_FOR_SELF = 4,       /* threads that each pack what it multiplies; fewer pack it for all */
    FEW_COLUMNS = 16,        /* kept beside each other, below which several axes are folded as copied rows */
    LONG_ROW = 1 << 17,      /* elements of a row that several threads sort together */
};

#endif
