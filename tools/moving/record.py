#!/usr/bin/env python3
"""Usage: tools/moving/record.py [--check]      (or: make moving)

Records real runs, and puts the recordings into the pages of docs/moving. --check only compares: a fresh recording must
have the messages, rows, buckets and losses of the one in the page; times differ from run to run. Exit status 1 if they differ."""
import gzip
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools/site"))
from reasons import written_reasons  # noqa: E402

BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
ELEMENTS = 840 * 1400  # about the gradients of the CNN; 2 to 8 ranks divide it
ROWS = 22  # rows on the page of the sampler: not divisible by 4 ranks
ORDERS = 16  # orders, by epoch and seed


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120).stdout


# ---- ring.html ----

def steps_of(calls):
    """The step of each call of exchange: one more than the rank's call before, and the same as that of the calls at the
    other ends of its messages. calls[rank] = [{to, from, ...}]."""
    partner, taken = {}, {}
    for rank, own in enumerate(calls):
        for i, call in enumerate(own):
            if call["to"] >= 0:  # the receiver's first call for this rank that has no sender yet
                theirs = [j for j, other in enumerate(calls[call["to"]]) if other["from"] == rank]
                j = theirs[taken.get((rank, call["to"]), 0)]
                taken[rank, call["to"]] = taken.get((rank, call["to"]), 0) + 1
                partner[rank, i] = (call["to"], j)
    step = {(rank, i): i for rank, own in enumerate(calls) for i in range(len(own))}
    for _ in range(100):
        before = dict(step)
        for (rank, i) in step:
            if i > 0:
                step[rank, i] = max(step[rank, i], step[rank, i - 1] + 1)
        for one, other in partner.items():
            step[one] = step[other] = max(step[one], step[other])
        if step == before:
            return step, partner
    raise SystemExit("record.py: messages wait for each other")


def messages(algorithm, n):
    """Rows of [rank, to, block, step, adds, microseconds until it had arrived], as the page wants them."""
    calls = [[] for _ in range(n)]
    for line in output(BUILD + "/tools/moving/messages", algorithm, str(n), str(ELEMENTS)).splitlines():
        rank, to, sender, sent, count, received, adds, _, ended = map(int, line.split())
        calls[rank].append({"to": to, "from": sender, "sent": sent, "count": count, "received": received,
                            "adds": adds, "ended": ended})
    step, partner = steps_of(calls)
    blocks = n if algorithm == "ring" else 1
    rows = []
    for (rank, i), (to, j) in partner.items():
        call, theirs = calls[rank][i], calls[to][j]
        assert call["count"] == ELEMENTS // blocks and theirs["received"] in (call["sent"], -1), call
        rows.append([rank, to, call["sent"] // call["count"], step[rank, i], theirs["adds"], theirs["ended"]])
    return sorted(rows, key=lambda row: (row[3], row[0]))


def code(path, first, last):
    """The lines from one that begins with `first` to the next that is `last`, without the shared indentation."""
    text = open(os.path.join(ROOT, path), encoding="utf-8").read()
    found = re.search(rf"^{re.escape(first)}.*?^{re.escape(last)}$", text, re.M | re.S)
    return {"file": path, "line": text[:found.start()].count("\n") + 1, "text": found[0]}


def ring(_):
    algorithms = "common/comm/tcp/tcp_algorithms.c"
    return {
        "elements": ELEMENTS,
        "fields": ["rank", "to", "block", "step", "adds", "us"],
        "messages": {name: {str(n): messages(name, n) for n in range(2, 9)} for name in ("ring", "doubling", "star")},
        "code": {"ring": [code(algorithms, "static void go_round", "}"), code(algorithms, "void ring_all_reduce", "}")],
                 "doubling": [code(algorithms, "void doubling_all_reduce", "}")],
                 "star": [code("tools/moving/messages.c", "static void star_all_reduce", "}")]},
    }


# ---- sampler.html ----

def shards(n, rank, epoch, *options):
    return [int(row) for row in output("tools/shards", "--size", str(ROWS), "--world-size", str(n), "--rank", str(rank),
                                       "--epoch", str(epoch), *options).split()]


def sampler(_):
    with gzip.open(os.path.join(ROOT, "data/digits.csv.gz"), "rt") as file:
        digits = [[int(x) for x in next(file).split(",")] for _ in range(ROWS)]
    return {
        "rows": [{"label": digit[-1], "pixels": "".join("0123456789abcdefg"[x] for x in digit[:-1])} for digit in digits],
        "orders": [shards(1, 0, epoch) for epoch in range(ORDERS)],  # by seed + epoch
        "code": [code("common/data/sampler.c", "void sampler_set_epoch", "}"), code("common/data/sampler.c", "size_t sampler_next", "}")],
    }


# ---- overlap.html ----

CAPS, RATES = ("25", "1", "0.05"), ("0.3", "1", "3", "10")  # MiB, Gbit/s


def median(values):
    return sorted(values)[len(values) // 2]


def layers(folder):
    """Microseconds of each layer's forward and backward pass on one core, medians of 20 steps; and of the optimizer."""
    trace = folder + "/trace.json"
    output("01_single_gpu/train", "--threads", "1", "--batch-size", "64", "--max-steps", "22", "--checkpoint-dir", folder,
           "--trace", trace)
    with open(trace, encoding="utf-8") as file:
        spans = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
    evaluation = min((e["ts"] for e in spans if e["cat"] == "evaluation"), default=float("inf"))

    def microseconds(name, category):
        return round(median([e["dur"] for e in spans if e["ts"] < evaluation and (e["name"], e["cat"]) == (name, category)][2:]))

    return [{"name": name, "forward_us": microseconds(name, "forward"), "backward_us": microseconds(name, "backward")}
            for name in ("conv1", "conv2", "fc1", "fc2", "loss")], microseconds("optim_step", "optimizer")


def planned(cap):
    """The parameters of each bucket, as the Reducer plans them: lines of DDP_LOG=bucket."""
    log = subprocess.run(["02_multi_gpu_spawn/train", "--nproc", "2", "--max-steps", "1", "--bucket-cap-mb", cap,
                          "--checkpoint-dir", os.path.join(BUILD, "moving")], cwd=ROOT, capture_output=True, text=True,
                         timeout=120, env={**os.environ, "DDP_LOG": "bucket"}).stderr
    found = re.findall(r"rank 0/2.*bucket (\d+) of \d+, (\S+) to (\S+), .* MiB, is planned", log)
    return [[first, last] for number, first, last in found]


def payoff(cap, rate):
    """Milliseconds: a step with one all-reduce after the backward pass and with the Reducer, each with what of it is exposed."""
    lines = output("03_torchrun_env/ddprun", "--nproc-per-node", "2", BUILD + "/bench/payoff", "9", "--simulate-network",
                   rate + "gbit", "--bucket-cap-mb", cap, "--batch-size", "64").splitlines()[1:]
    return [round(median([float(line.split()[column]) for line in lines]), 2) for column in range(1, 5)]


def overlap(timed):
    folder = os.path.join(BUILD, "moving")
    os.makedirs(folder, exist_ok=True)
    passes, optimizer = layers(folder)
    measured = [{"cap": float(cap), "rate": float(rate), "ms": payoff(cap, rate)} for cap in CAPS for rate in RATES] if timed else []
    with open(folder + "/cnn_digits.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    parameters = [[name, 4 * math.prod(entry["shape"])] for name, entry in header.items()
                  if name.startswith(("conv", "fc"))]
    return {"parameters": parameters, "layers": passes, "optimizer_us": optimizer, "planned": {cap: planned(cap) for cap in CAPS},
            "measured": measured}


# ---- recover.html ----

RUN = ["--epochs", "3", "--num-samples", "640", "--threads", "1", "--log-interval", "1",
       "--save-every", "0", "--save-every-steps", "8"]  # 10 steps an epoch
FAULTS = {"kill": "kill:1:21", "both": "kill:0:14,kill:1:14", "frozen": "stop:1:21"}
LINES = (  # lines of the trainer and the launcher that are events
    ("start", r"\[rank (\d)/2\] (?:node|host) "),
    ("step", r"Train Epoch: (\d+) \[(\d+)/640\] Loss: (\S+)"),
    ("snapshot", r"Epoch \d+ \| Training snapshot saved at .*_s(\d+)\.safetensors"),
    ("resume", r"\[rank 0/2\] resumes from .* step (\d+)"),
    ("noticed", r"\[rank \d/2\] fatal: rank (\d) is "),
    ("restart", r"ddprun: attempt \d+: "),
    ("end", r"Epoch \d+ \| Training checkpoint saved at .*cnn_digits"))


def event(line):
    for kind, pattern in LINES:
        found = re.match(pattern, line)
        if kind == "step" and found:
            return [kind, 10 * int(found[1]) + int(found[2]) // 64 + 1, float(found[3])]
        if found:
            return [kind, *map(int, found.groups())]
    return None


def watched(fault):
    """The events of a run, [milliseconds, line, kind, ...], and the hash of the file that it leaves."""
    folder, events = os.path.join(BUILD, "moving/run"), []
    shutil.rmtree(folder, ignore_errors=True)
    command = ["05_fault_tolerance/run.sh", "2", *RUN, "--checkpoint-dir", folder, "--timeout", "2",
               *(["--inject", fault] if fault else [])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        for line in run.stdout:
            began = events[0][0] if events else time.monotonic()
            line = line.strip().replace(folder + "/", "").replace(folder, "the folder").replace(os.uname().nodename, "myhost")
            found = event(line)
            if found:
                events.append([time.monotonic() if events else began, line[:160], *found])
    with open(folder + "/cnn_digits.safetensors", "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    return [[round(1000 * (e[0] - events[0][0])), *e[1:]] for e in events], digest


def recover(timed):
    straight, digest = watched("")
    runs = {}
    for name, fault in FAULTS.items() if timed else [("kill", FAULTS["kill"])]:
        events, found = watched(fault)
        assert found == digest, f"{fault}: other bytes"
        runs[name] = {"inject": fault, "events": events}
    return {"sha256": digest, "straight": [e[4] for e in straight if e[2] == "step"], "runs": runs}


# ---- walk.html ----

def plain(markdown):
    """The same words without links, code and bold."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", markdown).replace("\n", " ")


def walk(_):
    """The diffs from each program to the next, hunk by hunk, with the reason for each."""
    written, steps = written_reasons(), []
    for name in ("02a", "02b", "02c", "02", "03", "04", "05"):
        before, program, *lines = output("tools/stepdiff.sh", name).splitlines()
        hunks = []
        for line in lines:
            if line.startswith("@@"):
                hunks.append({"line": int(re.search(r"\+(\d+)", line)[1]), "lines": []})
            else:
                hunks[-1]["lines"].append(line)
        for hunk in hunks:
            changed = [line for line in hunk["lines"] if line[0] != " "]
            hunk["why"] = " ".join(plain(why) for piece, why, _ in written[name] if any(piece in line for line in changed))
            keys = [piece for piece, _, key in written[name] if key]
            hunk["key"] = next((i for i, line in enumerate(hunk["lines"]) if line[0] != " " and keys[0] in line), -1)
        idea = open(os.path.join(ROOT, program[4:].split("\t")[0]), encoding="utf-8").read().split(" - ", 1)[1].split("\n")[0]
        steps.append({"name": name, "program": program[4:].split("\t")[0], "idea": idea.rstrip("."), "hunks": hunks})
    first = open(os.path.join(ROOT, "01_single_gpu/train.c"), encoding="utf-8").read()
    return {"steps": steps, "lines": first.count("\n"), "first": code("01_single_gpu/train.c", "static void run_batch", "}")["text"]}


# ---- play.html ----

PLAYED = {"01": "01_single_gpu/train.c", "02a": "02_multi_gpu_spawn/train_a_spawn.c", "02b": "02_multi_gpu_spawn/train_b_all_reduce.c",
          "02c": "02_multi_gpu_spawn/train_c_sampler.c", "02": "02_multi_gpu_spawn/train.c"}
STRIKES = ("broadcast(", "sampler_set_epoch(", "model_zero_grad(", "model_set_grad_hook(", "reducer_finalize(", "all_reduce(")  # struck.h
SHOWN = (*STRIKES, "static void run_batch(", "model_backward(", "optim_step(", "static void train(", "for (int epoch", "run_batch(&model")


def play(_):
    """The lines that matter of each program, each with its number in struck.h, or -1."""
    programs = {}
    for name, path in PLAYED.items():
        lines = [line.split(" // ")[0].rstrip() for line in open(os.path.join(ROOT, path), encoding="utf-8")]
        programs[name] = {"file": path, "lines": [[re.sub(r"(?<=.{58}).{5,}", " ...", line), next((i for i, piece in enumerate(STRIKES) if line.strip().startswith(piece)), -1)]
                                                  for line in lines if line.strip().startswith(SHOWN)]}
    return programs


# ---- the pages ----

PAGES = {"ring": ring, "sampler": sampler, "overlap": overlap, "recover": recover, "walk": walk, "play": play}
DATA = re.compile(r'(<script type="application/json" id="data">\n).*?(\n</script>)', re.S)


def without_times(data):
    """Returns what is the same on every machine: neither times nor, from one kind of CPU to another, the last bits of a file
    and of the losses."""
    for runs in data.get("messages", {}).values():
        for rows in runs.values():
            rows[:] = [row[:-1] for row in rows]
    return {key: value for key, value in data.items() if key not in ("layers", "optimizer_us", "measured", "runs", "sha256", "straight")}


def alike(losses, others):
    """Compares losses up to rounding: another kind of CPU rounds sums in another order."""
    return len(losses) == len(others) and all(math.isclose(a, b, abs_tol=1e-4) for a, b in zip(losses, others))


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    differ = 0
    for name, record in PAGES.items():
        path = os.path.join(ROOT, f"docs/moving/{name}.html")
        page = open(path, encoding="utf-8").read()
        data = record(not check)
        if check:
            kept = json.loads(DATA.search(page)[0].split("\n", 1)[1].rsplit("\n", 1)[0])
            same = alike(kept.get("straight", []), data.get("straight", [])) and without_times(kept) == without_times(data)
            print(f"docs/moving/{name}.html: {'as recorded now' if same else 'differs from a recording: make moving'}")
            differ |= not same
            continue
        text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
        with open(path, "w", encoding="utf-8") as file:
            file.write(DATA.sub(lambda old, text=text: old[1] + text + old[2], page))
    sys.exit(differ)


if __name__ == "__main__":
    main()
