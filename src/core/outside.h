/* outside.h: indices out of range in index arrays, which are known only when an operation reads them.
 *
 * By default a read gives the nearest element and a write is left out; the first time a message is kept, for
 * whoever waits for results next to report at the public boundary.  Else they are failures (MX_INDEX).
 *
 * A runner makes sure that nothing outside is touched, and asks outside_counts() before it looks for the words
 * of a message; a device only notes that there was one, for who finds the note when its work ends. */
#ifndef MX_CORE_OUTSIDE_H
#define MX_CORE_OUTSIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

/* Are they failures?  At first where MLX_INDEX is "error".  Setting it gives what was, and has the next one
 * reported again. */
bool outside_fails(void);
bool outside_set_fails(bool on);

/* Is the next one to be reported, as a failure or the first of them? */
bool outside_counts(void);
/* Reports one that was read, or not written, or that is a failure in any case, as there is no nearest element.
 * Non-zero if it is a failure. */
enum outside_use { OUTSIDE_READ, OUTSIDE_WRITTEN, OUTSIDE_NOWHERE };
int outside_report(enum outside_use use, const char *fmt, ...) MX_PRINTF(2, 3);

/* Is a message kept? */
extern atomic_bool outside_kept;
/* Takes it away: false if there is none.  From then on no other is kept, until outside_again. */
bool outside_take(char *text, size_t size);
void outside_again(void);

#endif
