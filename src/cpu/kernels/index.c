/* index.c: the table of index kernels of this level. */
#include "cpu/kernels/index.h"
#include "cpu/kernels/level.h"

/* ---- indices, by their type T and whether it has a sign */

TEMPLATE int64_t from_start(int64_t v, int64_t size) { return v + (v < 0 ? size : 0); }

#define INDEX(suffix, T, signed_)                                                                                \
    TEMPLATE int64_t sum_##suffix(int64_t *far, const T *p, int64_t step, int64_t n, int64_t size, int64_t room,  \
                                  int64_t stride)                                                                \
    {                                                                                                            \
        int64_t bad = 0;                                                                                         \
        IVDEP                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                        \
            int64_t v = from_start((int64_t)p[i * step], signed_ ? size : 0);                                    \
            bad |= (v < 0) | (v > room);                                                                         \
            far[i] += (int64_t)((uint64_t)v * (uint64_t)stride); /* wraps where it means nothing */              \
        }                                                                                                        \
        return bad;                                                                                              \
    }                                                                                                            \
    static bool offsets_##suffix(int64_t *far, const void *index, int64_t step, int64_t n, int64_t size,         \
                                 int64_t room, int64_t stride)                                                   \
    {                                                                                                            \
        const T *p = index;                                                                                      \
        return !(step == 1 && stride == 1 ? sum_##suffix(far, p, 1, n, size, room, 1)                            \
                 : step == 1              ? sum_##suffix(far, p, 1, n, size, room, stride)                       \
                                          : sum_##suffix(far, p, step, n, size, room, stride));                  \
    }                                                                                                            \
    TEMPLATE bool extremes_##suffix(const T *p, int64_t step, int64_t n, int64_t size)                           \
    {                                                                                                            \
        T low = *p, high = *p;                                                                                   \
        for (int64_t i = 1; i < n; i++) {                                                                        \
            T v = p[i * step];                                                                                   \
            low = v < low ? v : low;                                                                             \
            high = v > high ? v : high;                                                                          \
        }                                                                                                        \
        return signed_ ? (int64_t)low >= -size && (int64_t)high < size : (uint64_t)high < (uint64_t)size;        \
    }                                                                                                            \
    /* Where slices are of one element the extremes tell. */                                                     \
    static bool check_##suffix(const void *index, int64_t step, int64_t n, int64_t size, int64_t room)           \
    {                                                                                                            \
        const T *p = index;                                                                                      \
        if (room == size - 1)                                                                                    \
            return step == 1 ? extremes_##suffix(p, 1, n, size) : extremes_##suffix(p, step, n, size);           \
        int64_t bad = 0;                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                        \
            int64_t v = from_start((int64_t)p[i * step], signed_ ? size : 0);                                    \
            bad |= (v < 0) | (v > room);                                                                         \
        }                                                                                                        \
        return !bad;                                                                                             \
    }

INDEX(u8, uint8_t, 0)
INDEX(u16, uint16_t, 0)
INDEX(u32, uint32_t, 0)
INDEX(u64, uint64_t, 0)
INDEX(i8, int8_t, 1)
INDEX(i16, int16_t, 1)
INDEX(i32, int32_t, 1)
INDEX(i64, int64_t, 1)

/* ---- elements, by their width E */

#define PICK(E)                                                                              \
    static void pick_##E(void *vy, int64_t sy, const void *vx, const int64_t *far, int64_t n) \
    {                                                                                        \
        E *y = vy;                                                                           \
        const E *x = vx;                                                                     \
        if (sy == 1) {                                                                       \
            IVDEP                                                                            \
            for (int64_t i = 0; i < n; i++)                                                  \
                y[i] = x[far[i]];                                                            \
        } else {                                                                             \
            for (int64_t i = 0; i < n; i++)                                                  \
                y[i * sy] = x[far[i]];                                                       \
        }                                                                                    \
    }
PICK(uint8_t)
PICK(uint16_t)
PICK(uint32_t)
PICK(uint64_t)

/* ---- both at once
 *
 * A block of indices is looked through while it comes into cache.  Where none is negative they are
 * used as they are, which is as fast as if nothing had been checked. */

enum { BLOCK = 1024 };

#define TAKE(suffix, T, signed_, E)                                                                           \
    TEMPLATE void take_block_##suffix##_##E(E *y, const E *x, int64_t stride, const T *p, int64_t n,          \
                                            int64_t size)                                                     \
    {                                                                                                         \
        IVDEP                                                                                                 \
        for (int64_t i = 0; i < n; i++)                                                                       \
            y[i] = x[from_start((int64_t)p[i], size) * stride];                                               \
    }                                                                                                         \
    static bool take_##suffix##_##E(void *vy, const void *x, int64_t stride, const void *vp, int64_t n, int64_t size) \
    {                                                                                                         \
        E *y = vy;                                                                                            \
        const T *p = vp;                                                                                      \
        for (int64_t m; n > 0; n -= m, p += m, y += m) {                                                      \
            m = n < BLOCK ? n : BLOCK;                                                                        \
            T low = *p, high = *p;                                                                            \
            for (int64_t i = 1; i < m; i++) {                                                                 \
                low = p[i] < low ? p[i] : low;                                                                \
                high = p[i] > high ? p[i] : high;                                                             \
            }                                                                                                 \
            int64_t least = (int64_t)low, most = (int64_t)high;                                               \
            if (least < -size || most >= size)                                                                \
                return false;                                                                                 \
            if (signed_ && least < 0)                                                                         \
                take_block_##suffix##_##E(y, x, stride, p, m, size);                                          \
            else if (stride == 1)                                                                             \
                take_block_##suffix##_##E(y, x, 1, p, m, 0);                                                  \
            else                                                                                              \
                take_block_##suffix##_##E(y, x, stride, p, m, 0);                                             \
        }                                                                                                     \
        return true;                                                                                          \
    }
#define TAKES(suffix, T, signed_)                                    \
    TAKE(suffix, T, signed_, uint8_t) TAKE(suffix, T, signed_, uint16_t) \
    TAKE(suffix, T, signed_, uint32_t) TAKE(suffix, T, signed_, uint64_t)
TAKES(i32, int32_t, 1)
TAKES(i64, int64_t, 1)
TAKES(u32, uint32_t, 0)

#define BY_TYPE(f) { [DT_uint8] = f##_u8, [DT_uint16] = f##_u16, [DT_uint32] = f##_u32, [DT_uint64] = f##_u64, \
                     [DT_int8] = f##_i8, [DT_int16] = f##_i16, [DT_int32] = f##_i32, [DT_int64] = f##_i64 }
#define BY_WIDTH(f) { f##_uint8_t, f##_uint16_t, f##_uint32_t, f##_uint64_t }

extern const struct index_kernels LEVEL(index_kernels);
const struct index_kernels LEVEL(index_kernels) = {
    .offsets = BY_TYPE(offsets),
    .check = BY_TYPE(check),
    .pick = BY_WIDTH(pick),
    .take = { [DT_int32] = BY_WIDTH(take_i32), [DT_int64] = BY_WIDTH(take_i64), [DT_uint32] = BY_WIDTH(take_u32) },
};
