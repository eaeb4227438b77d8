/* bf16.c: the instructions that products of bfloat16 are made of, and whether tiles work here.
 *
 * A process must ask Linux for the tile registers, and a virtual machine may say that it has them where it has not: the
 * first instruction then ends the program.  So a child tries them, on a product whose result is known. */
#define _GNU_SOURCE
#include "cpu/bf16.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/kernels.h"

enum tiles { UNTRIED, WORK, DO_NOT };

static enum bf16_products allowed;
static bool have_pairs;
static atomic_int tiles;

void bf16_begin(enum bf16_products most, bool pairs)
{
    allowed = most;
    have_pairs = pairs;
    atomic_store(&tiles, UNTRIED);
}

void bf16_trust_tiles(void)
{
    allowed = BF16_TILES;
    atomic_store(&tiles, WORK);
}

/* The level in use may be a lower one, in tests. */
static bool has(enum gemm_type t) { return cpu->gemm->type[t].tile != NULL; }

static bool may_use_tiles(void)
{
#ifdef __x86_64__
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    return false;
#endif
}

/* Small integers, whose products and sums are exact in any order. */
static bool multiply_right(void)
{
    enum { M = 32, N = 32, K = 64 };
    static uint16_t a[M * K], b[K * N];
    static uint32_t pa[M * K / 2], pb[K * N / 2];
    static float c[M * N];
    static const uint16_t number[] = { 0, 0x3f80, 0x4000, 0x4040, 0xbf80, 0xc000, 0xc040 }; /* 0 to 3, -1 to -3 */
    static const int value[] = { 0, 1, 2, 3, -1, -2, -3 };
    const struct gemm_kernel *g = &cpu->gemm->type[GEMM_tiles];
    for (int i = 0; i < M * K; i++) a[i] = number[i * 5 % 11 % 7];
    for (int i = 0; i < K * N; i++) b[i] = number[i * 3 % 13 % 7];
    g->pack_a(pa, M * K / 2, g->mr, a, K, 1, M, K);
    g->pack(pb, K * N / 2, g->nr, b, 1, N, N, K);
    for (int twice = 0; twice < 2; twice++) g->tile(c, N, pa, M * K / 2, pb, K * N / 2, M, N, K / 2, twice);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            int sum = 0;
            for (int k = 0; k < K; k++) sum += value[(i * K + k) * 5 % 11 % 7] * value[(k * N + j) * 3 % 13 % 7];
            if (c[i * N + j] != (float)(2 * sum))
                return false;
        }
    return true;
}

/* The child shares nothing, tells nobody of its end but who waits for it, and dies quietly. */
static bool child_succeeds(void)
{
    static const int fatal[] = { SIGILL, SIGSEGV, SIGBUS, SIGFPE };
    int status = 0;
    pid_t child = (pid_t)syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
    if (child == 0) {
        prctl(PR_SET_DUMPABLE, 0);
        for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) signal(fatal[i], SIG_DFL);
        _exit(multiply_right() ? 0 : 1);
    }
    if (child < 0)
        return false;
    while (waitpid(child, &status, __WALL) != child)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool tiles_work(void) { return has(GEMM_tiles) && may_use_tiles() && child_succeeds(); }

enum gemm_type bf16_gemm(void)
{
    if (allowed == BF16_TILES) {
        if (atomic_load(&tiles) == UNTRIED) /* two threads may both try */
            atomic_store(&tiles, tiles_work() ? WORK : DO_NOT);
        if (atomic_load(&tiles) == WORK && has(GEMM_tiles))
            return GEMM_tiles;
    }
    return have_pairs && allowed != BF16_WIDENED && has(GEMM_pairs) ? GEMM_pairs : GEMM_f32;
}
