/* settings.h: what the environment asks for.
 *
 * A variable that is empty is as one that is not set.  A value that is none of those expected is told on stderr, once
 * for each variable, and is as one that is not set too. */
#ifndef MX_CORE_SETTINGS_H
#define MX_CORE_SETTINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Which of the words, which NULL ends, it is. */
int setting_word(const char *name, const char *const words[], int otherwise);
/* 0 or 1. */
bool setting_switch(const char *name, bool otherwise);
/* The same for who asks often: the environment is asked once, and the answer kept in *kept, which is 0 before. */
int setting_word_kept(atomic_int *kept, const char *name, const char *const words[], int otherwise);
bool setting_switch_kept(atomic_int *kept, const char *name, bool otherwise);
/* A number; what is above `most` is `most`. */
int64_t setting_number(const char *name, int64_t least, int64_t most, int64_t otherwise);
/* Is it set, to anything but 0? */
bool setting_given(const char *name);

/* MLX_LOG: a list of what is told on stderr as it happens. */
enum logged { LOG_COMPILE, LOG_FALLBACK, LOG_LIBRARIES };
bool is_logged(enum logged what);

#endif
