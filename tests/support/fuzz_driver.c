/* fuzz_driver.c: the main function of the targets of tests/fuzz where libFuzzer is not there.
 *
 * As a test it runs the files of tests/golden and the seeds of its format in every way, the latter also cut
 * off at each byte, with each byte changed, and changed in a fixed way some thousand times.  With arguments,
 * `target SECONDS [FILE...]`, it goes on changing for that long, from a seed it prints. */
#include <dirent.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "support/fuzz.h"

static long executions;

static void run(const uint8_t *data, size_t n, int way)
{
    /* A block of its own, so that reading past its end is noticed. */
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, data, n);
    fuzz_way = way;
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    executions++;
}

static uint8_t *file_bytes(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        exit((perror(path), 2));
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*n + 1);
    if (!bytes || fread(bytes, 1, *n, f) != *n)
        exit((perror(path), 2));
    fclose(f);
    return bytes;
}

enum { SEEDS = 64, ROOM = 1 << 16, WAYS = 8 };
static struct {
    uint8_t *bytes;
    size_t n;
} seeds[SEEDS];
static int n_seeds;

static void add_seed(const char *path)
{
    if (n_seeds == SEEDS)
        return;
    seeds[n_seeds].bytes = file_bytes(path, &seeds[n_seeds].n);
    n_seeds++;
}

static bool is_of_format(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && !strcmp(dot + 1, fuzz_format);
}

/* Runs every file of the folder, or of those that are seeds the ones of the format, which must be good. */
static int replay(const char *folder, bool as_seeds)
{
    char path[512];
    int n = 0;
    DIR *d = opendir(folder);
    if (!d)
        exit((perror(folder), 2));
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.' || (as_seeds && !is_of_format(e->d_name)))
            continue;
        size_t size;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        uint8_t *bytes = file_bytes(path, &size);
        long loaded = fuzz_loaded, evaluated = fuzz_evaluated;
        for (int way = 0; way < WAYS; way++) run(bytes, size, way);
        free(bytes);
        if (as_seeds && (fuzz_loaded != loaded + WAYS || fuzz_evaluated < evaluated + WAYS)) {
            fprintf(stderr, "%s is not a file that can be read and evaluated\n", path);
            exit(1);
        }
        if (as_seeds)
            add_seed(path);
        n++;
    }
    closedir(d);
    return n;
}

/* ---- changes */

static uint64_t state = 88172645463325252u;

static uint32_t draw(uint32_t n) /* xorshift64 */
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % n;
}

enum { WORDS = 256 };
static char words[WORDS][80];
static int word_size[WORDS], n_words;

static void read_words(const char *path)
{
    char line[256];
    FILE *f = fopen(path, "r");
    if (!f)
        exit((perror(path), 2));
    while (n_words < WORDS && fgets(line, sizeof line, f)) {
        if (line[0] != '"')
            continue;
        int n = 0;
        for (char *p = line + 1; *p && *p != '"' && n < 80; p++) {
            unsigned v;
            if (*p == '\\' && p[1] == 'x' && sscanf(p + 2, "%2x", &v) == 1) {
                words[n_words][n++] = (char)v;
                p += 3;
            } else {
                words[n_words][n++] = *p == '\\' ? *++p : *p;
            }
        }
        word_size[n_words++] = n;
    }
    fclose(f);
}

/* One change to the n bytes of a buffer of ROOM; how many there are then. */
static size_t change(uint8_t *v, size_t n)
{
    /* clang-format off */
    static const uint64_t odd[] = { 0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
                                    0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff };
    /* clang-format on */
    if (n == 0)
        return n;
    size_t at = draw((uint32_t)n), size = 1 + draw(16), from;
    uint64_t x = odd[draw(sizeof odd / sizeof *odd)];
    switch (draw(8)) {
    case 0: v[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: v[at] = (uint8_t)draw(256); break;
    case 2: v[at] = (uint8_t)(v[at] + draw(9) - 4); break;
    case 3: /* a number */
        size = (size_t)1 << draw(4);
        memcpy(v + at, &x, size < n - at ? size : n - at);
        break;
    case 4: /* a word, over what is there or before it */
        from = draw((uint32_t)n_words);
        size = (size_t)word_size[from];
        if (draw(2) && n + size <= ROOM) {
            memmove(v + at + size, v + at, n - at);
            n += size;
        }
        memcpy(v + at, words[from], size < n - at ? size : n - at);
        break;
    case 5: /* taken out */
        size = size < n - at ? size : n - at;
        memmove(v + at, v + at + size, n - at - size);
        n -= size;
        break;
    case 6: /* said twice */
        from = draw((uint32_t)n);
        size = draw(64) + 1;
        size = size < n - from ? size : n - from;
        size = size < n - at ? size : n - at;
        memmove(v + at, v + from, size);
        break;
    default:
        if (draw(8) == 0)
            n = at; /* cut off */
    }
    return n;
}

static uint8_t *last; /* the input that is being run, for who finds a crash */
static size_t last_size;

static void changed(int i)
{
    last_size = seeds[i].n < ROOM ? seeds[i].n : ROOM;
    memcpy(last, seeds[i].bytes, last_size);
    for (int k = 1 + (int)draw(6); k > 0; k--) last_size = change(last, last_size);
    run(last, last_size, (int)draw(WAYS));
}

/* Cut off at, and changed in, every byte. */
static void every_byte(int i)
{
    static const uint8_t other[] = { 0xff, 0x80, 1, 0x7f };
    enum { MOST = 2000 };
    size_t n = seeds[i].n < MOST ? seeds[i].n : MOST;
    memcpy(last, seeds[i].bytes, last_size = seeds[i].n);
    for (size_t at = 0; at < n; at++) {
        run(seeds[i].bytes, at, -1);
        for (size_t k = 0; k < sizeof other; k++) {
            last[at] = seeds[i].bytes[at] ^ other[k];
            run(last, last_size, (int)(at + k) % WAYS);
        }
        last[at] = seeds[i].bytes[at];
    }
}

static void keep_crash(int signal)
{
    (void)signal;
    FILE *f = fopen("crash.bin", "wb");
    if (f)
        fwrite(last, 1, last_size, f);
    fputs("the input is in crash.bin\n", stderr);
    _exit(3);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    char path[64];
    last = malloc(ROOM);
    snprintf(path, sizeof path, "tests/fuzz/%s.dict", fuzz_format);
    read_words(path);
    int files = replay("tests/golden", false) + replay("tests/fuzz/seeds", true);
    if (n_seeds == 0)
        return fprintf(stderr, "no seeds of format %s\n", fuzz_format), 1;
    for (int i = 2; i < argc; i++) add_seed(argv[i]);
    if (seconds > 0) {
        signal(SIGABRT, keep_crash);
        signal(SIGSEGV, keep_crash);
        state = (uint64_t)time(NULL) * 6364136223846793005u + (uint64_t)getpid();
        printf("seed %llu\n", (unsigned long long)state);
    } else {
        for (int i = 0; i < n_seeds; i++) every_byte(i);
    }
    time_t end = time(NULL) + (time_t)seconds;
    for (long k = 0; seconds > 0 ? k % 64 || time(NULL) < end : k < 20000; k++) changed((int)draw((uint32_t)n_seeds));
    printf("%s: %d files, %ld executions: %ld were read, %ld evaluated\n", fuzz_format, files, executions, fuzz_loaded,
           fuzz_evaluated);
    for (int i = 0; i < n_seeds; i++) free(seeds[i].bytes);
    free(last);
    return 0;
}
