/* kernel_writer.c: see kernel_writer.h. */
#define _GNU_SOURCE /* vasprintf */
#include "ops/kernel_writer.h"

#include <stdarg.h>
#include <stdlib.h>

int kernel_writer_open(struct kernel_writer *w, const struct kernel *k)
{
    *w = (struct kernel_writer){ .k = k };
    w->f = open_memstream(&w->text, &w->size);
    return w->f ? 0 : (mx_fail_memory(1), 1);
}

void kernel_put(struct kernel_writer *w, const char *fmt, ...)
{
    char *line;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&line, fmt, args) >= 0) {
        for (const char *s = line; *s; s++) w->lines += *s == '\n';
        fputs(line, w->f);
        free(line);
    } else {
        w->failed = true;
    }
    va_end(args);
}

void kernel_put_theirs(struct kernel_writer *w, const char *what, const char *text)
{
    kernel_put(w, "#line 1 \"<%s %s>\"\n", w->k->name, what);
    kernel_put(w, "%s\n\n", text); /* two ends of a line, lest the first is escaped */
    kernel_put(w, "#line %d \"<%s, generated>\"\n", w->lines + 2, w->k->name);
}

char *kernel_writer_close(struct kernel_writer *w)
{
    bool bad = ferror(w->f) || w->failed;
    if (fclose(w->f) || bad || !w->text) {
        free(w->text);
        mx_fail_memory(w->size);
        return NULL;
    }
    return w->text;
}
