/* py_eval.c: evaluation, without the GIL and open to Ctrl-C.
 *
 * Python's handler of SIGINT only takes a note, and code may run on it when the main thread has the
 * GIL again: here, after the evaluation has given up.  A handler that does not raise has it go on. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

#include "py.h"

static bool interrupted; /* by a note that was taken away from Python; main thread only */

static bool take_interrupt(void)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    if (PyOS_InterruptOccurred())
        interrupted = true;
    PyGILState_Release(gil);
    return interrupted;
}

static bool on_main_thread(void)
{
    static _Thread_local int answer; /* 1 yes, -1 no */
    if (!answer)
        answer = syscall(SYS_gettid) == getpid() ? 1 : -1;
    return answer == 1;
}

int evaluate_with(int (*eval)(void *), void *what)
{
    bool ask = on_main_thread();
    for (;;) {
        int failed;
        if (ask)
            mlx_stop_when(take_interrupt);
        Py_BEGIN_ALLOW_THREADS failed = eval(what);
        Py_END_ALLOW_THREADS if (ask) mlx_stop_when(NULL);
        if (interrupted && ask) {
            interrupted = false;
            PyErr_SetInterrupt();
        }
        if (failed && mlx_last_error(NULL) != MLX_ERROR_INTERRUPTED)
            return raise_last();
        if (PyErr_CheckSignals())
            return -1;
        if (!failed)
            return warn_kept();
    }
}
