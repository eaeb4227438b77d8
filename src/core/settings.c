/* settings.c: see settings.h. */
#include "core/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *value_of(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* True the first time for each name. */
static bool is_first(const char *name)
{
    enum { VARIABLES = 32 };
    static _Atomic(const char *) told[VARIABLES];
    for (int i = 0; i < VARIABLES; i++) {
        const char *at = NULL;
        if (atomic_compare_exchange_strong(&told[i], &at, name))
            return true;
        if (!strcmp(at, name))
            return false;
    }
    return false;
}

static void tell(const char *name, const char *expected, size_t n, const char *got)
{
    if (is_first(name))
        fprintf(stderr, "[%s] expected %s, got %.*s; it is ignored\n", name, expected, (int)n, got);
}

/* Which of the words has these n letters; none: tells it, and gives `otherwise`. */
static int find(const char *name, const char *const words[], size_t n, const char *letters, int otherwise)
{
    char expected[128] = "";
    size_t length = 0;
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == n && !memcmp(words[i], letters, n))
            return i;
    for (int i = 0; words[i] && length < sizeof expected; i++) {
        const char *before = !i ? "" : words[i + 1] ? ", " : " or ";
        length += (size_t)snprintf(expected + length, sizeof expected - length, "%s%s", before, words[i]);
    }
    tell(name, expected, n, letters);
    return otherwise;
}

int setting_word(const char *name, const char *const words[], int otherwise)
{
    const char *value = value_of(name);
    return value ? find(name, words, strlen(value), value, otherwise) : otherwise;
}

static const char *const switch_words[] = { "0", "1", NULL };

bool setting_switch(const char *name, bool otherwise) { return setting_word(name, switch_words, otherwise); }

int setting_word_kept(atomic_int *kept, const char *name, const char *const words[], int otherwise)
{
    enum { FROM = 2 }; /* answers, which begin at -1, are kept as numbers above 0 */
    int known = atomic_load_explicit(kept, memory_order_relaxed);
    if (!known)
        atomic_store(kept, known = setting_word(name, words, otherwise) + FROM);
    return known - FROM;
}

bool setting_switch_kept(atomic_int *kept, const char *name, bool otherwise)
{
    return setting_word_kept(kept, name, switch_words, otherwise);
}

int64_t setting_number(const char *name, int64_t least, int64_t most, int64_t otherwise)
{
    const char *value = value_of(name);
    char *end, expected[64];
    if (!value)
        return otherwise;
    long long n = strtoll(value, &end, 10); /* the largest there is, if that is too small */
    if (end != value && !end[strspn(end, " ")] && n >= least)
        return n < most ? n : most;
    snprintf(expected, sizeof expected, "a number of %lld or more", (long long)least);
    tell(name, expected, strlen(value), value);
    return otherwise;
}

bool setting_given(const char *name)
{
    const char *value = value_of(name);
    return value && strcmp(value, "0") != 0;
}

bool is_logged(enum logged what)
{
    static const char *const words[] = { "compile", "fallback", "libraries", NULL };
    bool is = false;
    for (const char *s = value_of("MLX_LOG"); s && *s;) {
        size_t n = strcspn(s, ",;: ");
        is |= n && find("MLX_LOG", words, n, s, -1) == (int)what;
        s += n + (s[n] != '\0');
    }
    return is;
}
