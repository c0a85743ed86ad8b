"""Functions that worker processes of the tests run; a module of its own, which they can import."""

import os
import signal
import time

from threadpoolctl import threadpool_info


class LoadCounter:
    """Adds a line to a file whenever a process loads it."""

    def __init__(self, log):
        self.log = log

    def __setstate__(self, state):
        self.__dict__.update(state)
        with self.log.open("a") as file:
            file.write(f"{os.getpid()}\n")


def sleep(seconds, task):
    time.sleep(seconds)
    return task, os.getpid()


def log_attempt(folder, task):
    """Create an empty file for each attempt."""
    (folder / f"{task}-{time.monotonic_ns()}").touch()
    time.sleep(0.3)
    return task


def process_id(counter, task):
    return os.getpid()


def threads(common, task):
    return [pool["num_threads"] for pool in threadpool_info()]


def fail(bad, task):
    if task == bad:
        raise LookupError(f"task {task} cannot be done")
    return task


def die(bad, task):
    if task == bad:
        os._exit(9)
    return task


class FragileResult:
    """A result that kills the first two processes that send it."""

    def __init__(self, log, task):
        self.log, self.task = log, task

    def __reduce__(self):
        if len(list(self.log.iterdir())) < 2:
            (self.log / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return int, (self.task,)


def fragile(log, task):
    time.sleep(0.2)
    return FragileResult(log, task)
