#!/usr/bin/env python3
"""How a job of many ranks starts on this machine, how many connections it opens, and how long a step's all-reduce takes:
ours by ddprun, PyTorch's Gloo by torchrun (TORCH_BIN names its bin folder) and Open MPI, in turns, each over sockets.

Every run is a line of OUT.jsonl as soon as it is measured. A run that takes longer than the limit, or leaves less than a
tenth of the memory free, is ended and named, and that launcher is not tried with more ranks. Then come medians, the model
of many_ranks_model.py, OUT.svg and OUT.png.
"""
import argparse
import glob
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import machine
import many_ranks_model as model
import report

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BUILD", "build")
LAUNCHERS = ["ddprun", "torchrun", "mpirun"]
CHOICES = [*LAUNCHERS, "nodes"]  # nodes takes its turn only if it is named
NODES = 16  # of "nodes", which is ddprun on as many machines (bench/nodes.sh)


class NotMeasured(Exception):
    """Why a run has no row."""


def command_of(who, ranks, program):
    """The command line, and what it adds to the environment. All ways use sockets, as between machines."""
    torchrun_words = ["--standalone", "--nproc-per-node", str(ranks), "--no-python"]
    if who == "ddprun":
        return ["03_torchrun_env/ddprun", *torchrun_words, f"{BUILD}/bench/many_ranks", *program], {"DDP_SHM_DISABLE": "1"}
    if who == "nodes":
        if os.getuid() != 0 or ranks % NODES:
            raise NotMeasured(f"nodes take root, and a multiple of {NODES} ranks")
        return ["bench/nodes.sh", str(NODES), str(ranks // NODES), f"{BUILD}/bench/many_ranks", *program], {"DDP_SHM_DISABLE": "1"}
    if who == "torchrun":
        python = os.path.join(os.environ.get("TORCH_BIN") or "/nowhere", "python")
        if not os.path.exists(python):
            raise NotMeasured("no PyTorch here: tests/against/torch/venv.sh gets it")
        return [python, "-m", "torch.distributed.run", *torchrun_words, python, "bench/many_ranks_gloo.py", *program], \
            {"GLOO_SOCKET_IFNAME": "lo"}
    if not shutil.which("mpirun"):
        raise NotMeasured("no mpirun here")
    return ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl",
            "tcp,self", f"{BUILD}/bench/many_ranks_mpi", *program], \
        {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def parents():
    """pid -> its parent."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                pid, rest = file.read().split(" ", 1)
                found[int(pid)] = int(rest.rsplit(")", 1)[1].split()[1])
        except OSError:
            pass  # it has ended meanwhile
    return found


def descendants(pid, found):
    children = [child for child, parent in found.items() if parent == pid]
    return [pid] + [one for child in children for one in descendants(child, found)]


def memory(pids):
    """MB of a process: of what it shares with others its part."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return total / 1000 / len(pids)


def connections(pids):
    """TCP connections that each process holds, to whichever process."""
    established = set()
    networks = {os.readlink(f"/proc/{pid}/ns/net"): pid for pid in pids}
    for path in [f"/proc/{pid}/net/{name}" for pid in networks.values() for name in ("tcp", "tcp6")]:
        with open(path, encoding="ascii") as file:
            for line in list(file)[1:]:
                words = line.split()
                if words[3] == "01":
                    established.add(f"socket:[{words[9]}]")
    counts = []
    for pid in pids:
        links = set()
        for path in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                links.add(os.readlink(path))
            except OSError:
                pass  # closed meanwhile
        counts.append(len(links & established))
    return counts


def memory_left():
    """The part of this machine's memory that is available."""
    with open("/proc/meminfo", encoding="ascii") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in file}
    return sizes["MemAvailable"] / sizes["MemTotal"]


def wait_for(folder, what, ranks, launcher, deadline, limit):
    """What the ranks have written, as lists of numbers, once all have."""
    while len(names := glob.glob(f"{folder}/rank*.{what}")) < ranks:
        if launcher.poll() is not None:
            raise NotMeasured(f"ended with status {launcher.returncode}, {len(names)} of {ranks} ranks having {what}")
        if time.monotonic() > deadline:
            raise NotMeasured(f"not done after {limit} s: {len(names)} of {ranks} ranks had {what}")
        if memory_left() < 0.1:  # sooner than the system kills some process
            raise NotMeasured(f"this machine's memory is not enough: {len(names)} of {ranks} ranks had {what}")
        time.sleep(0.02)
    texts = []
    for name in names:
        with open(name, encoding="ascii") as file:
            texts.append([float(word) for word in file.read().split()])
    return texts


def measure(who, ranks, args, folder):
    """A row."""
    gates = []
    for gate in "steps", "end":
        os.mkfifo(f"{folder}/{gate}")
    command, environment = command_of(who, ranks, [folder, str(args.bytes), str(args.calls)])
    load, begin = os.getloadavg()[0], time.monotonic()
    deadline = begin + args.limit
    with open(f"{folder}/errors", "w", encoding="utf-8") as errors:
        launcher = subprocess.Popen(command, stdout=errors, stderr=errors, stdin=subprocess.DEVNULL, cwd=HERE,
                                    env={**os.environ, "OMP_NUM_THREADS": "1", **environment})
    try:
        started = wait_for(folder, "started", ranks, launcher, deadline, args.limit)
        pids = [int(words[0]) for words in started]
        begun, formed, first = (max(words[i] for words in started) for i in (1, 2, 3))
        around = set(descendants(launcher.pid, parents())) - set(pids)
        rank_cpu, launcher_cpu = (sum(machine.scheduled(pid)[0] for pid in some) for some in (pids, around))
        at_start = connections(pids)
        gates.append(os.open(f"{folder}/steps", os.O_RDWR))  # with a writer the FIFO lets all ranks pass
        done = wait_for(folder, "done", ranks, launcher, deadline, args.limit)
        at_end, held = connections(pids), memory(pids)
        gates.append(os.open(f"{folder}/end", os.O_RDWR))
        try:
            status = launcher.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise NotMeasured(f"not ended after {args.limit} s") from None
        if status != 0:
            raise NotMeasured(f"ended with status {status}")
    except NotMeasured as error:
        with open(f"{folder}/errors", encoding="utf-8", errors="replace") as errors:
            lines = [line.strip() for line in errors if line.strip(" -=\n")]
        raise NotMeasured(f"{error}" + (f" ({lines[-1][:120]})" if lines else "")) from None
    finally:
        for gate in gates:
            os.close(gate)
        machine.end_children()
    return {"launch": begun - begin, "meeting": formed - begun, "first": first - formed, "start": first - begin,
            "connections_start": max(at_start), "connections": max(at_end), "ends": sum(at_end),
            "all_reduce": statistics.median(one for one, _ in done), "short": statistics.median(one for _, one in done),
            "memory": held, "rank_cpu": rank_cpu / ranks, "launcher_cpu": launcher_cpu, "load": load}


def measure_all(args, file):
    missing = {}  # who -> why: larger jobs are not tried
    for ranks in args.ranks:
        for turn in range(args.turns):
            for who in args.who:
                if who in missing:
                    continue
                row = {"who": who, "ranks": ranks, "turn": turn + 1, "bytes": args.bytes}
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        row.update(measure(who, ranks, args, folder))
                    except NotMeasured as error:
                        missing[who] = row["missing"] = str(error)
                print(json.dumps(row), file=file, flush=True)
                news = row.get("missing") or f"started after {row['start']:.2f} s"
                print(f"many_ranks.py: {who}, {ranks} ranks, turn {turn + 1}: {news}", file=sys.stderr, flush=True)


def medians(rows):
    """(who, ranks) -> a row of medians, in the order measured; those that were not measured are left out."""
    found = {}
    for row in rows:
        if "missing" not in row:
            found.setdefault((row["who"], row["ranks"]), []).append(row)
    return {key: {name: statistics.median(row[name] for row in same) for name in same[0] if name != "who"}
            for key, same in found.items()}


def print_table(rows, found):
    heads = ["ranks", "launcher", "start-up, s", "launch", "meeting", "first call", "connections a rank", "after the step",
             "step's all-reduce, s", "64 KiB, s", "memory a rank, MB", "processor's s a rank", "and the launcher's", "load"]
    cells = []
    for (who, ranks), row in found.items():
        cells.append([str(ranks), who, *(report.number(row[name]) for name in ("start", "launch", "meeting", "first")),
                      *(f"{row[name]:.0f}" for name in ("connections_start", "connections")),
                      *(report.number(row[name]) for name in ("all_reduce", "short", "memory", "rank_cpu", "launcher_cpu")), f"{row['load']:.1f}"])
    print(report.table(heads, cells))
    for row in rows:
        if "missing" in row:
            print(f"\nNot measured: {row['who']}, {row['ranks']} ranks: {row['missing']}.")


def stop(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    machine.end_children()
    sys.exit(143)


def positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: it is a number from 1 on")
    return int(text)


def numbers(text):
    values = sorted(positive(word) for word in text.split(","))
    if values[0] < 2:
        raise argparse.ArgumentTypeError(f"{text}: a job has at least 2 ranks")
    return values


def launchers(text):
    for word in text.split(","):
        if word not in CHOICES:
            raise argparse.ArgumentTypeError(f"{word}: it is {', '.join(CHOICES)}")
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=numbers, default=[8, 32, 64, 128], metavar="N,...", help="8,32,64,128")
    parser.add_argument("--who", type=launchers, default=LAUNCHERS, metavar="LAUNCHER,...",
                        help=f"{','.join(LAUNCHERS)}; nodes: ddprun on {NODES} network namespaces")
    parser.add_argument("--turns", type=positive, default=1, metavar="N")
    parser.add_argument("--limit", type=positive, default=300, metavar="SECONDS", help="of one run")
    parser.add_argument("--bytes", type=positive, default=4799528, metavar="N", help="of the step: all gradients of the CNN")
    parser.add_argument("--calls", type=positive, default=3, metavar="N", help="all-reduces of which the median counts")
    parser.add_argument("--out", default=f"{BUILD}/many_ranks", help="where .jsonl, .svg and .png go")
    parser.add_argument("--draw", action="store_true", help="measure nothing: show what OUT.jsonl has")
    args = parser.parse_args()
    args.out = os.path.abspath(args.out)
    os.chdir(HERE)
    if not args.draw:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # 128 ranks of Gloo take as many in each
        signal.signal(signal.SIGTERM, stop)
        machine.inherit_orphans()
        os.makedirs(os.path.dirname(args.out), exist_ok=True)
        with open(args.out + ".jsonl", "w", encoding="utf-8") as file:
            measure_all(args, file)
    with open(args.out + ".jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    found = medians(rows)
    print_table(rows, found)
    model.show(found, len(os.sched_getaffinity(0)), args.out)
    sys.exit(any(row["who"] == "ddprun" and "missing" in row for row in rows))


if __name__ == "__main__":
    main()
