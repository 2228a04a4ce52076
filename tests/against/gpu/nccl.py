"""Checks of tests/against/gpu/check.py: NCCL's ranks, on one GPU, on two and on all of them."""
import json, os, socket, subprocess, time

import case
from case import ARCH, BUILD, SHORT, Skip, apart, check, expect, log, losses, run, sanitizer, sees_the_control, share_a_gpu, train
from machine import library

TRAIN = ["03_torchrun_env/train", "--device", "cuda", "--backend", "nccl"]


def group_sizes():
    return sorted({1, 2, case.num_gpus})


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def start(num_ranks, folder, command):
    """The command as ranks of a job. Where GPUs are too few, ranks share the first, as if on hosts of their own."""
    with open(os.path.join(BUILD, "parts")) as parts:
        if "NCCL=1" not in parts.read():
            raise Skip("built without NCCL: there is no nccl.h beside CUDA's headers, in /usr/include, in Python's packages or in NCCL_HOME")
    if not library("libnccl.so.2"):
        raise Skip("no libnccl.so.2 in the linker's path, CUDA's folder, NCCL_HOME or LD_LIBRARY_PATH")
    if num_ranks > case.num_gpus:
        share_a_gpu()
    os.makedirs(folder, exist_ok=True)
    port, ranks = free_port(), []
    for rank in range(num_ranks):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(num_ranks), LOCAL_RANK=str(rank),
                           LOCAL_WORLD_SIZE=str(num_ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                           NCCL_DEBUG="WARN")
        if num_ranks > case.num_gpus:
            environment.update(NCCL_HOSTID="host%d" % rank, NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1",
                               LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
        output = open("%s/output%d" % (folder, rank), "w+")
        ranks.append((subprocess.Popen(command, env=environment, stdout=output, stderr=output), output))
    log.write("\n$ %d ranks: %s\n" % (num_ranks, " ".join(command)))
    return ranks


def options_of(folder, *options):
    return ["--checkpoint-dir", folder, "--metrics-dir", folder, *map(str, options)]


def end_of(ranks, limit):
    """Status and output of each rank."""
    ends, deadline = [], time.monotonic() + limit
    try:
        for process, _ in ranks:
            process.wait(max(1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass
    for process, output in ranks:
        late = process.poll() is None
        if late:
            process.kill()
            process.wait()
        output.seek(0)
        ends.append(("late" if late else process.returncode, output.read()))
        output.close()
        log.write("--- rank: status %s\n%s" % ends[-1])
    return ends


def run_well(num_ranks, folder, command, limit=600):
    for rank, (status, output) in enumerate(end_of(start(num_ranks, folder, command), limit)):
        lines = [line for line in output.strip().split("\n") if line]
        expect(status == 0, "%s, rank %d of %d: status %s: %s" % (
            os.path.basename(folder), rank, num_ranks, status, lines[-1] if lines else "no output"))


def number_of_steps(folder, rank):
    try:
        return len(losses(folder, rank))
    except (OSError, ValueError):
        return 0


def replayed_steps(trace):
    """How often rank 0 launched a recorded step: the first time right after it was recorded."""
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    return len([e for e in events if e.get("name") == "step (graph)" and (e["pid"], e["tid"]) == (1, 1)])


@check
def nccl_as_on_the_cpu(scratch):
    """Called, as graphs and compared: each must give the losses of as many ranks on CPUs."""
    ways, notes = {"calls": [], "graph": ["--cuda-graph", "on"], "checked": ["--check-collectives", "on"]}, []
    for count in group_sizes():
        # Batches of one size, or no step is recorded: 96 rows of each rank, three batches an epoch.
        options = [*SHORT, "--num-samples", 96 * count, "--epochs", 3, "--dropout", "off"]
        cpu, most = os.path.join(scratch, "cpu%d" % count), 0
        train("03", cpu, *options, "--device", "cpu", ranks=count)
        for way, more in ways.items():
            folder = os.path.join(scratch, "%s%d" % (way, count))
            trace = os.path.join(folder, "trace.json")
            run_well(count, folder, [*TRAIN, *options_of(folder, *options, *more, "--trace", trace)])
            for rank in range(count):
                error = apart(losses(folder, rank), losses(cpu, rank))
                expect(error < 1e-3, "%s, rank %d of %d: losses are off by %.1e" % (way, rank, count, error))
                most = max(most, error)
            replays = replayed_steps(trace)
            expect(replays == (6 if way == "graph" else 0), "%s: %d steps were a graph" % (way, replays))
        notes.append("%d: %.0e" % (count, most))
    return "%d GPU%s; ranks and how far off: %s" % (case.num_gpus, "s" if case.num_gpus > 1 else "", ", ".join(notes))


@check
def nccl_collectives_and_messages(scratch):
    """Every collective, and send and recv between each two ranks (nccl_ranks.c)."""
    program = os.path.join(BUILD, "tests/against/gpu/nccl_ranks")
    run(["make", "-s", ARCH, program], limit=600)
    for count in group_sizes():
        run_well(count, os.path.join(scratch, "ranks%d" % count), [program])
    return "%s ranks" % ", ".join(map(str, group_sizes()))


@check
def nccl_under_compute_sanitizer(scratch):
    kinds, count = ["memcheck", "racecheck", "initcheck"], 2
    for kind in kinds:
        sees_the_control(kind)
        folder = os.path.join(scratch, kind)
        options = options_of(folder, *SHORT, "--num-samples", 96 * count, "--max-steps", 2, "--threads", 1)
        run_well(count, folder, [*sanitizer(kind), *TRAIN, *options])
    return "%s, %d ranks" % (", ".join(kinds), count)


@check
def nccl_names_a_rank_that_died(scratch):
    folder, limit = os.path.join(scratch, "killed"), 60
    ranks = start(2, folder, [*TRAIN, *options_of(folder, "--epochs", 100000, "--save-every", 0, "--timeout", limit)])
    deadline = time.monotonic() + 120
    while number_of_steps(folder, 1) < 5 and time.monotonic() < deadline:
        if any(process.poll() is not None for process, _ in ranks):
            break
        time.sleep(0.1)
    started = number_of_steps(folder, 1) >= 5
    ranks[1][0].kill()
    killed = time.monotonic()
    (status, output), _ = end_of(ranks, 2 * limit)
    took = time.monotonic() - killed
    expect(started, "the ranks made no step: " + output.strip().split("\n")[-1])
    expect(status == 1 and "rank 1" in output, "rank 0: status %s, and no word of rank 1" % status)
    return "after %.1f s" % took
