"""Ends the programs of a judge with the judge, also where it is killed or gets Ctrl-C: programs run in sessions of their own,
and a learner's program may train for minutes."""
import os
import signal
import time
from pathlib import Path

SECONDS = 10  # most that a launcher may start its ranks again while all are being ended


def processes(variable, value):
    """The processes that were started with this variable in their environment."""
    mark = f"{variable}={value}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            pass  # ended, or another user's
    return found


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_with_judge(folder):
    """Call it before a program is started: a child of this process waits until it has ended, and ends what is left of them."""
    os.environ["LAB_RUNS"] = str(folder)
    reader, writer = os.pipe()  # programs that are started have no copy of the writer, so it closes with this process
    if os.fork() > 0:
        os.close(reader)
        return
    os.setsid()  # Ctrl-C, or the end of the terminal, ends the judge alone
    os.close(writer)
    os.read(reader, 1)
    deadline = time.monotonic() + SECONDS
    while (left := processes("LAB_RUNS", folder)) and time.monotonic() < deadline:
        for pid in left:
            kill(pid)
    os._exit(0)
