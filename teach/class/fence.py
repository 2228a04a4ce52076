"""The fence around a submission: its compiler and its programs run as another user, and see a room and nothing else.

The judges of teach/lab start programs by the module subprocess. The grader puts an object of the class Fence in that
module's place, so the judges need not know of it:

    make       the compiler's commands, as make -n prints them, run inside the fence, in the room
    programs   those of the submission run inside the fence, with limits; ours run outside, as ever
    the rest   (nm, sed) runs outside

What a program of the submission can reach:

    BASE/room  headers, archives, the launcher: what the commands need. No program of a step, no source with a main.
    BASE/work  its own sources and programs (writable only for the compiler)
    BASE/runs  what it writes: journals, weights. The grader reads regular files there, each in its own place: never through
               a link, and never while a process of the submission is left
    /dev/shm, /tmp   its own

Runs of ours start when no process of the submission is left, in an environment that it does not get (LAB_OURS, LAB_SALT).
What decides a verdict is not here, but in teach/lab/witness.py. The grader has entered namespaces of its own before
(network: loopback alone; mounts; processes), see enter(). Where a
machine does not allow them, as in many containers, the other user is the whole fence: the network is not parted."""
import os
import pwd
import random
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
MOST_READ = 64 << 20  # bytes of a file that the grader reads
DISK_MB, TMP_MB, PROCESSES, FILE_MB = 400, 64, 256, 64
PASSED_ON = re.compile(r"(DDP_JOURNAL|DDP_RECONFIGURE|LAB_SECONDS|LAUNCHER|NODES_HERE_ADDR|OMP_NUM_THREADS|ASAN_OPTIONS|MASTER_\w+|RANK|"
                       r"LOCAL_RANK|WORLD_SIZE)$")
ROOM = ["common/**/*.h", "extras/**/*.h", "beyond/**/*.h", "launcher/*.h", "0*/**/*.h", "teach/lab/**/*.h", "teach/lab/*/functions.txt",
        "teach/lab/*/link.txt", "teach/lab/redefine.syms", "teach/lab/as_srun.sh",
        "04_slurm_multinode/nodes_here.sh", "03_torchrun_env/ddprun", "05_fault_tolerance/ddprun", "config.yaml", "build/*.a", "build/checked/teach/lab/**/*.o",
        "build/teach/lab/**/*.o", "build/tests/simulation/*.o", "build/tools/*.a"]
BARE = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}  # the environment of all that runs inside


def enter(arguments):
    """The command that runs this grader in namespaces of its own; None if the machine does not allow them."""
    if not shutil.which("unshare") or not shutil.which("bwrap"):
        return None
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.geteuid() != 0:  # root there, with the user's subordinate ids (newuidmap)
        command[1:1] = ["--user", "--map-root-user", "--map-auto"]
    tried = subprocess.run([*command, "bwrap", "--ro-bind", "/", "/", "true"], capture_output=True)
    return [*command, *arguments] if tried.returncode == 0 else None


def lift_loopback():
    import fcntl
    import socket
    import struct
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14s", b"lo", 0x1 | 0x40, b""))  # SIOCSIFFLAGS: up, running


class Broken(Exception):
    """This machine cannot part a submission from the rest: one line that says why."""


class Fence:
    PIPE, DEVNULL, STDOUT = subprocess.PIPE, subprocess.DEVNULL, subprocess.STDOUT
    TimeoutExpired, CalledProcessError = subprocess.TimeoutExpired, subprocess.CalledProcessError

    def __init__(self, base, parted, memory_mb):
        self.base, self.parted, self.memory_mb = Path(base), parted, memory_mb
        self.uid = random.SystemRandom().randrange(61000, 64000)
        if any(entry.pw_uid == self.uid for entry in pwd.getpwall()):
            self.uid += 1
        self.room, self.work, self.runs, self.shm, self.tmp = (self.base / name for name in ("room", "work", "runs", "shm", "tmp"))
        self.over = None  # why processes were killed
        os.chmod(self.base, 0o711)
        for folder in self.room, self.work, self.runs, self.shm, self.tmp:
            folder.mkdir()
            os.chmod(folder, 0o711 if folder in (self.room, self.work) else 0o1777)
        if parted:
            for folder, size in (self.runs, DISK_MB), (self.shm, DISK_MB), (self.tmp, TMP_MB):
                subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m,nr_inodes=20000,mode=1777,nodev,nosuid", "tmpfs", folder], check=True)
            (self.tmp / self.base.name).mkdir(0o711)  # before they can put a link there
        elif self.sees(TOP / "Makefile"):
            raise Broken(f"other users can read {TOP}, and with it our solutions: chmod 700 {TOP}")
        tried = subprocess.run(self.fenced(["true"], self.room), cwd=self.room, capture_output=True, text=True)
        if tried.returncode != 0:
            raise Broken(f"nothing runs inside the fence: {(tried.stderr.splitlines() or ['it says no word'])[0]}")

    def sees(self, path):
        """Can the other user read it?"""
        return subprocess.run(["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", "test", "-r", path]).returncode == 0

    def furnish(self, lab):
        """Puts into the room what the commands of this lab need."""
        import library
        shutil.rmtree(self.room)
        self.room.mkdir()
        names = ROOM + ([f"build/{library.LABS[lab][0]}.o"] if lab in library.LABS else [])  # the step's program, with their file
        for path in {path for name in names for path in TOP.glob(name)}:
            to = self.room / path.relative_to(TOP)
            if to.parts[len(self.room.parts)] in ("lab", ".git") or not path.is_file():
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
        (self.room / "04_slurm_multinode/train").write_text("ddp secret\n")  # nodes_here.sh asks this file whether there are secrets
        subprocess.run(["chmod", "-R", "a+rX,go-w", self.room], check=True)

    # What the judges call.

    def run(self, command, **options):
        command = [str(word) for word in command]
        if command[0] == "make" and command[-1].startswith(f"{self.base}/"):
            return self.compile(command, **options)
        if command[0] == sys.executable:  # clients of a submission's server: ours, and what they start is not
            command[2] = self.script(command[2])
            options["timeout"] = min(options.get("timeout", 600), 600)
            try:
                return subprocess.run(command, **options)
            finally:
                self.end_all()
        if not self.is_theirs(command):
            self.end_all()  # ours runs alone
            return subprocess.run(command, **options)
        check = options.pop("check", False)
        timeout = options.pop("timeout", None)
        capture = options.pop("capture_output", False)
        text = {name: options.pop(name) for name in ("text", "errors") if name in options}
        files = []
        if capture:  # into files, whose size is limited
            files = [open(self.base / name, "w+b") for name in ("out", "err")]
            options.update(stdout=files[0], stderr=files[1])
        process = self.Popen(command, **{"stdin": subprocess.DEVNULL, **options})
        try:
            self.finish(process, timeout)
        finally:
            output = []
            for file in files:
                file.seek(0)
                output.append(file.read(4 << 20))
                file.close()
        if text:
            output = [part.decode(errors="replace") for part in output]
        done = subprocess.CompletedProcess(command, process.returncode, *output)
        if check:
            done.check_returncode()
        return done

    def check_output(self, command, **options):
        return self.run(command, check=True, capture_output=True, **options).stdout

    def Popen(self, command, **options):
        command = [str(word) for word in command]
        if not self.is_theirs(command):
            self.end_all()
            return subprocess.Popen(command, **options)
        environment = {name: value for name, value in (options.pop("env", None) or os.environ).items() if PASSED_ON.match(name)}
        environment.update(BARE, HOME="/tmp")
        place = options.pop("cwd", None)
        place = place if str(place).startswith(f"{self.runs}/") else self.room
        for folder in (self.runs, *(path for path in self.runs.rglob("*") if path.is_dir() and not path.is_symlink())):
            if os.stat(folder).st_uid == os.geteuid():
                os.chmod(folder, 0o1777)
        return subprocess.Popen(self.fenced(command, place, alone="serve" in command[1:2]), env=environment, cwd=place, **options)

    def finish(self, process, seconds):
        """Its exit status; nothing of the other user runs any more."""
        try:
            return process.wait(seconds)
        finally:
            process.kill()
            self.end_all()
            process.wait()

    def script(self, program):
        """A script that runs the program inside."""
        path = self.base / "start"
        bare = shlex.join(["env", "-i", *(f"{name}={value}" for name, value in {**BARE, "HOME": "/tmp"}.items())])
        path.write_text(f'#!/bin/sh\nexec {bare} ASAN_OPTIONS="$ASAN_OPTIONS" {shlex.join(self.fenced([program], self.room))} "$@"\n')
        os.chmod(path, 0o700)
        return path

    def is_theirs(self, command):
        """Is a program of the submission in the command? (zero's is built a second time, to count, in a folder count.)"""
        return command[0] not in ("sed", "nm") and any(
            re.match(rf"{self.work}/|{self.runs}/.*/count/", word) for word in command)

    def fenced(self, command, place, writable=(), alone=False):
        """The command, inside. Of the paths in it, those in our tree become those in the room. A rank that the judge serves is
        alone: no network, and none of the folders in which others could leave it a word, but for those of snapshots."""
        command = [re.sub(rf"^{re.escape(str(TOP))}(?=/|$)", str(self.room), word) for word in command]
        command = ["prlimit", f"--nproc={PROCESSES}", f"--fsize={FILE_MB << 20}", "--core=0", "--nofile=1024", "--cpu=600", *command]
        command = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", "--no-new-privs", "--", *command]
        if not self.parted:
            return command
        binds = [word for path in ("/bin", "/lib", "/lib64") if Path(path).is_symlink() for word in ("--symlink", os.readlink(path), path)]
        binds += ["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--bind", "/proc", "/proc", "--dev", "/dev",
                  *(("--unshare-net", "--unshare-ipc", "--tmpfs", "/dev/shm", "--tmpfs", "/tmp", "--perms", "0755", "--dir", str(self.base)) if alone else
                    ("--bind", str(self.shm), "/dev/shm", "--bind", str(self.tmp), "/tmp"))]
        for path in self.room, self.work:
            binds += ["--ro-bind", str(path), str(path)]
        for path in () if alone and "snapshot" not in command[-5] else (self.runs, *writable):
            binds += ["--bind", str(path), str(path)]
        return ["bwrap", *binds, "--chdir", str(place), "--die-with-parent", "--cap-drop", "ALL", "--cap-add", "CAP_SETUID",
                "--cap-add", "CAP_SETGID", "--", *command]

    # The compiler.

    def compile(self, command, **options):
        """What make would do for the submission, inside the fence. Of a step's program only main is seen by the linker."""
        target = Path(command[-1])
        folder = target.parent
        listed = subprocess.run(["make", "-n", *command[1:]], cwd=TOP, capture_output=True, text=True)
        if listed.returncode != 0:
            return subprocess.CompletedProcess(command, listed.returncode, "", listed.stderr)
        script = re.sub(r"^(.*?) -o (\S+) (\2\.c) (.*)$", r"\1 -c -o \2.o \3 && objcopy --keep-global-symbol=main \2.o && \1 -o \2 \2.o \4",
                        listed.stdout.replace("\\\n", " "), flags=re.M)
        written = {folder, *(self.room / Path(name).parent for name in re.findall(r" -o (build/\S+)", script))}  # the capstone's programs
        for place in written:
            place.mkdir(parents=True, exist_ok=True)
            os.chown(place, self.uid, self.uid)
        with open(self.base / "compiler", "w+b") as output:
            process = subprocess.Popen(self.fenced(["sh", "-ec", script], self.room, written), cwd=self.room, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output, env={**BARE, "TMPDIR": str(folder)})
            try:
                status = self.finish(process, 120)
            except subprocess.TimeoutExpired:
                status = 124
            output.seek(0)
            text = output.read(1 << 20).decode(errors="replace")
        for place in written:
            os.chown(place, os.geteuid(), os.getegid())
            self.tidy(place)
        if status != 0 and "error" not in text:
            text += f"error: the compiler ends with status {status}"
        return subprocess.CompletedProcess(command, status, "", text)

    # Limits.

    def theirs(self):
        """The processes of the other user that have not ended."""
        found = []
        for entry in os.scandir("/proc"):
            try:
                if entry.name.isdigit() and entry.stat().st_uid == self.uid and \
                        Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(int(entry.name))
            except (OSError, IndexError):
                pass  # it has just ended
        return found

    def may_signal(self, pid):
        """A journal says who its process is: it may lie."""
        try:
            return pid > 1 and os.stat(f"/proc/{pid}").st_uid == self.uid
        except OSError:
            return False

    def end_all(self):
        """Ends all processes of the other user. They are stopped first: so none of them starts another meanwhile."""
        deadline = time.monotonic() + 10
        while (found := self.theirs()) and time.monotonic() < deadline:
            for number in signal.SIGSTOP, signal.SIGKILL:
                for pid in found:
                    try:
                        os.kill(pid, number)
                    except OSError:
                        pass
            time.sleep(0.02)

    def empty(self):
        """Between two labs: nothing that one wrote is there for the next."""
        for path in (path for folder in ((self.runs, self.shm, self.tmp) if self.parted else (self.runs,)) for path in folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                if path != self.tmp / self.base.name:
                    shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def watch(self):
        """Ends all if together they take more memory than allowed."""
        page = os.sysconf("SC_PAGE_SIZE")
        while True:
            pages = 0
            for pid in self.theirs():
                try:
                    with open(f"/proc/{pid}/statm") as file:
                        resident, shared = (int(word) for word in file.read().split()[1:3])
                    pages += resident - shared // 2  # what several have in common is counted twice otherwise
                except (OSError, ValueError):
                    pass
            if pages * page > self.memory_mb << 20:
                self.over = f"it took more than {self.memory_mb} MB of memory and was ended"
                self.end_all()
            time.sleep(0.1)

    # Reading what they wrote.

    @staticmethod
    def tidy(folder):
        """Removes all that is neither a folder nor a regular file."""
        for path in sorted(Path(folder).rglob("*")):
            if not (path.is_symlink() and path.name == "config.yaml") and not stat.S_ISDIR(path.lstat().st_mode) and not stat.S_ISREG(path.lstat().st_mode):
                path.unlink(missing_ok=True)

    def guard_reads(self):
        """From now on a path's read_text and read_bytes refuse, in BASE, links, pipes, devices and large files."""
        def read(path):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                place = os.readlink(f"/proc/self/fd/{descriptor}")
                if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_READ or found.st_nlink != 1 or place != os.path.abspath(path):
                    raise OSError(f"{path}: no regular file in its place, or too large")  # a link on the way leads elsewhere
                return file.read()

        plain_bytes, plain_text = Path.read_bytes, Path.read_text

        def read_bytes(path):
            return read(path) if str(path).startswith(f"{self.base}/") else plain_bytes(path)

        def read_text(path, encoding=None, errors="replace"):
            return read(path).decode(errors=errors or "replace") if str(path).startswith(f"{self.base}/") else plain_text(path, encoding, errors)

        Path.read_bytes, Path.read_text = read_bytes, read_text
