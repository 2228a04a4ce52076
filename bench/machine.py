"""The machine that figures come from: what it is, who else uses it meanwhile, and no process left behind."""

import ctypes
import glob
import os
import platform
import re
import resource
import signal
import subprocess


def first_line(*command):
    """What a program says of itself; "" where there is none."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.split("\n", 1)[0].strip() if done.returncode == 0 else ""


def commit():
    """What is measured; "-dirty" if it has been changed since. RESULTS.md, which --write changes, is no part of it."""
    changed = first_line("git", "status", "--porcelain", "--untracked-files=no", "--", ":!bench/RESULTS.md")
    return first_line("git", "rev-parse", "--short=10", "HEAD") + ("-dirty" if changed else "")


def describe(python):
    """Processor, system and versions, by name; what is not there is left out. python: the venv's, or None."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        model = re.search(r"^model name\s*: (.*)$", file.read(), re.M)
    machine = {
        "processor": model.group(1).strip() if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": "Linux " + platform.release(),
        "compiler": first_line(os.environ.get("CC", "cc"), "--version"),
        "PyTorch": first_line(python, "-c", "import torch; print(torch.__version__)") if python else "",
        "MPI": first_line("mpirun", "--version"),
        "commit": commit(),
    }
    return {name: value for name, value in machine.items() if value}


def scheduled(pid):
    """Seconds for which the threads of a process have run so far, and for which they were ready but had no core."""
    ran = waited = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):  # /proc/PID/stat knows hundredths only
        try:
            with open(path, encoding="ascii") as file:
                of_thread = file.read().split()
            ran, waited = ran + int(of_thread[0]), waited + int(of_thread[1])
        except OSError:
            pass  # it has ended
    return 1e-9 * ran, 1e-9 * waited


class Load:
    """The share of the machine that others have used since this was made: processes that are not ours,
    and, on a virtual machine, its host. Ours count when they have ended."""

    def __init__(self):
        self.begin = self.now()

    @staticmethod
    def now():
        """Seconds of all cores so far: passed, used by programs, and of these by ours."""
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, idle, iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
        ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        hertz = os.sysconf("SC_CLK_TCK")
        # Interrupts are left out: those of our own messages would count as other processes'.
        return ((user + nice + system + idle + iowait + irq + softirq + steal) / hertz,
                (user + nice + system + steal) / hertz, sum(one.ru_utime + one.ru_stime for one in ours))

    def others(self):
        passed, used, ours = (end - begin for begin, end in zip(self.begin, self.now()))
        return min(1.0, max(0.0, (used - ours) / passed)) if passed > 0 else 0.0


def inherit_orphans():
    """From now on, what a dead child of ours has started is our child, wherever in the tree it was."""
    pr_set_child_subreaper = 36  # linux/prctl.h
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def end_children():
    """Kills all children, and theirs as they become ours, until there are none."""
    while True:
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path, encoding="ascii", errors="replace") as file:
                    pid, rest = file.read().split(" ", 1)
                if int(rest.rsplit(")", 1)[1].split()[1]) == os.getpid():
                    os.kill(int(pid), signal.SIGKILL)
            except (OSError, IndexError):
                pass  # it has ended meanwhile
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
