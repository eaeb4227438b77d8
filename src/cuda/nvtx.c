/* nvtx.c: see nvtx.h.
 *
 * A tool that looks at a program names a library of its own in NVTX_INJECTION64_PATH.  That library asks for tables of
 * places, by module and number, and writes into them the functions that it wants to be called; it is handed a function
 * that gives those tables.  Programs that include NVTX's headers have them do this; we call two of the functions. */
#define _GNU_SOURCE /* secure_getenv */
#include "cuda/nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pool.h"
#include "core/settings.h"
#include "ops/op.h"

/* Numbers of the protocol; no module has more than PLACES functions, and their numbers begin at 1. */
enum { TABLES = 1, VERSION = 3 };
enum { CORE = 1, MODULES = 7 };
enum { RANGE_PUSH = 9, RANGE_POP = 11, PLACES = 16 };

typedef void function(void);
static function *wanted[MODULES][PLACES];
static function **places[MODULES][PLACES + 1];

static int give_places(int module, function ***table[], unsigned *n)
{
    if (module < CORE || module >= MODULES)
        return 0;
    if (table)
        *table = places[module];
    if (n)
        *n = PLACES;
    return 1;
}

static void tool_has_version(uint32_t version) { (void)version; }

static const void *give_table(uint32_t which)
{
    static const struct {
        size_t size;
        int (*places)(int module, function ***table[], unsigned *n);
    } tables = { sizeof tables, give_places };
    static const struct {
        size_t size;
        uint32_t version, reserved;
        void (*tool)(uint32_t version);
    } version = { sizeof version, 3, 0, tool_has_version };
    return which == TABLES ? (const void *)&tables : which == VERSION ? (const void *)&version : NULL;
}

static int (*push)(const char *name);
static int (*pop)(void);

static void open_tool(void)
{
    const char *path = secure_getenv("NVTX_INJECTION64_PATH");
    if (!setting_switch("MLX_NVTX", false) || !path)
        return;
    for (int m = 0; m < MODULES; m++)
        for (int i = 1; i < PLACES; i++) places[m][i] = &wanted[m][i];
    sigset_t before = signals_block();
    void *tool = dlopen(path, RTLD_LAZY);
    int (*initialize)(const void *(*)(uint32_t)) = NULL;
    if (tool)
        *(void **)&initialize = dlsym(tool, "InitializeInjectionNvtx2");
    bool ready = initialize && initialize(give_table);
    signals_restore(before);
    if (!ready || !wanted[CORE][RANGE_PUSH] || !wanted[CORE][RANGE_POP])
        return;
    push = (int (*)(const char *))wanted[CORE][RANGE_PUSH];
    pop = (int (*)(void))wanted[CORE][RANGE_POP];
}

int nvtx_begin(int n, struct entry *const m[])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_tool);
    if (!push)
        return 0;
    char name[512];
    size_t used = 0;
    for (int i = 0; i < n && used < sizeof name; i++)
        used += (size_t)snprintf(name + used, sizeof name - used, i ? ", %s" : "%s", op_called(m[i]->node));
    push(name);
    return 1;
}

void nvtx_end(void) { pop(); }
