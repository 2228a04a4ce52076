#!/usr/bin/env python3
"""Usage: tests/class/try_autograder.py [--suite jammy] [--fresh DIR] [--keep DIR] [LAB]...      (root; needs debootstrap, a network)
Does what Gradescope does with the zip of make autograder: unpacks it in a bare machine (a root file system of its own), runs
setup.sh once, and run_autograder for each submission, within half a core and 768 MB, with a container's capabilities: without
namespaces, and then with them. Checks results.json, and that a submission can read nothing of ours. MIRROR=http://... names the
suite's mirror. --fresh: a bare file system that is there already. --keep: makes the machine there, and leaves it; if it is there,
setup.sh is not run again. Prints TAP."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
from handed import TOP, hand_in, ours
from many_runs import Limited

# Root's capabilities in a Docker container by default.
DOCKER = "chown,dac_override,fsetid,fowner,mknod,net_raw,setgid,setuid,setfcap,setpcap,net_bind_service,sys_chroot,kill,audit_write"
# Gradescope's specification (gradescope-autograders.readthedocs.io/en/latest/specs): the fields, with their types or words.
NUMBER, FORMATS, SEEN = (int, float), ("text", "html", "simple_format", "md", "ansi"), ("hidden", "after_due_date", "after_published", "visible")
FIELDS = {"score": NUMBER, "execution_time": NUMBER, "output": str, "extra_data": dict, "tests": list, "leaderboard": list, "visibility": SEEN,
          "stdout_visibility": SEEN, "output_format": FORMATS, "test_output_format": FORMATS, "test_name_format": FORMATS}
TEST_FIELDS = {"score": NUMBER, "max_score": NUMBER, "status": ("passed", "failed"), "name": str, "number": str, "output": str, "tags": list,
               "extra_data": dict, "output_format": FORMATS, "name_format": FORMATS, "visibility": SEEN}
SNOOPS = r"""
    system("exec 2>/dev/null; s=; for f in $(find / -xdev \\( -name 'train_b_all_reduce*' -o -name 'train_c_*' -o -name secret -o -name points.txt "
           "-o -name judge.py -o -path '*/docs/answers/*' -o -name results.json -o -name task \\) ); do head -c 1 $f >/dev/null && s=\"$s $f\"; done; "
           "for d in /autograder/source /autograder/results; do ls $d/* >/dev/null && s=\"$s $d\"; done; "
           "for d in / /autograder /autograder/source /autograder/submission /autograder/results; do echo x >$d/mine && s=\"$s $d/mine\"; done; "
           "for p in /proc/[0-9]*; do [ $(stat -c %u $p) != $(id -u) ] && head -c 1 $p/environ >/dev/null && s=\"$s $p/environ\"; done; "
           "ls /proc/1/root/autograder >/dev/null && s=\"$s root\"; [ $(id -u) -gt 60000 ] || s=\"$s user\"; echo \"found:$s.\"");
"""


def fits(value, kind):
    """Is it one of the words, or of the type?"""
    if isinstance(kind, tuple) and isinstance(kind[0], str):
        return value in kind
    return isinstance(value, kind) and not isinstance(value, bool)


def wrong(fields, found):
    """The fields of results.json that the specification does not know, or not so."""
    return [f"{name}: {value!r}" for name, value in found.items() if name not in fields or not fits(value, fields[name])]


def check_results(result):
    """Raises an AssertionError that says what is not as Gradescope wants it."""
    faults = [*wrong(FIELDS, result), *(fault for test in result["tests"] for fault in wrong(TEST_FIELDS, test))]
    assert not faults, faults
    assert result["tests"] and abs(sum(test["score"] for test in result["tests"]) - result["score"]) < 1e-9, result["score"]
    for test in result["tests"]:
        assert 0 <= test["score"] <= test["max_score"] and (test["status"] == "passed") == (test["score"] == test["max_score"]), test
    assert len({test["number"] for test in result["tests"]}) == len(result["tests"]) == len({test["name"] for test in result["tests"]})


class Machine:
    """The bare machine, as Gradescope makes an image of it."""

    def __init__(self, root):
        self.root, self.source = root, root / "autograder/source"

    def mount(self):
        subprocess.run(["mount", "--bind", self.root, self.root], check=True)  # else nothing is mounted at its /, and no namespace can be made
        for kind, place, options in (("proc", "proc", ""), ("sysfs", "sys", "ro"), ("devpts", "dev/pts", "newinstance,ptmxmode=666"),
                                     ("tmpfs", "dev/shm", "mode=1777,size=64m")):
            subprocess.run(["mount", "-t", kind, *(["-o", options] if options else []), kind, self.root / place], check=True)
        for name in "resolv.conf", "hosts":
            shutil.copy(f"/etc/{name}", self.root / "etc" / name)

    def inside(self, command, seconds, group=None, prefix=(), **options):
        return subprocess.run([*prefix, "chroot", self.root, "env", "-i", "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                               "sh", "-c", f"cd /autograder && {command}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=seconds, preexec_fn=group and group.enter, **options)

    def install(self, archive):
        """Unpacks the zip without modes, as the worst of programs does, and runs setup.sh: what a Dockerfile of Gradescope's does."""
        for name in "source", "submission", "results":
            (self.root / "autograder" / name).mkdir(parents=True, exist_ok=True)
        zipfile.ZipFile(archive).extractall(self.source)
        shutil.copy(self.source / "run_autograder", self.root / "autograder/run_autograder")
        (self.root / "autograder/run_autograder").chmod(0o755)
        return self.inside("bash source/setup.sh && apt-get clean && rm -rf /var/lib/apt/lists/*", 3600)

    def grade(self, handed, namespaces):
        """A submission as Gradescope gives it: root's. The result, seconds, and what was used."""
        place, results = self.root / "autograder/submission", self.root / "autograder/results"
        for folder in place, results:
            shutil.rmtree(folder)
            folder.mkdir()
        for lab, files in handed.items():
            hand_in(place, lab, files)
        prefix = ["unshare", "--pid", "--fork", "--kill-child", f"--mount-proc={self.root}/proc"]
        if not namespaces:
            kept = ",".join(f"+{name}" for name in DOCKER.split(","))
            prefix += ["setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all"]
        group, begin = Limited(), time.monotonic()
        try:
            done = self.inside("./run_autograder", 1200, group, prefix)
            seconds, used = time.monotonic() - begin, group.used()
        finally:
            group.remove()
        assert (results / "results.json").exists(), done.stdout + done.stderr
        result = json.loads((results / "results.json").read_text())
        check_results(result)
        result["said"] = done.stdout + done.stderr
        return result, f"{seconds:.0f} s, {used[1]:.0f} s of the processor, {used[0]} MB"


class Tap:
    count = failed = 0

    def step(self, title, action):
        """One line of TAP: the action returns what it has measured."""
        Tap.count, begin = Tap.count + 1, time.monotonic()
        try:
            output, word = action() or f"{time.monotonic() - begin:.0f} s", "ok"
        except (AssertionError, subprocess.TimeoutExpired, OSError) as error:
            output, word = "", "not ok"
            print("\n".join(f"# {line}" for line in str(error).splitlines()[-40:]))
            Tap.failed += 1
        print(f"{word} {Tap.count} - {title}{f' ({output})' if output else ''}", flush=True)
        return word == "ok"


def snoop():
    """The program before lab 02b, which looks for all that is ours before it trains, and says what it found."""
    before = (TOP / "02_multi_gpu_spawn/train_a_spawn.c").read_text()
    head, main, rest = re.split(r"^(int main\(.*\)\n{)", before, flags=re.M)
    return f"#include <stdlib.h>\n{head}{main}{SNOOPS}{rest}"


def steps(machine, labs, tap):
    right = {lab: dict(ours(lab)) for lab in labs}
    for files in right.values():  # ours in a form that the grader does not refuse as a copy of ours
        for name in files:
            files[name] += "\nint not_a_copy(void);\nint not_a_copy(void)\n{\n    return 0;\n}\n"
    most = 20 if labs == ["capstone"] else sum(20 if lab == "capstone" else 10 for lab in labs)
    for namespaces in False, True:
        mode = "with namespaces" if namespaces else "as in a container without namespaces"

        def all_right(namespaces=namespaces):
            result, used = machine.grade(right, namespaces)
            assert result["score"] == most, json.dumps(result, indent=1)
            assert ("no namespaces" in result["said"]) != namespaces, result["said"]
            return used

        def nothing(namespaces=namespaces):
            result, used = machine.grade({}, namespaces)
            assert result["score"] == 0, result
            return used

        def snooped(namespaces=namespaces):
            result, used = machine.grade({"02b": {"train.c": snoop()}}, namespaces)
            output = json.dumps(result)
            assert result["score"] == 0 and "found:. (" in output, output
            return used

        tap.step(f"right programs of {', '.join(labs)} get {most} points, {mode}", all_right)
        tap.step(f"an empty submission gets 0 points, {mode}", nothing)
        if "02b" in labs:
            tap.step(f"a submission finds nothing of ours, {mode}", snooped)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labs", nargs="*", metavar="LAB", default=["02b", "ring"])
    parser.add_argument("--suite", default="")
    parser.add_argument("--fresh", type=Path)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("only root can make a machine")
    if not os.environ.get("BARE"):  # the mounts are gone with it
        place = tempfile.mkdtemp(prefix="bare-grader-", dir="/var/tmp")
        try:
            sys.exit(subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", sys.executable, *sys.argv], env={**os.environ, "BARE": place}).returncode)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    place, tap = Path(os.environ["BARE"]), Tap()
    machine = Machine(arguments.keep or place / "root")
    made = not machine.source.exists()
    if made and arguments.fresh:
        subprocess.run(["cp", "-a", arguments.fresh, machine.root], check=True)
    elif made:
        subprocess.run([TOP / "tests/fresh_machine.sh", arguments.suite, machine.root, place / "log"], check=True)
    machine.mount()

    def install():
        archive = place / "autograder.zip"
        subprocess.run([TOP / "teach/class/autograder.py", archive, *arguments.labs], check=True, capture_output=True)
        done = machine.install(archive)
        assert done.returncode == 0, done.stdout + done.stderr

    if not made or tap.step("setup.sh makes the image", install):
        steps(machine, arguments.labs, tap)
    print(f"1..{Tap.count}")
    sys.exit(Tap.failed > 0)


if __name__ == "__main__":
    main()
