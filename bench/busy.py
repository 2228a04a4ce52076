#!/usr/bin/env python3
"""Usage: [LOAD=n] bench/busy.py [--lines 1gbit,100mbit,loopback,memory] [--turns 3] [--bytes 5000000] [--old CHECKOUT]
An all-reduce of four ranks, ours and Open MPI's in turns, over lines of a rate (network namespaces: takes root and
tc), over loopback, and through memory; LOAD=n: while n processes keep the cores busy. CHECKOUT: another copy of this
repository with its build/bench/collectives, to compare with. Medians of the turns, lowest and highest, in ms."""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import machine

RANKS = 4
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RATE = re.compile(r"([0-9.]+)([kmg]bit)")
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
NODES = [f"ddp{os.getpid()}n{i}" for i in range(RANKS)]  # network namespaces
NET = "10.97.0"
BUSY = ["sh", "-c", "while :; do :; done"]
# A plain stream of bytes from one node to the next, which says how near to the rate anything can come.
SINK = """import socket
connection = socket.create_server(("0.0.0.0", 7000)).accept()[0]
while connection.recv(1 << 18): pass
connection.send(b".")"""
SOURCE = f"""import socket, sys, time
connection, data = socket.create_connection(("{NET}.11", 7000)), bytes(int(sys.argv[1]))
begin = time.monotonic()
connection.sendall(data)
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
print(1e3 * (time.monotonic() - begin))"""


def call(*command):
    subprocess.run(command, check=True)


def inside(node, *command):
    return ["ip", "netns", "exec", NODES[node], *command]


@contextlib.contextmanager
def network(rate):
    """A namespace for each rank, and a bridge between them; both ends of each cable are limited."""
    bridge, shape = f"ddp{os.getpid()}", ["root", "tbf", "rate", rate, "burst", "128kb", "latency", "50ms"]
    try:
        call("ip", "link", "add", bridge, "type", "bridge")
        call("ip", "link", "set", bridge, "up")
        for i, node in enumerate(NODES):
            call("ip", "netns", "add", node)
            call("ip", "link", "add", f"{node}v", "type", "veth", "peer", "name", "eth0", "netns", node)
            call("ip", "link", "set", f"{node}v", "master", bridge, "up")
            call("ip", "-n", node, "address", "add", f"{NET}.1{i}/24", "dev", "eth0")
            for link in "eth0", "lo":
                call("ip", "-n", node, "link", "set", link, "up")
            call("tc", "-n", node, "qdisc", "add", "dev", "eth0", *shape)
            call("tc", "qdisc", "add", "dev", f"{node}v", *shape)
        yield
    finally:
        # The cables by name: a namespace in which a process is left keeps its own.
        for kind, name in [("link", f"{node}v") for node in NODES] + [("netns", node) for node in NODES] + [("link", bridge)]:
            subprocess.run(["ip", kind, "delete", name], stderr=subprocess.DEVNULL, check=False)


@contextlib.contextmanager
def load(count):
    busy = [subprocess.Popen(BUSY) for _ in range(count)]
    try:
        time.sleep(1 if busy else 0)
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def finish(processes, who):
    """What the first of them printed, once all have ended."""
    try:
        texts = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(process.returncode for process in processes):
        sys.exit(f"{who}: ended with status {[process.returncode for process in processes]}")
    return texts[0]


def start(command, **environment):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            env={**os.environ, "OMP_NUM_THREADS": "1", **environment})


def ours(root, line, size):
    program = [f"{root}/build/bench/collectives", "tcp", "4", f"all_reduce={size}"]
    if line in ("loopback", "memory"):
        launcher = [f"{root}/03_torchrun_env/ddprun", "--standalone", "--nproc-per-node", str(RANKS), "--no-python"]
        return finish([start(launcher + program, DDP_SHM_DISABLE=str(int(line == "loopback")))], root)
    # The nodes share this machine's cores, and the ranks must know that.
    return finish([start(inside(i, *program), RANK=str(i), LOCAL_RANK=str(i), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS),
                         MASTER_ADDR=f"{NET}.10", MASTER_PORT="29500") for i in range(RANKS)], root)


def open_mpi(line, size, agent):
    command = ["mpirun", "-n", str(RANKS), "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl",
               "vader,self" if line == "memory" else "tcp,self"]
    command += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    if line in ("loopback", "memory"):
        command += ["--oversubscribe"]
    else:  # a node's name is its namespace's, and `agent` enters that instead of calling ssh
        for name, value in ("plm_rsh_agent", agent), ("oob_tcp_if_include", "eth0"), ("btl_tcp_if_include", "eth0"):
            command += ["--mca", name, value]
        command = [agent, NODES[0], *command, "--host", ",".join(NODES)]
    return finish([start([*command, f"{HERE}/build/bench/collectives_mpi", "4", f"all_reduce={size}"])], "Open MPI")


def stream(size):
    sink = start(inside(1, sys.executable, "-c", SINK))
    time.sleep(1)
    return float(finish([start(inside(0, sys.executable, "-c", SOURCE, str(size))), sink], "a plain stream"))


def shown(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def measure(line, args, agent):
    """A row of the table: its ways take turns."""
    moved = 2 * (RANKS - 1) * args.bytes // RANKS  # what a rank must send at least
    rate = RATE.fullmatch(line)
    ways = {"ddp.c": lambda: ours(HERE, line, args.bytes), "Open MPI": lambda: open_mpi(line, args.bytes, agent)}
    if args.old:
        ways["old"] = lambda: ours(args.old, line, args.bytes)
    found = {way: [] for way in ways}
    streams = []
    before = os.getloadavg()[0]
    for _ in range(args.turns):
        for way, run in ways.items():
            value = re.search(r"^.*?(\{\"case.*\})", run(), re.M)
            found[way].append(1e-3 * json.loads(value[1])["value"])
        if rate:
            streams.append(stream(moved))
    median = {way: statistics.median(values) for way, values in found.items()}
    ideal = 1e3 * 8 * moved / (float(rate[1]) * UNITS[rate[2]]) if rate else None
    cells = [line, f"{ideal:.0f}" if rate else "", f"{statistics.median(streams):.0f}" if rate else ""]
    cells += [f"{shown(median[way])} ({shown(min(found[way]))}-{shown(max(found[way]))})" for way in ways]
    cells += [f"{median['ddp.c'] / ideal:.2f}x" if rate else "", f"{median['Open MPI'] / median['ddp.c']:.2f}x"]
    cells += [f"{median['old'] / median['ddp.c']:.2f}x"] if args.old else []
    print("| " + " | ".join(cells) + f" | {before:.0f} to {os.getloadavg()[0]:.0f} |", flush=True)


def stop(number, _):
    """Leaves no network, no load and no ranks behind, even if timeout(1) signals twice."""
    for one in signal.SIGTERM, signal.SIGHUP:
        signal.signal(one, signal.SIG_IGN)
    sys.exit(128 + number)


def lines(text):
    for line in text.split(","):
        if line not in ("loopback", "memory") and not RATE.fullmatch(line):
            raise argparse.ArgumentTypeError(f"{line}: it is a rate, such as 1gbit, or loopback, or memory")
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[0][7:], description=__doc__.split("\n", 1)[1])
    parser.add_argument("--lines", type=lines, default="1gbit,100mbit,loopback,memory")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=5_000_000)
    parser.add_argument("--old")
    args = parser.parse_args()
    if args.turns < 1:
        parser.error(f"argument --turns: {args.turns}: it is a number from 1 on")
    if any(map(RATE.fullmatch, args.lines)) and (os.geteuid() != 0 or not shutil.which("tc") or not shutil.which("ip")):
        sys.exit("busy.py: a line of a rate takes root, ip and tc (iproute2); --lines loopback,memory does not")
    for one in signal.SIGTERM, signal.SIGHUP:
        signal.signal(one, stop)
    machine.inherit_orphans()
    call("make", "-s", "-C", HERE, "03", "build/bench/collectives", "build/bench/collectives_mpi")
    ways = ["ddp.c", "Open MPI"] + ["old"] * bool(args.old)
    heads = ["line", "by its bytes", "a stream", *ways, "ddp.c to its bytes", "Open MPI to ddp.c"]
    heads += ["old to ddp.c"] * bool(args.old) + ["load"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads), flush=True)
    with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as agent:
        agent.write('#!/bin/sh\nnode=$1 && shift\nexec ip netns exec "$node" unshare --uts '
                    'sh -c "hostname $node; $*"\n')
    os.chmod(agent.name, 0o700)
    try:
        with load(int(os.environ.get("LOAD", "0"))):
            for line in args.lines:
                with contextlib.nullcontext() if line in ("loopback", "memory") else network(line):
                    measure(line, args, agent.name)
    finally:
        machine.end_children()  # those of mpirun, which only it knew
        os.unlink(agent.name)


if __name__ == "__main__":
    main()
