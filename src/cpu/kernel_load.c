/* kernel_load.c: programs compiled by the system's compiler, and kept.
 *
 * What was compiled is kept in memory for good and in a folder of the user's own (core/kept.h), under all that it
 * depends on: compiler, flags, program.  Where there is no such folder a program is compiled in a temporary one and
 * kept in memory alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/kept.h"
#include "core/lock.h"
#include "cpu/cpu_kernel.h"
#include "run/stop.h"

struct program {
    struct program *next;
    const char *name; /* of the kernel; of the call that compiles it */
    char *key;        /* "compiler\nflags\ntext" */
    size_t size;      /* of the key */
    enum { COMPILING, LOADED, FAILED } state;
    int waiting;
    kernel_fn *run;
    char *message; /* FAILED */
};

LOCK(lock, LOCK_LEAF);
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct program *programs;

/* In a child nobody goes on compiling what its parent does: such programs are begun anew. */
static void forget_compiling(void)
{
    for (struct program **p = &programs; *p;)
        if ((*p)->state == COMPILING)
            *p = (*p)->next;
        else
            p = &(*p)->next;
    pthread_cond_init(&changed, NULL);
}
__attribute__((constructor)) static void survive_fork(void) { pthread_atfork(NULL, NULL, forget_compiling); }

/* ---- folders */

/* A new folder for one program, inside of `cache` or, where there is none, of that for temporary files. */
static bool work_folder(const char *cache, char *path, size_t size)
{
    const char *tmp = secure_getenv("TMPDIR");
    if (cache && snprintf(path, size, "%s/new-XXXXXX", cache) < (int)size && mkdtemp(path))
        return true;
    tmp = tmp && *tmp == '/' ? tmp : "/tmp";
    return snprintf(path, size, "%s/mlx-kernel-XXXXXX", tmp) < (int)size && mkdtemp(path);
}

/* ---- the compiler */

enum { WORDS = 64 };

/* The words of a text, which is cut into pieces, from words[n] on; the new n. */
static int split_words(char *text, char *words[], int n)
{
    char *rest;
    for (char *w = strtok_r(text, " \t\n", &rest); w && n < WORDS; w = strtok_r(NULL, " \t\n", &rest)) words[n++] = w;
    return n;
}

/* The compiler's command: CC, or cc. */
static const char *compiler(void)
{
    const char *cc = secure_getenv("CC");
    return cc && cc[strspn(cc, " \t\n")] ? cc : "cc";
}

/* Which program a command is, and of what state: another version is another compiler. */
static void identify(const char *command, char *out, size_t size)
{
    size_t n = strcspn(command += strspn(command, " \t\n"), " \t\n");
    const char *path = strcspn(command, "/") < n ? NULL : getenv("PATH");
    char file[PATH_MAX];
    struct stat s = { 0 };
    snprintf(file, sizeof file, "%.*s", (int)n, command);
    bool found = stat(file, &s) == 0;
    for (const char *end; path && *path; path = *end ? end + 1 : end) {
        end = strchrnul(path, ':');
        snprintf(file, sizeof file, "%.*s/%.*s", (int)(end - path), path, (int)n, command);
        if ((found = access(file, X_OK) == 0 && stat(file, &s) == 0))
            break;
    }
    snprintf(out, size, "%s: %s %lld %lld.%ld", command, found ? file : "", (long long)s.st_size,
             (long long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

/* Runs a command whose output goes to a file; its exit status, -1 after mx_fail. */
static int run_compiler(const char *name, char *const argv[], const char *log)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, defaults;
    pid_t child;
    int status = 0;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGCHLD); /* which the compiler waits for, whatever this program does */
    if (posix_spawn_file_actions_init(&files))
        return mx_fail_memory(sizeof files), -1;
    if (posix_spawnattr_init(&how)) {
        posix_spawn_file_actions_destroy(&files);
        return mx_fail_memory(sizeof how), -1;
    }
    int error = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    error = error ? error : posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    error = error ? error : posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawnattr_setsigmask(&how, &none); /* this may be a thread that has signals blocked */
    posix_spawnattr_setsigdefault(&how, &defaults);
    posix_spawnattr_setpgroup(&how, 0); /* one with what the compiler starts, so that all of it can be ended */
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    error = error ? error : posix_spawnp(&child, argv[0], &files, &how, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    if (error) {
        mx_fail_as(MX_RUNTIME, "[cpu_kernel] %s: cannot run the C compiler \"%s\": %s; install one, or name one in CC",
                   name, argv[0], strerror(error));
        return -1;
    }
    pid_t ended;
    int64_t asked = 0;
    while ((ended = waitpid(child, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (mx_interrupted(&asked)) {
            kill(-child, SIGKILL);
            while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
            return -1;
        }
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
    /* A program that reaps all children, or ignores them, has taken the status: the result tells as much. */
    return ended < 0 ? 0 : status;
}

/* Fails with what the compiler said, or some of it. */
static void refused(const char *name, const char *command, const char *log, int status)
{
    char said[3000] = "";
    FILE *f = fopen(log, "re");
    size_t n = f ? fread(said, 1, sizeof said - 1, f) : 0;
    if (f)
        fclose(f);
    while (n && said[n - 1] == '\n') n--;
    said[n] = 0;
    char how[64] = "";
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, ", ended by signal %d", WTERMSIG(status));
    mx_fail_as(MX_RUNTIME, "[cpu_kernel] %s: the compiler (%s) refused the kernel%s:\n%s", name, command, how,
               n ? said : "it said nothing");
}

/* Has the program compiled to `object`; false after mx_fail. */
static bool compile_text(const char *name, const char *text, const char *flags, const char *source, const char *object,
                         const char *log)
{
    static const char always[] =
        "-std=gnu17 -O3 -fPIC -shared -fvisibility=hidden -fno-math-errno -fno-trapping-math -fno-strict-aliasing "
        "-Werror=implicit-function-declaration -Werror=incompatible-pointer-types -Werror=int-conversion";
    FILE *f = fopen(source, "wxe");
    bool good = f && fputs(text, f) >= 0;
    if (f && fclose(f))
        good = false;
    if (!good)
        return mx_fail_as(MX_RUNTIME, "[cpu_kernel] %s: cannot write %s: %s", name, source, strerror(errno)), false;
    char *argv[WORDS + 8], *command = mx_strdup(compiler()), *usual = mx_strdup(always), *more = mx_strdup(flags);
    if (command && usual && more) {
        int n = split_words(more, argv, split_words(usual, argv, split_words(command, argv, 0)));
        const char *const rest[] = { "-o", object, source, "-lm", NULL };
        memcpy(argv + n, rest, sizeof rest);
        int status = run_compiler(name, argv, log);
        if (status > 0 || (status == 0 && access(object, R_OK)))
            refused(name, argv[0], log, status);
    }
    free(command);
    free(usual);
    free(more);
    return !mx_failed();
}

/* ---- loading */

static bool open_object(struct program *p, const char *path)
{
    char entry[512];
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    snprintf(entry, sizeof entry, KERNEL_ENTRY "%s", p->name);
    void *symbol = object ? dlsym(object, entry) : NULL;
    if (symbol)
        memcpy(&p->run, &symbol, sizeof p->run);
    return symbol;
}

static bool build(struct program *p, const char *text, const char *flags, bool verbose)
{
    char cache[PATH_MAX], work[PATH_MAX + 16], kept[PATH_MAX + 64], source[PATH_MAX + 64], object[PATH_MAX + 64],
        log[PATH_MAX + 64];
    struct kept_key key = { p->key, p->size };
    bool keep = kept_folder("cpu_kernels", cache, sizeof cache) && kept_path(cache, key, ".so", kept, sizeof kept);
    size_t n;
    uint8_t *whole = keep ? kept_read(kept, key, &n) : NULL;
    bool found = whole != NULL;
    free(whole);
    if (found && open_object(p, kept)) {
        if (verbose)
            printf("/* %s: loaded from %s */\n", p->name, kept);
        return true;
    }
    if (!work_folder(keep ? cache : NULL, work, sizeof work))
        return mx_fail_as(MX_RUNTIME, "[cpu_kernel] %s: cannot make a folder to compile in, %s: %s", p->name, work,
                          strerror(errno)),
               false;
    snprintf(source, sizeof source, "%s/kernel.c", work);
    snprintf(object, sizeof object, "%s/kernel.so", work);
    snprintf(log, sizeof log, "%s/log", work);
    if (compile_text(p->name, text, flags, source, object, log)) {
        keep = keep && kept_seal(object, key) && rename(object, kept) == 0;
        const char *path = keep ? kept : object;
        if (!open_object(p, path)) {
            const char *why = dlerror();
            mx_fail_as(MX_RUNTIME, "[cpu_kernel] %s: cannot load the compiled kernel: %s", p->name, why ? why : path);
        } else if (verbose) {
            printf("/* %s: compiled%s%s */\n", p->name, keep ? ", kept in " : "", keep ? kept : "");
        }
    }
    if (keep)
        kept_trim(cache);
    unlink(source);
    unlink(object);
    unlink(log);
    rmdir(work);
    return !mx_failed();
}

static void discard_program(struct program *p)
{
    free(p->key);
    free(p->message);
    free(p);
}

/* A program that nobody has asked for before; NULL after mx_fail. */
static struct program *program_new(const char *name, const char *key, size_t size)
{
    struct program *p = mx_malloc(sizeof *p);
    if (!p)
        return NULL;
    *p = (struct program){ .name = name, .key = mx_malloc(size), .size = size };
    if (!p->key) {
        free(p);
        return NULL;
    }
    memcpy(p->key, key, size);
    return p;
}

static struct program *find_program(const char *key, size_t size)
{
    for (struct program *p = programs; p; p = p->next)
        if (p->size == size && !memcmp(p->key, key, size))
            return p;
    return NULL;
}

/* Under the lock, which is let go of meanwhile: one that another thread compiles. */
static kernel_fn *wait_for_program(struct program *p)
{
    int64_t asked = 0;
    bool stopped = false;
    p->waiting++;
    while (p->state == COMPILING && !stopped) stopped = mx_wait_interruptible(&changed, &lock.mutex, &asked);
    p->waiting--;
    kernel_fn *run = stopped ? NULL : p->run;
    if (p->state == FAILED) {
        mx_fail_as(MX_RUNTIME, "%s", p->message ? p->message : "[cpu_kernel] cannot compile the kernel");
        if (!p->waiting)
            discard_program(p);
    }
    return run;
}

/* Under the lock, as before: one that no thread compiles.  What failed is forgotten, for the next time may
 * end otherwise. */
static kernel_fn *program_made(struct program *p, const char *text, const char *flags, bool verbose)
{
    p->next = programs;
    programs = p;
    lock_give(&lock);
    bool good = build(p, text, flags, verbose);
    lock_take(&lock);
    kernel_fn *run = p->run;
    p->state = good ? LOADED : FAILED;
    p->name = NULL;
    if (!good) {
        struct program **at = &programs;
        while (*at != p) at = &(*at)->next;
        *at = p->next;
        if (mx_error_kind() != MX_INTERRUPTED)
            p->message = mx_try_strdup(mx_error_message());
        run = NULL;
        if (!p->waiting)
            discard_program(p);
    }
    pthread_cond_broadcast(&changed);
    return run;
}

kernel_fn *kernel_load(const char *name, const char *text, const char *flags, bool verbose)
{
    char who[2 * PATH_MAX];
    identify(compiler(), who, sizeof who);
    size_t size = strlen(who) + strlen(flags) + strlen(text) + 3;
    char *key = mx_malloc(size);
    if (!key)
        return NULL;
    snprintf(key, size, "%s\n%s\n%s", who, flags, text);
    lock_take(&lock);
    struct program *p = find_program(key, size);
    kernel_fn *run = NULL;
    if (p && p->state == COMPILING)
        run = wait_for_program(p);
    else if (p)
        run = p->run;
    else if ((p = program_new(name, key, size)))
        run = program_made(p, text, flags, verbose);
    lock_give(&lock);
    free(key);
    return run;
}
