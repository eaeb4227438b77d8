/* note.h: what kernels note of the first index out of range, in memory of the device, for the host to find when the
 * work ends (cuda/note.c). */
#ifndef MX_CUDA_KERNELS_NOTE_H
#define MX_CUDA_KERNELS_NOTE_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

enum { NOTE_INDICES = 8, NOTE_DIMS = 64, NOTE_GIVEN = 4, NOTE_WORDS = 3, NOTE_BITS = 24, NOTE_VALUES = 2 };

/* Of what: an axis, at a place of a grid; the corner of a slice; a matrix; the beginning of a segment, and its end;
 * or of a matrix of a batch, that it cannot be factored. */
enum note_kind { NOTE_PLACE, NOTE_CORNER, NOTE_MATRIX, NOTE_SEGMENT, NOTE_FACTOR };

/* What the host says of it, which kernels only hand on. */
struct note_about {
    const char *op;
    int32_t use;                    /* enum outside_use, factor_fault */
    int32_t kind;                   /* enum note_kind */
    int64_t count;                  /* places of each index array */
    uint64_t shown;                 /* the dimensions of the arrays that are not 1, as bits */
    int32_t ndim, shape[NOTE_DIMS]; /* in which places are numbered; without dimensions they are numbers */
    struct {
        int64_t each; /* elements of the array to one that is shown; 0: it is told as it is */
        int32_t ndim, shape[NOTE_GIVEN];
    } given; /* the shape that the program gave the array of indices, in which a place is told */
    struct {
        int32_t axis, huge; /* huge: a value is a uint64 */
        int64_t size, room;
    } index[NOTE_INDICES];
};

struct note {
    uint64_t launch; /* whose it is; 0: nobody's */
    /* A place, and below it NOTE_BITS of the index, the lowest in the first word. */
    uint64_t first[NOTE_VALUES * NOTE_WORDS];
    struct note_about about;
};

/* What a kernel is given: its number, in the order of the stream. */
struct noting {
    struct note *note; /* NULL: nobody wants to know */
    uint64_t *heard;   /* in the host's memory: the launch, too, so that nobody need look elsewhere */
    uint64_t launch;
    struct note_about about;
};

#if defined __CUDACC__ || defined TESTS_EMULATOR_H
/* An index out of range at a place.  Of several of one launch that with the least place stays, whoever comes first: a
 * place has one index, so each word ends with the bits of that.  Once there is a note, later launches leave it. */
FN_APART void note_two(const struct noting *t, uint64_t place, uint64_t index, uint64_t end)
{
    struct note *n = t->note;
    if (!n || (n->launch && n->launch != t->launch) || n->first[0] >> NOTE_BITS < place)
        return;
    n->launch = *t->heard = t->launch;
    n->about = t->about;
    for (int i = 0; i < NOTE_VALUES * NOTE_WORDS; i++) {
        uint64_t v = (i < NOTE_WORDS ? index : end) >> i % NOTE_WORDS * NOTE_BITS;
        ATOMIC_MIN(&n->first[i], place << NOTE_BITS | (v & ((1u << NOTE_BITS) - 1)));
    }
}
FN void note_outside(const struct noting *t, uint64_t place, uint64_t index) { note_two(t, place, index, 0); }
#endif

#endif
