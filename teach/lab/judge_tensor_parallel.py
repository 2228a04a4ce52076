#!/usr/bin/env python3
"""Usage: teach/lab/judge_tensor_parallel.py tensor_parallel PROGRAM OURS FOLDER
Runs a learner's PROGRAM of tensor parallelism: what its ranks call, by their journals, and the lines and files that it
leaves, beside OURS'. Hints are in teach/lab/tensor_parallel.txt. Exit status 1: there is a mistake. LAB_OURS=FOLDER keeps
what OURS leaves there, for the next time."""
import os
import re
import shutil
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(TOP / "teach/lab")]
import journal
import judge_zero
import orphans
import witness

TOLERANCE = 1e-5  # of the largest number of a tensor: another order of additions
BATCH = 8
COMMON = ["--epochs", "1", "--num-samples", "64", "--batch-size", str(BATCH), "--save-every", "1", "--log-interval", "1"]
RUNS = {  # the cnn on two replicas of two ranks; the mlp, whose second layers have relu, on one
    "cnn": ["--nproc", "4", *COMMON, "--momentum", "0.9"],
    "mlp": ["--nproc", "2", *COMMON, "--model", "mlp", "--max-steps", "2"],
}
FC1_INPUTS, FC2_OUTPUTS = 9216, 10  # of the cnn
WHOLE, SPLIT = 1199882, 609354  # its parameters, and one rank's


def start(program, folder, options):
    """Runs it. Returns its error, or None; its lines are in folder/lines."""
    output, failure = judge_zero.run(program, folder, options, max(3, judge_zero.SECONDS // 10))
    lines = sorted(line for line in output.splitlines() if re.match("T(rain|est) Epoch", line))
    with witness.fresh(folder / "lines") as file:
        file.write("\n".join(lines))
    return failure


def mistake(name, text):
    judge_zero.mistake("tensor_parallel", name, text)


def calls(entries):
    """(operation, type, count, op, group) of each call that was started."""
    return [(e.about[1], e.values["type"], int(e.values["count"]), e.values.get("op"), e.values.get("group"),
             e.values.get("data", "")) for e in entries if e.word == "start"]


def between(entries, begin, end):
    """The entries of the first step from the one that is `begin` to the one that is `end`."""
    words = [" ".join([e.word, *e.about]) for e in entries]
    if begin not in words or end not in words[words.index(begin):]:
        return None
    first = words.index(begin)
    return entries[first:words.index(end, first)]


def judge_sum(entries, name, begin, end, count, what):
    """Yields a mistake in one of the two sums, of `count` numbers."""
    inside = between(entries, begin, end)
    if inside is None:
        return
    sums = [call for call in calls(inside) if call[0] in ("all_reduce", "reduce") and call[2] == count]
    if not sums:
        yield name, f"nobody adds up {what}, {count} numbers"
    elif sums[0][3] != "sum":
        yield "sum", f"{what} are combined by {sums[0][3]}"
    elif not sums[0][4].startswith("tensor"):
        yield "group", f"{what} are added up over the group {sums[0][4] or 'all'}"


def rows_of(ranks, trained):
    """What each rank has in its batches: lists of rows."""
    return [[e.values["rows"] for e in rank[0].all("batch") if (e.about[1] == "train") == trained] for rank in ranks]


def named(folder):
    """Yields the mistakes that the journals of the cnn show: their names, and what was seen."""
    found = journal.read(folder / "journal")
    if len(found) < 4 or not all(found.values()):
        return
    ranks = [found[rank] for rank in range(4)]
    entries = ranks[0][0].entries
    model = ranks[0][0].one("model")
    made = next((i for i, e in enumerate(entries) if e.word == "model"), len(entries))
    train = rows_of(ranks, True)
    broadcasts = [call for call in calls(entries[:made]) if call[0] == "broadcast"]
    if model and int(model["parameters"]) == WHOLE:
        yield "parts", "each rank has all parameters"
    elif model and not any(call[2] == WHOLE and call[4] == "all" for call in broadcasts):
        yield "broadcast", f"no broadcast over all ranks sends the {WHOLE} parameters before they are divided"
    if all(train) and train[0][0] != train[1][0]:
        yield "rows", "ranks 0 and 1, which have parts of one replica, train on different rows"
    elif all(train) and train[0][0] == train[2][0]:
        yield "rows", "ranks 0 and 2, which have the same parts, train on the same rows"
    elif train[0] and train[0][0].count(",") + 1 != BATCH:
        yield "rows", f"with --batch-size {BATCH} a replica has {train[0][0].count(',') + 1} rows in a step"
    yield from judge_sum(entries, "forward", "zero_grad", "forward", BATCH * FC2_OUTPUTS, "the outputs of fc2")
    yield from judge_sum(entries, "backward", "gradient fc1.weight", "gradient conv2.weight", BATCH * FC1_INPUTS,
                         "the gradients of the input of fc1")
    means = [call for call in calls(entries) if call[0] == "all_reduce" and call[5].startswith("grads+")]
    wrong = [call for call in means if not call[4].startswith("data")]
    if wrong:
        yield "replicas", f"gradients are averaged over the group {wrong[0][4]}"
    elif ranks[0][0].steps and not means:
        yield "replicas", "nobody averages gradients"
    elif any(call[3] == "mean" and call[2] > SPLIT for call in calls(entries)):
        yield "reducer", "the Reducer averages more gradients than this rank has parts"
    tested = rows_of(ranks, False)
    if all(tested) and tested[0] != tested[1]:
        yield "evaluation", "the ranks of one replica test different rows"
    elif all(tested) and tested[0] == tested[2]:
        yield "evaluation", "both replicas test the same rows"
    for file in judge_zero.saved_ungathered(entries):
        yield "unshard", f"rank 0 writes {file}, and nobody has sent it the other parts"


def difference(mine, due):
    """What is wrong with a file, or None."""
    if not mine.exists():
        return f"it does not save {due.name}"
    if mine.read_bytes() == due.read_bytes():
        return None
    have, want = (judge_zero.tensors_in(path.read_bytes()) for path in (mine, due))
    for name, (shape, values) in want.items():
        if name not in have or have[name][0] != shape:
            return f"in {due.name}, {name} has not the shape {shape}"
        scale = max(map(abs, values)) or 1
        worst = max(abs(a - b) for a, b in zip(have[name][1], values)) / scale
        if not worst <= TOLERANCE:
            return f"in {due.name}, {name} differs from ours by {worst:.1e} of its largest number"
    return None


def of_rank_0(folder):
    """Its journal, or None."""
    starts = journal.read(folder / "journal").get(0)
    return starts[0] if starts else None


def losses(folder):
    found = of_rank_0(folder)
    return [float(step.values["loss"]) for step in found.steps] if found else []


def sent(folder):
    found = of_rank_0(folder)
    return sum(call[2] for call in calls(found.entries) if call[0] == "all_reduce") if found else 0


def compare(name, theirs, ours, options):
    with_options = f"with {' '.join(options)}"
    mine, due = losses(theirs), losses(ours)
    if mine and due and abs(mine[0] - due[0]) > 1e-5 * abs(due[0]):
        mistake("bias", f"{with_options} the first loss is {mine[0]:.6f}, and not {due[0]:.6f}")
    for file in sorted(ours.glob("*.safetensors")):
        text = difference(theirs / file.name, file)
        if text:
            mistake("files", f"{with_options}: {text}")
    lines = [(folder / "lines").read_text().splitlines() for folder in (theirs, ours)]
    numbers = [[re.sub(r"(Loss: \d+\.\d{3})\d*", r"\1", line) for line in each] for each in lines]
    if numbers[0] != numbers[1]:
        wrong = [line for line in numbers[0] if line not in numbers[1]] or numbers[0][-1:] or ["no line at all"]
        mistake("lines", f"{with_options} it prints {len(lines[0])} lines where ours prints {len(lines[1])}, among them: {wrong[0]}")
    if sent(theirs) > 1.05 * sent(ours):
        mistake("sent", f"{with_options} rank 0 passes {sent(theirs)} numbers to all_reduce, and ours {sent(ours)}")


def main():
    if len(sys.argv) != 5 or sys.argv[1] != "tensor_parallel":
        sys.exit(__doc__)
    program, ours, folder = Path(sys.argv[2]).resolve(), TOP / sys.argv[3], Path(sys.argv[4])
    kept = Path(os.environ.get("LAB_OURS") or folder) / "ours_tensor_parallel"
    for name, options in RUNS.items():
        theirs = folder / f"theirs_{name}"
        failure = start(program, theirs, options)
        for fault in named(theirs) if name == "cnn" else ():
            mistake(*fault)
        if failure:
            mistake("run", f"with {' '.join(options)} {failure}")
        if not (kept / name).exists():
            failure = start(ours, kept / name, options)
        if failure:
            shutil.rmtree(kept / name)
            raise witness.OursFails(f"with {' '.join(options)} {failure}")
        if not of_rank_0(kept / name):
            print("cannot judge: a build without extras/ keeps no journals: make EXTRAS=1", file=sys.stderr)
            sys.exit(2)
        compare(name, theirs, kept / name, options)
        witness.passed(f"the {name}: its calls, losses, lines and files are right")


if __name__ == "__main__":
    orphans.end_with_judge(sys.argv[-1])
    main()
