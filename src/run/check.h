/* check.h: NaN and infinities, found where they come from.
 *
 * While it is asked for, each operation's results are looked at once they are made, and one that has such a number
 * where no operand has one fails and is named: it is the first.  Operations run one by one then, and keep their
 * operands; a device is waited for after each. */
#ifndef MX_RUN_CHECK_H
#define MX_RUN_CHECK_H

#include <stdatomic.h>

#include "run/backend.h"

enum checks {
    CHECK_NOTHING,
    CHECK_NAN, /* NaN made of operands without */
    CHECK_INF  /* that, and infinities made of finite operands */
};

/* At first as MLX_CHECK says.  Setting gives what was. */
extern atomic_int checks_asked; /* negative: not yet asked for */
enum checks checks_first(void);
enum checks checks_set(enum checks c);
static inline enum checks checks_now(void)
{
    int now = atomic_load_explicit(&checks_asked, memory_order_relaxed);
    return now < 0 ? checks_first() : (enum checks)now;
}

/* Of an entry that has run on s and left its operands as they were; non-zero after mx_fail. */
int check_results(struct stream *s, struct entry *e);

#endif
