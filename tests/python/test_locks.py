"""Locks of the library: a child of fork() is to find them free (src/core/lock.h)."""

import pathlib
import re

SRC = pathlib.Path(__file__).parents[2] / "src"

# Plain mutexes, and why no child of fork() meets one that is taken.
PLAIN = {
    "core/lock.h": "what a lock is",
    "core/lock.c": "held from before a fork until after it",
    "run/queue.h": "made anew in the child, with the queue",
    "plan/load.c": "on the stack of who reads, whose work does not go on in the child",
}


def test_every_lock_survives_fork():
    plain = set()
    for path in SRC.rglob("*.[ch]"):
        if re.search(r"pthread_(mutex|rwlock|spinlock)_t\s+\w|PTHREAD_MUTEX_INITIALIZER", path.read_text()):
            plain.add(str(path.relative_to(SRC)))
    plain.discard("core/memory.c")  # initializes the lock of the host's memory, which is known
    assert plain == set(PLAIN), "locks are defined by LOCK() or lock_open() of core/lock.h"
    assert "lock_survives(&host_memory.lock" in (SRC / "core/memory.c").read_text()
