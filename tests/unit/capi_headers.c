/* Every public header compiles alone and without warnings, as C11, C17 and C++, and mlx.h includes
 * all of them.  C++ is left out where there is no compiler for it. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/heard.h"

static bool runs(const char *command) { return system(command) == 0; }

/* For Python modules only: it needs Python.h, and tests/python/test_extension.py compiles it. */
static bool for_python(const char *header) { return strcmp(header, "mlx/c/python.h") == 0; }

static bool compiles(const char *header, const char *compiler)
{
    char command[1024];
    snprintf(command, sizeof command,
             "printf '#include \"%s\"\\nextern int here;\\n' | "
             "%s -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only -",
             header, compiler);
    return runs(command);
}

static void alone(void **state)
{
    (void)state;
    static const char *const compilers[] = {
        "${CC:-cc} -xc -std=c11", "${CC:-cc} -xc -std=c17", "${CC:-cc} -xc -std=gnu17",
        "c++ -xc++ -std=c++11",   "c++ -xc++ -std=c++20",
    };
    bool cpp = runs("echo 'int a;' | c++ -xc++ -fsyntax-only - 2>/dev/null");
    if (!cpp)
        print_message("no C++ compiler\n");
    glob_t headers;
    assert_int_equal(glob("include/mlx/c/*.h", 0, NULL, &headers), 0);
    assert_true(headers.gl_pathc > 15);
    for (size_t h = 0; h < headers.gl_pathc; h++)
        for (int c = 0; c < (cpp ? 5 : 3); c++)
            if (!for_python(headers.gl_pathv[h] + strlen("include/")) &&
                !compiles(headers.gl_pathv[h] + strlen("include/"), compilers[c]))
                fail_msg("%s with %s", headers.gl_pathv[h], compilers[c]);
    globfree(&headers);
}

static void all_included(void **state)
{
    (void)state;
    static char text[1 << 16];
    FILE *f = fopen("include/mlx/c/mlx.h", "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    glob_t headers;
    assert_int_equal(glob("include/mlx/c/*.h", 0, NULL, &headers), 0);
    for (size_t h = 0; h < headers.gl_pathc; h++) {
        const char *name = headers.gl_pathv[h] + strlen("include/");
        char line[256];
        snprintf(line, sizeof line, "#include \"%s\"\n", name);
        bool within = strcmp(name, "mlx/c/mlx.h") && strcmp(name, "mlx/c/api.h") && !for_python(name);
        if (within && !strstr(text, line))
            fail_msg("mlx.h does not include %s", name);
    }
    globfree(&headers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(all_included),
    };
    return cmocka_run_group_tests_name("C API: headers", tests, NULL, NULL);
}
