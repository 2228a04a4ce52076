#!/usr/bin/env python3
"""Usage: teach/lab/judge_rounds.py localsgd|diloco PROGRAM OURS FOLDER
Runs a learner's PROGRAM of local SGD or DiLoCo: what it sends, and when, by its journals, and whether its weights are
those of OURS, within rounding. The linear model has 21 weights, so a run takes a fraction of a second. Hints are in
teach/lab/NAME.txt. Exit status 1: there is a mistake."""
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(TOP / "teach/lab")]
import journal
import judge_zero
import orphans
import witness

LABS = ("localsgd", "diloco")
PERIOD, LR, MOMENTUM, STEPS = 8, 0.7, 0.9, 20  # two rounds, and one that the epoch cuts short
LOCAL = "beyond/local_sgd/train_local_sgd"
SEED = "0"
LINEAR = ["--nproc", "2", "--model", "linear", "--batch-size", "8", "--epochs", "1", "--lr", "0.01", "--save-every", "0"]
CNN = ["--nproc", "3", "--batch-size", "8", "--num-samples", "264", "--epochs", "1", "--save-every", "0"]
INSIDE = ("zero_grad", "batch", "forward", "backward", "gradient")  # a step's entries before its optim_step


def weights_of(files):
    """All floats of the one file that a run has saved, by name."""
    return {name: floats for name, (_, floats) in judge_zero.tensors_in(next(iter(files.values()))).items()}


def apart(a, b):
    """How far two dictionaries of floats are apart, in parts of the largest of their array."""
    if a.keys() != b.keys() or any(len(a[name]) != len(b[name]) for name in a):
        return 1
    return max(max(abs(x - y) for x, y in zip(a[name], b[name])) / (max(map(abs, b[name])) or 1) for name in a)


def sendings(entries):
    """[(how many steps the optimizer has taken, inside the next step or not, the entry, as many numbers as an all_reduce would
    send)] of all calls that move more than one number, without the first broadcast."""
    steps, inside, out = 0, False, []
    ranks = int(next(e for e in entries if e.word == "group").values["world_size"])
    for entry in entries:
        if entry.word == "optim_step":
            steps, inside = steps + 1, False
        elif entry.word in INSIDE:
            inside = True
        elif entry.word == "start" and (entry.values["type"] not in ("float64", "uint8", "int64") or int(entry.values["count"]) > 4):
            count, kind = int(entry.values["count"]), entry.about[1]
            share = {"all_reduce": 1, "all_gather": ranks / 2, "reduce_scatter": ranks / 2, "barrier": 0}.get(kind, 0.5)
            if count > 1 and (steps > 0 or kind != "broadcast"):
                out.append((steps, inside, entry, count * share))
    return out


def named(entries, numel, is_equal):
    """Yields the mistakes that rank 0's journal shows; those that may be right another way only if the weights are wrong."""
    sent = sendings(entries)
    for steps, inside, entry, _ in sent:
        if entry.values.get("data", "").startswith("grads") or inside and steps % PERIOD != PERIOD - 1:
            yield "gradients", f"{entry.values['count']} numbers are sent in step {steps + 1}, before the optimizer's step"
        elif inside:
            yield "before", f"in step {steps + 1} the ranks average before the optimizer's step"
        elif entry.values["type"] != "float32" and not is_equal:
            yield "type", f"the ranks send {entry.values['count']} numbers of type {entry.values['type']}"
    at = sorted({steps for steps, *_ in sent})
    if not [steps for steps in at if steps < STEPS]:
        yield "never", f"in {STEPS - 1} steps no weights are sent"
    elif len(at) >= STEPS - 1:
        yield "every", "the ranks send after each step"
    elif [steps for steps in at if steps < STEPS] != [PERIOD, 2 * PERIOD]:
        yield "when", f"the ranks send after step {', '.join(map(str, at))}, and a round has {PERIOD} steps"
    elif STEPS not in at:
        yield "end", f"the epoch ends after step {STEPS}, and rank 0 saves its own weights"
    per_round = [sum(count for steps, _, _, count in sent if steps == end) for end in at]
    if min(per_round, default=numel) < 0.9 * numel or not is_equal and min(per_round, default=numel) < numel:
        yield "part", f"a round sends {min(per_round):.0f} numbers, of {numel}"
    if not is_equal and any(e.values.get("op") == "sum" for _, _, e, _ in sent):
        yield "mean", "the ranks' numbers are combined by sum"
    if max(per_round, default=0) > 1.2 * numel:
        yield "sent", f"a round sends {max(per_round):.0f} numbers, and the model has {numel} weights"


def outer_mistake(mine, theirs):
    """Names what is wrong with the outer step, by the weights after 8 and 16 steps; theirs: ours, and local SGD's after 8."""
    parameters = [name for name in theirs["local"] if not name.startswith("optimizer.")]
    flat = {key: [x for name in parameters for x in saved[name]] for key, saved in
            (("mine 8", mine[8]), ("mine 16", mine[16]), ("8", theirs[8]), ("16", theirs[16]), ("mean", theirs["local"]))}
    whole = LR * (1 + MOMENTUM)  # ours moves by this many mean changes in the first round: mean = start - change
    change = [(mean - eight) / (whole - 1) for mean, eight in zip(flat["mean"], flat["8"])]
    start = [mean + c for mean, c in zip(flat["mean"], change)]
    size = sum(c * c for c in change)
    moved = sum((s - m) * c for s, m, c in zip(start, flat["mine 8"], change)) / size
    rest = sum((s - moved * c - m) ** 2 for s, m, c in zip(start, flat["mine 8"], change)) / size
    if rest < 1e-4:
        known = {"outer": 1, "nesterov": LR, "rate": 1 + MOMENTUM, "mean": 2 * whole, "empty": whole + LR * MOMENTUM ** 2}
        if moved < 0:
            return "sign", f"the first round moves the weights by {moved:.2f} times their mean change: backwards"
        for name, factor in known.items():
            if abs(moved - factor) < 1e-3:
                return name, f"the first round moves the weights by {moved:.3f} times their mean change, and ours by {whole:.3f}"
    second = [((eight - sixteen) / LR - MOMENTUM ** 2 * c) / (1 + MOMENTUM) for eight, sixteen, c in zip(flat["8"], flat["16"], change)]
    lost = [eight - whole * s for eight, s in zip(flat["8"], second)]
    stale = [s0 - LR * ((1 + MOMENTUM) * (s + whole * c) + MOMENTUM ** 2 * c) for s0, s, c in zip(start, second, change)]
    for name, due, words in (("velocity", lost, "as if the velocity began with zeros again"), ("begin", stale, "as if it began with the first weights again")):
        if sum((a - b) ** 2 for a, b in zip(due, flat["mine 16"])) < 1e-4 * size:
            return name, f"the first round is right, and the second moves the weights {words}"
    return None


def run(step, program, folder, options):
    """(the saved floats, rank 0's journal and all ranks') of a run; ends with a hint if it fails."""
    files, failure = judge_zero.files_of(program, folder, options)
    ranks = journal.read(folder / "journal")
    if failure or not files or not ranks.get(0):
        output = failure or "it saves nothing"
        judge_zero.mistake(step, "run", f"with {' '.join(options)} {output}")
    return weights_of(files), {rank: starts[0] for rank, starts in ranks.items() if starts}


def ours_of(program, folder, options):
    files, failure = judge_zero.files_of(TOP / program, folder, options)
    if failure:
        raise witness.OursFails(f"with {' '.join(options)} {failure}")
    return weights_of(files)


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in LABS:
        sys.exit(__doc__)
    step, program, ours, folder = sys.argv[1], Path(sys.argv[2]).resolve(), sys.argv[3], Path(sys.argv[4])
    linear = lambda steps: [*LINEAR, "--dataset-size", str(16 * STEPS), "--max-steps", str(steps), "--seed", SEED]  # noqa: E731
    mine, ranks = run(step, program, folder / "theirs", linear(STEPS))
    is_equal = apart(mine, ours_of(ours, folder / "ours", linear(STEPS))) < 1e-4
    if len({entries.one("model").get("crc") for entries in ranks.values()}) > 1:
        judge_zero.mistake(step, "broadcast", "the ranks begin with different weights")
    numel = int(ranks[0].one("model")["parameters"])
    for name, text in named(ranks[0].entries, numel, is_equal):
        judge_zero.mistake(step, name, text)
    if step == "diloco":
        at = {steps: run(step, program, folder / f"theirs_{steps}", linear(steps))[0] for steps in (PERIOD, 2 * PERIOD)}
        theirs = {steps: ours_of(ours, folder / f"ours_{steps}", linear(steps)) for steps in at}
        theirs["local"] = ours_of(LOCAL, folder / "local", linear(PERIOD))
        if not is_equal or any(apart(at[steps], theirs[steps]) >= 1e-4 for steps in at):
            found = outer_mistake(at, theirs)
            judge_zero.mistake(step, *(found or ("files", f"after {STEPS} steps its weights are not ours")))
    if not is_equal:
        judge_zero.mistake(step, "files", f"after {STEPS} steps its weights are not ours")
    witness.passed("its weights are ours, after two rounds and one that the epoch cuts short")
    witness.passed(f"a round sends as many numbers as the model has weights, and {PERIOD - 1} steps of 8 send nothing")
    options = [*CNN, "--seed", SEED]
    if apart(run(step, program, folder / "three", options)[0], ours_of(ours, folder / "ours_three", options)) >= 1e-3:
        judge_zero.mistake(step, "files", f"with {' '.join(options)} its weights are not ours")
    witness.passed("it trains with three ranks and the cnn")


if __name__ == "__main__":
    orphans.end_with_judge(sys.argv[-1])
    main()
