/* thread.c: see thread.h. */
#include "core/thread.h"

static _Thread_local struct thread mine;

struct thread *this_thread(void) { return &mine; }
