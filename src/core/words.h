/* words.h: questions about names. */
#ifndef MX_CORE_WORDS_H
#define MX_CORE_WORDS_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A name as C has them, of up to `most` characters. */
static inline bool is_identifier(const char *s, size_t most)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    const char *start = s;
    while (isalnum((unsigned char)*s) || *s == '_') s++;
    return !*s && (size_t)(s - start) <= most;
}

static inline bool among(const char *name, const char *const list[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(name, list[i]))
            return true;
    return false;
}
#define AMONG(name, list) among(name, list, sizeof list / sizeof *list)

#endif
