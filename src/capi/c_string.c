/* c_string.c: string handles; the box holds one text of its own. */
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"

struct string {
    char *text;
};

int capi_text_end(const char *func, mlx_string *str, char *text)
{
    if (!capi_need(func, "a place for the result", "str", str) || !text) {
        free(text);
        return capi_report();
    }
    struct string *b = str->ctx;
    if (!b) {
        b = mx_malloc(sizeof *b);
        if (!b || capi_made(HANDLE_string, b, func)) {
            free(b);
            free(text);
            return capi_report();
        }
        str->ctx = b;
    } else {
        free(b->text);
    }
    b->text = text;
    return 0;
}

char *capi_text_copy(const char *s)
{
    size_t bytes = strlen(s) + 1;
    char *copy = mx_malloc(bytes);
    return copy ? memcpy(copy, s, bytes) : NULL;
}

mlx_string mlx_string_new(void) { return (mlx_string){ NULL }; }

mlx_string mlx_string_new_data(const char *str)
{
    mlx_string made = { NULL };
    capi_publish_text(&made, capi_given(str, "a string") ? capi_text_copy(str) : NULL);
    return made;
}

int mlx_string_set(mlx_string *str, const mlx_string src)
{
    const struct string *b = src.ctx;
    if (!b)
        capi_refuse(__func__, "a string", "src", "an empty handle");
    return capi_publish_text(str, b ? capi_text_copy(b->text) : NULL);
}

const char *mlx_string_data(mlx_string str)
{
    const struct string *b = str.ctx;
    if (!b) {
        capi_refuse(__func__, "a string", "str", "an empty handle");
        return capi_report(), NULL;
    }
    return b->text;
}

int mlx_string_free(mlx_string str)
{
    struct string *b = str.ctx;
    capi_gone(HANDLE_string, b);
    if (b)
        free(b->text);
    free(b);
    return 0;
}
