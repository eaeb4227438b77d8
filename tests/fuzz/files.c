/* npy, npz, safetensors and gguf files that are cut off, changed and put together wrongly: an error each,
 * or arrays that can be evaluated; never a crash.
 *
 * Every input goes to all four readers.  As a test this replays tests/golden and tests/fuzz/seeds and changes
 * the latter in a fixed way.  With arguments, `files SECONDS [FILE...]`, it goes on for that long, from a
 * seed it prints.
 *
 * Built with -DLIBFUZZER it is a target of that fuzzer, for which the readers alone need to be instrumented:
 *     clang -g -O1 -std=gnu17 -fsanitize=fuzzer,address,undefined -DLIBFUZZER -Dyyjson_api= -Isrc -Iinclude \
 *         -Ithird_party/yyjson tests/fuzz/files.c src/io/{npy,npz,safetensors,gguf,ggml,source,file}.c \
 *         src/{ops,cpu}/load.c third_party/yyjson/yyjson.c build/release/lib/libmlx.a \
 *         build/release/lib/libscipy_openblas.so -lz -lpthread -ldl -lm
 *     ./a.out -dict=tests/fuzz/files.dict corpus tests/fuzz/seeds */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "io/gguf.h"
#include "io/io.h"
#include "transform/eval.h"

enum { MOST = 1 << 22 }; /* bytes of arrays that are worth evaluating */

static long loaded, evaluated, executions;

static int64_t bytes_of(const struct archive *a)
{
    int64_t n = 0;
    for (int i = 0; i < a->n && n < MOST; i++) {
        int64_t more = nbytes(a->arrays[i].array.it);
        n += more < MOST ? more : MOST;
    }
    return n;
}

static void evaluate(const struct archive *a)
{
    loaded++;
    if (bytes_of(a) >= MOST)
        return;
    evaluated++;
    for (int i = 0; i < a->n; i++)
        if (mx_wait_host(a->arrays[i].array.it))
            mx_error_clear();
}

static bool eager; /* what is read at once must be small too: sources do not lie, but arrays may overlap */

static void all_readers(struct source *s)
{
    for (int way = 0; way < 5; way++) {
        MX_SCOPE(NULL);
        struct archive a = { 0 };
        struct gguf g = { 0 };
        int failed = 0;
        switch (way) {
        case 0: failed = npz_load(s, &a); break;
        case 1: failed = safetensors_load(s, &a); break;
        case 2: failed = gguf_load(s, false, &g); break;
        case 3: failed = gguf_load(s, true, &g); break;
        default: failed = archive_add(&a, "", npy_load(s));
        }
        if (failed != mx_failed())
            abort(); /* a failure says why */
        mx_error_clear();
        if (!failed)
            evaluate(way == 2 || way == 3 ? &g.tensors : &a);
        archive_free(&a);
        gguf_free(&g);
    }
}

static void kept(struct object *o) { (void)o; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    long live = array_live_count();
    /* A block of its own, so that reading past its end is noticed. */
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, data, n);
    struct source s = { .object = { 1, kept }, .label = "fuzz", .size = n, .bytes = copy, .eager = eager };
    all_readers(&s);
    if (atomic_load(&s.object.refs) != 1 || array_live_count() != live)
        abort();
    free(copy);
    executions++;
    return 0;
}

#ifndef LIBFUZZER

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

enum { SEEDS = 64, ROOM = 1 << 16 };
static struct { uint8_t *bytes; size_t n; } seeds[SEEDS];
static int n_seeds;

static void add_seed(const char *path)
{
    if (n_seeds == SEEDS)
        return;
    seeds[n_seeds].bytes = file_bytes(path, &seeds[n_seeds].n);
    n_seeds++;
}

/* Runs every file of the folder; returns how many. */
static int replay(const char *folder, bool as_seeds)
{
    char path[512];
    int n = 0;
    DIR *d = opendir(folder);
    if (!d)
        exit((perror(folder), 2));
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.' || strstr(e->d_name, ".py"))
            continue;
        size_t size;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        uint8_t *bytes = file_bytes(path, &size);
        for (int k = 0; k < 2; k++) {
            eager = k;
            LLVMFuzzerTestOneInput(bytes, size);
        }
        free(bytes);
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

static char words[64][80];
static int word_size[64], n_words;

static void read_words(const char *path)
{
    char line[256];
    FILE *f = fopen(path, "r");
    if (!f)
        exit((perror(path), 2));
    while (n_words < 64 && fgets(line, sizeof line, f)) {
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
    static const uint64_t odd[] = { 0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
                                    0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff };
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
    eager = draw(2);
    LLVMFuzzerTestOneInput(last, last_size);
}

/* Cut off at, and changed in, every byte. */
static void every_byte(int i)
{
    static const uint8_t other[] = { 0xff, 0x80, 0 };
    size_t n = seeds[i].n < 600 ? seeds[i].n : 600;
    for (size_t at = 0; at < n; at++) {
        LLVMFuzzerTestOneInput(seeds[i].bytes, at);
        memcpy(last, seeds[i].bytes, seeds[i].n);
        for (size_t k = 0; k < sizeof other; k++) {
            last[at] = other[k];
            LLVMFuzzerTestOneInput(last, seeds[i].n);
        }
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
    last = malloc(ROOM);
    read_words("tests/fuzz/files.dict");
    int files = replay("tests/golden", false) + replay("tests/fuzz/seeds", true);
    for (int i = 2; i < argc; i++) add_seed(argv[i]);
    for (int i = 0; i < n_seeds; i++) every_byte(i);
    if (seconds > 0) {
        signal(SIGABRT, keep_crash);
        signal(SIGSEGV, keep_crash);
        state = (uint64_t)time(NULL) * 6364136223846793005u + (uint64_t)getpid();
        printf("seed %llu\n", (unsigned long long)state);
    }
    time_t end = time(NULL) + (time_t)seconds;
    for (long k = 0; seconds > 0 ? time(NULL) < end : k < 20000; k++) changed((int)draw((uint32_t)n_seeds));
    printf("%d files and %ld changed ones: %ld were read, %ld evaluated\n", files, executions - 2 * files,
           loaded, evaluated);
    for (int i = 0; i < n_seeds; i++) free(seeds[i].bytes);
    free(last);
    return 0;
}

#endif
