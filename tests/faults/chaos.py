#!/usr/bin/env python3
# Usage: tests/faults/chaos.py DIR [--seconds S] [--faults N] [--job NAME] [--only KIND,...] [--seed N]
"""Random faults against jobs of step 05, until this many seconds or faults are over.

Whatever happens, every job must end with the tensors, byte for byte, of one that nothing happened
to, and leave no process, shared memory or temporary file behind. Who ends is started again, as a
cluster's scheduler would. The last lines tell how long it took until each kind of fault was
noticed, and until the ranks trained again; then the counts. As root, in a network and with disks
of its own: only there can a cable be cut (the two launchers are two hosts), or a disk be full.
"""
import argparse
import atexit
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time

TRAIN, DDPRUN = "05_fault_tolerance/train", "05_fault_tolerance/ddprun"
SURVIVES = "05_fault_tolerance/reconfigure/train_reconfigure"
LINEAR = "--model linear --momentum 0.9 --save-every 0 --save-every-steps 13 --log-interval 100000"
JOBS = {  # ranks of each launcher; what they train
    "one": ([3], LINEAR + " --epochs 250 --check-sync 1"),
    "two": ([1, 1], LINEAR + " --epochs 200 --global-batch-size 64 --reduce-order fixed"),
    "survivors": ([3], LINEAR + " --epochs 250"),
    "cnn": ([2], "--epochs 2 --num-samples 960 --save-every 1 --save-every-steps 2 --optimizer adam"),
}
STOP_TIMEOUT = 6  # seconds until a rank is missed; a launcher: HEARTBEATS halves of one
HEARTBEATS = 10
TIMEOUT = 300  # for whatever must happen
FAULTS = ["kill-rank", "kill-rank", "kill-launcher", "stop-rank", "term-rank", "term-launcher",
          "usr1-launcher", "freeze-launcher", "strangers"]
OWN_FAULTS = ["cut-link", "full-disk"]  # in a network and with a disk of the soak's own
DISK_BYTES = 128 << 20  # of a job
NOTICED = re.compile(r"restarting the group|stop after the next step|fatal: |out of reach|goes on")
TRAINS = re.compile(r"^\[CPU0\] Epoch ", re.M)
BROKEN = re.compile(r".*(?:SIGSEGV|SIGABRT|SIGBUS|SIGFPE|SIGILL|nonsense|out of memory|[Ss]anitizer).*")


class Failed(Exception):
    pass


def await_until(what, condition):
    end = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"not within {TIMEOUT} s: {what}")
        time.sleep(0.05)


def processes(mark):
    """Those that have the mark in their environment: {pid: environment}."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environ = file.read().split(b"\0")
        except OSError:
            continue
        if mark.encode() in environ:
            found[int(pid)] = environ
    return found


def is_stopped(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has just ended


def has_secrets():
    """Whether this build can use a secret (extras/secret)."""
    with open(TRAIN, "rb") as file:
        return b"ddp secret" in file.read()


def free_port():
    """Below those that connections get: no process takes it while a launcher is down."""
    while True:
        port = random.SystemRandom().randrange(12000, 30000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def tensors(path):
    """The bytes of a safetensors file behind its header, which tells the world size, too."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        header.pop("__metadata__")
        return header, file.read()


class World:
    """A network of the soak's own: two hosts with a cable between them, the second one as a process that holds it."""

    ADDRESS = "10.77.0.1"

    def __init__(self):
        self.second = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        atexit.register(self.second.kill)
        await_until("a second host", lambda: os.readlink(f"/proc/{self.second.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
        self.ip("link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(self.second.pid))
        for number, host in enumerate(([], self.on_second())):
            self.ip("link", "set", "lo", "up", host=host)
            self.ip("address", "add", f"10.77.0.{number + 1}/24", "dev", "cable", host=host)
            self.ip("link", "set", "cable", "up", host=host)

    def on_second(self):
        return ["nsenter", f"--net=/proc/{self.second.pid}/ns/net"]

    @staticmethod
    def ip(*words, host=()):
        subprocess.run([*host, "ip", *words], check=True)

    @staticmethod
    def possible():
        """Whether this process may have a network and mounts of its own."""
        return os.getuid() == 0 and subprocess.run(["unshare", "--net", "--mount", "sh", "-c", "ip link add type veth && mount -t tmpfs none /mnt"],
                                                   stderr=subprocess.DEVNULL, check=False).returncode == 0


class Job:
    """One training, from its first start to its final checkpoint."""

    def __init__(self, name, folder, dice, disturbed=True):
        self.name, self.folder, self.dice, self.disturbed = name, folder, dice, disturbed
        self.ranks, self.options = JOBS[name]
        self.port = free_port()
        self.checkpoints, self.temp = f"{folder}/c", f"{folder}/tmp"
        self.result = f"{self.checkpoints}/{'cnn_digits' if name == 'cnn' else 'linear_random'}.safetensors"
        os.makedirs(self.temp)
        self.log = open(f"{folder}/log", "ab")
        with open(f"{folder}/secret", "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(os.urandom(32))
        if world and disturbed:
            os.mkdir(self.checkpoints)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", self.checkpoints], check=True)
        self.agents = [None] * len(self.ranks)
        self.launches = self.strikes = self.killed = 0
        self.done = 0  # when the first launcher ended with 0
        self.next_look, self.last = 0, set()

    def mark(self, agent):
        return f"CHAOS={self.folder}/{agent}"

    def command(self, agent):
        command = world.on_second() if world and agent == 1 else []
        command += [DDPRUN, "--nproc-per-node", str(self.ranks[agent]), "--max-restarts", "1000"]
        if len(self.ranks) > 1:
            command += ["--nnodes", f"1:{len(self.ranks)}", "--rdzv-endpoint",
                        f"{World.ADDRESS if world else '127.0.0.1'}:{self.port}", "--rdzv-conf", "last_call_timeout=0.3,"
                        f"keep_alive_interval=0.5,keep_alive_max_attempt={HEARTBEATS}"]
        command += [SURVIVES if self.name == "survivors" else TRAIN, *self.options.split(), "--threads", "1", "--timeout", str(STOP_TIMEOUT),
                    "--checkpoint-dir", self.checkpoints]
        return command + (self.injection() if self.disturbed else [])

    def injection(self):
        """Now and then, what ends the first attempt of this start."""
        if self.name == "cnn" or self.dice.random() < 0.5:
            return []
        kind = self.dice.choice(["kill", "exit", "slow"] + ["stop", "bitflip"] * (self.name == "one"))
        step = max([0] + [int(match[1]) for match in map(
            re.compile(r"snapshot_e\d+_s(\d+)\.").match, self.snapshots()) if match])
        rank = self.dice.randrange(self.ranks[0])  # one that is always there
        self.strikes += 1
        count["inject " + kind] = count.get("inject " + kind, 0) + 1
        return ["--inject", f"{kind}:{rank}:{step + self.dice.randrange(1, 500)}"
                + ":2" * (kind == "slow")]

    def snapshots(self):
        return os.listdir(self.checkpoints) if os.path.isdir(self.checkpoints) else []

    def start(self, agent):
        key, value = self.mark(agent).split("=")
        environ = os.environ | {key: value, "TMPDIR": self.temp}
        environ |= {"DDP_SECRET_FILE": f"{self.folder}/secret"} if has_secrets() else {}
        environ |= {"DDP_RECONFIGURE": "1"} if self.name == "survivors" else {}
        self.agents[agent] = subprocess.Popen(
            self.command(agent), env=environ, stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log, start_new_session=True)
        self.launches += 1
        if self.launches > 8 * (self.strikes + 1):
            raise Failed(f"{self.launches} starts after {self.strikes} faults")

    def output(self, offset):
        with open(self.log.name, errors="replace") as file:
            file.seek(offset)
            return file.read()

    def keep_up(self):
        """Starts again who has ended before the job was done. True once it is."""
        self.wake_last()
        for agent, process in enumerate(self.agents):
            status = process.poll() if process else -1
            if status == 0:
                self.done = self.done or time.monotonic()
            elif status is not None and not self.done:
                if process and status not in (1, 75, 137, -9, 143, 138, -15, -10):
                    raise Failed(f"launcher {agent} ended with {status}")
                if process:
                    self.nothing_left(agent)
                self.start(agent)
        if self.done and time.monotonic() > self.done + 2 * STOP_TIMEOUT:
            self.end_late_ones()
        return self.done and all(agent.poll() is not None for agent in self.agents)

    def end_late_ones(self):
        """Ends launchers as a scheduler would that were started again when the job was about to end: no other launcher
        serves the rendezvous that they wait for."""
        for process in self.agents if not self.rank_pids() else []:
            if process and process.poll() is None:
                process.terminate()

    def wake_last(self):
        """Continues ranks that were stopped when the result was there already: no rank is left to miss them."""
        if time.monotonic() > self.next_look and os.path.exists(self.result):
            self.next_look = time.monotonic() + 2 * STOP_TIMEOUT
            last = set(self.rank_pids())
            last = last if all(map(is_stopped, last)) else set()
            for pid in last & self.last:
                send(pid, signal.SIGCONT)
            self.last = last

    def nothing_left(self, agent):
        await_until(f"all of launcher {agent} to be gone", lambda: not processes(self.mark(agent)))

    def rank_pids(self):
        found = [item for agent in range(len(self.ranks))
                 for item in processes(self.mark(agent)).items()]
        return sorted(pid for pid, environ in found if any(e.startswith(b"RANK=") for e in environ))

    def strike(self, kind):
        """Does the fault. Returns whether there was anybody to do it to."""
        if kind in ("strangers", *OWN_FAULTS):
            self.strikes += 1
            return {"strangers": self.strangers, "cut-link": self.cut_link, "full-disk": self.fill_disk}[kind]()
        what, target = kind.split("-")
        pids = [agent.pid for agent in self.agents if agent and agent.poll() is None]
        pids = self.rank_pids() if target == "rank" else pids
        if not pids or (what == "stop" and (len(pids) < 2 or any(map(is_stopped, pids)))):
            return False  # where all ranks are stopped, no rank is left to notice
        pid = self.dice.choice(pids)
        number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "freeze": signal.SIGSTOP,
                  "term": signal.SIGTERM, "usr1": signal.SIGUSR1}[what]
        if what == "kill" and self.dice.random() < 0.4:
            self.await_write()
        if what == "kill" and target == "launcher":
            self.killed += 1
        send(pid, number)
        self.strikes += 1
        if what == "freeze":
            self.thaw(pid)
        return True

    def check_memory(self):
        """Nothing of ours is in /dev/shm, where it would outlive its process."""
        for pid in self.rank_pids():
            try:
                with open(f"/proc/{pid}/maps") as file:
                    if "/dev/shm" in file.read():
                        raise Failed(f"process {pid} has shared memory in /dev/shm")
            except OSError:
                pass  # it has just ended

    def await_write(self):
        """Until a snapshot is being written, for a moment."""
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            if any(name.endswith(".tmp") for name in self.snapshots()):
                count["inside a write"] = count.get("inside a write", 0) + 1
                return
            time.sleep(0.0005)

    def thaw(self, pid):
        """A launcher that is frozen is missed by others of its job, if any, and wakes up again."""
        offset, end = os.path.getsize(self.log.name), time.monotonic() + self.dice.choice([0.3, 1, 9])
        while time.monotonic() < end and not re.search("not been heard|out of reach", self.output(offset)):
            self.keep_up()
            time.sleep(0.05)
        send(pid, signal.SIGCONT)

    def pass_time(self):
        """Keeps the job running for a while, in which nothing else is done to it."""
        end = time.monotonic() + self.dice.choice([0.3, 1, 3, 9])
        while time.monotonic() < end:
            self.keep_up()
            time.sleep(0.05)

    def strangers(self):
        """All that strangers may do to the ports of the first launcher and its ranks."""
        pids = list(processes(self.mark(0)))
        with subprocess.Popen([sys.executable, "tests/steps/attacker.py", *map(str, pids)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as attacker:
            self.pass_time()
            attacker.terminate()
        return bool(pids)

    def cut_link(self):
        if len(self.ranks) == 1:
            return False
        world.ip("link", "set", "cable", "down")
        self.pass_time()
        world.ip("link", "set", "cable", "up")
        return True

    def fill_disk(self):
        ballast = f"{self.checkpoints}/ballast"
        try:
            with open(ballast, "wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
        except OSError:
            self.pass_time()  # it is full
        os.remove(ballast)
        return True

    def verify(self, reference):
        await_until("everybody to be gone", lambda: not any(
            processes(self.mark(agent)) for agent in range(len(self.ranks))))
        name = os.path.basename(self.result)
        if tensors(self.result) != tensors(f"{reference}/{name}"):
            raise Failed(f"{name} is not that of the undisturbed run")
        broken = BROKEN.search(self.output(0))
        if broken:
            raise Failed(broken[0])
        left = [name for name in self.snapshots() if name.endswith(".tmp")]
        if left := left + os.listdir(self.temp)[self.killed:]:  # SIGKILL leaves one folder
            inside = [f"{folder}: {sorted(names + files)}" for folder, names, files in os.walk(self.temp)]
            raise Failed(f"left over of {self.launches} starts, {self.killed} of them killed: {left}; {inside}")

    def end(self):
        for agent in range(len(self.ranks)):
            for pid in processes(self.mark(agent)):
                send(pid, signal.SIGKILL)
        self.log.close()
        if world and self.disturbed:
            subprocess.run(["umount", "--lazy", self.checkpoints], check=True)


def fault(job, kind):
    """One fault, timed, unless the next one is to come before the job has recovered from it."""
    offset, begun = os.path.getsize(job.log.name), time.monotonic()
    launches = job.launches
    if not job.strike(kind):
        return
    count[kind] = count.get(kind, 0) + 1
    if kind in ("freeze-launcher", "strangers", *OWN_FAULTS) or job.dice.random() < 0.25:
        return
    noticed = again = None
    while again is None and time.monotonic() < begun + TIMEOUT:
        if job.keep_up():
            return
        output = job.output(offset)
        if noticed is None and (NOTICED.search(output) or job.launches > launches):
            noticed = time.monotonic() - begun
            before, found, _ = output.partition("restarting the group")
            offset += len(before.encode()) if found else 0
        elif noticed is not None and TRAINS.search(output):
            again = time.monotonic() - begun
        time.sleep(0.01)
    if again is None:
        raise Failed(f"{kind}: no rank trains again within {TIMEOUT} s")
    times.setdefault((job.name, kind), []).append((noticed, again))


def disturb(job, enough, kinds):
    if not job.disturbed:
        job.start(0)
    end = time.monotonic() + TIMEOUT
    while not job.keep_up():
        if time.monotonic() > end:
            raise Failed("the job does not come to its end")
        if job.disturbed and not enough():
            time.sleep(job.dice.uniform(0, 1.2))
            job.check_memory()
            fault(job, job.dice.choice(kinds))
            end = time.monotonic() + TIMEOUT
        time.sleep(0.02)


def reference(name, folder):
    """The same training, undisturbed: all ranks of one launcher."""
    job = Job(name, f"{folder}/{name}", random.Random(0), disturbed=False)
    job.ranks, job.agents = [sum(job.ranks)], [None]
    disturb(job, None, None)
    job.end()
    return job.checkpoints


def soak(args):
    dice, jobs = random.Random(args.seed), 0
    names = args.job.split(",") if args.job else list(JOBS)
    shutil.rmtree(args.dir, ignore_errors=True)
    references = {name: reference(name, f"{args.dir}/straight") for name in names}
    begun = time.monotonic()

    def enough():
        faults = sum(n for kind, n in count.items() if kind in FAULTS + OWN_FAULTS)
        return time.monotonic() > begun + args.seconds or faults >= args.faults

    while not enough():
        name = names[jobs % len(names)]
        job = Job(name, f"{args.dir}/{jobs}_{name}", dice)
        try:
            disturb(job, enough, args.only.split(","))
            job.verify(references[name])
        except (Failed, OSError):
            print(job.output(max(0, os.path.getsize(job.log.name) - 8000)), f"in {job.folder}")
            raise
        finally:
            job.end()
        shutil.rmtree(job.folder)
        jobs += 1
        count["jobs"] = jobs
    shutil.rmtree(args.dir)


def counts():
    return ", ".join(f"{n} {kind}" for kind, n in sorted(count.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("CHAOS_SECONDS", 180)))
    parser.add_argument("--faults", type=int, default=1000000)
    parser.add_argument("--job", help="one of " + ", ".join(JOBS))
    parser.add_argument("--only", default=",".join(FAULTS + OWN_FAULTS * (world is not None)))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED") or random.randrange(32768)))
    args = parser.parse_args()
    print(f"SEED={args.seed}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM")) # and all jobs with it
    try:
        soak(args)
    except Failed as failure:
        sys.exit(f"SEED={args.seed}: {failure}; before that: {counts()}")
    for (name, kind), pairs in sorted(times.items()):
        noticed, again = zip(*pairs)
        print(f"{name}: {kind}: noticed after {statistics.median(noticed):.2f} s (at most "
              f"{max(noticed):.2f}), trains again after {statistics.median(again):.2f} s (at most "
              f"{max(again):.2f}); {len(pairs)} times")
    print(f"all with the reference's bytes: {counts()}")


count, times, world = {}, {}, None
if __name__ == "__main__":
    if sys.argv[1:2] == ["--own-world"]:
        del sys.argv[1]
        world = World()
    elif World.possible():
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, __file__, "--own-world", *sys.argv[1:]])
    else:
        print("no faults of disks and cables: they need root, and a network of the soak's own", flush=True)
    main()
