/* py_eval.c: evaluation, without the GIL where it takes longer than giving it away, and open to Ctrl-C.
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

/* From now on others run Python, and Ctrl-C is asked for. */
static void leave(void *state)
{
    if (on_main_thread())
        mlx_stop_when(take_interrupt);
    *(PyThreadState **)state = PyEval_SaveThread();
}

static void come_back(PyThreadState *state)
{
    PyEval_RestoreThread(state);
    if (on_main_thread())
        mlx_stop_when(NULL);
}

static int evaluate(int (*eval)(void *), void *what, bool at_once)
{
    for (;;) {
        PyThreadState *state = NULL;
        if (at_once)
            leave(&state);
        else
            mlx_leave_with(leave, &state);
        int failed = eval(what);
        if (!at_once)
            mlx_leave_with(NULL, NULL);
        if (state)
            come_back(state);
        if (interrupted && on_main_thread()) {
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

int evaluate_with(int (*eval)(void *), void *what) { return evaluate(eval, what, true); }
int evaluate_arrays(int (*eval)(void *), void *what) { return evaluate(eval, what, false); }
