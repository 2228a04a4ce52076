#!/usr/bin/env python3
"""Usage: teach/lab/judge_zero.py zero1|...|zero5 PROGRAM OURS FOLDER
Runs a learner's PROGRAM of a stage of ZeRO, whose source is PROGRAM.c: its files must equal OURS', byte for byte, and
the bytes that a rank holds and sends must match the formula. Hints are in teach/lab/STAGE.txt. Exit status 1: there is
a mistake. LAB_OURS=FOLDER keeps the files of OURS there, for the next time."""
import array
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(TOP / "bench"), str(TOP / "teach/lab")]
import journal
import orphans
import witness
import zero

SECONDS = int(os.environ.get("LAB_SECONDS", 60))  # most that a program may take
RUNS = {  # the mistake, if this run fails and those before did not
    "run": ["--nproc", "2", "--epochs", "1", "--num-samples", "200", "--optimizer", "adam", "--save-every", "1"],
    "shares": ["--nproc", "4", "--epochs", "1", "--model", "mlp", "--bucket-cap-mb", "1", "--batch-size", "2", "--max-steps", "3"],
    "evaluation": ["--nproc", "7", "--epochs", "1", "--batch-size", "51", "--max-steps", "1"],
}


SMALL = 20000  # zero5 leaves layers of fewer parameters whole (ZERO_SMALL)


def mistake(step, name, text, folder=None):
    """Ends with the hint of a mistake; if the journals of the folder name it more exactly, with that one."""
    lines = (TOP / f"teach/lab/{step}.txt").read_text().splitlines()
    hints = {line[5:].split(": ", 1)[0]: line.split(": ", 1)[1] for line in lines if line.startswith("hint ")}
    known = next((known for known in ((*sent_wrongly(step, folder), *named(folder), *raced(step, folder)) if folder else ()) if known[0] in hints), None)
    if known:
        name, text = known[0], f"{text}; {known[1]}"
    witness.failed(text)
    if name in hints:
        print(f"     hint: {hints[name]}")
    sys.exit(1)


def sent_wrongly(step, folder):
    """Yields the mistakes of zero4 and zero5, which change what is sent, by the journal of rank 0."""
    ranks = journal.read(folder / "journal")
    if step not in ("zero4", "zero5") or not ranks.get(0):
        return
    starts = ranks[0][0].all("start")
    shares = [(e.about[1], e.values["type"], int(e.values["count"])) for e in starts if e.about[1] in ("all_gather", "reduce_scatter")]
    wide = [count for kind, type_, count in shares if (kind, type_) == ("all_gather", "float32") and count > 1]
    short = [count for kind, type_, count in shares if (kind, type_) == ("reduce_scatter", "bfloat16")]
    if wide:
        yield "half", f"{wide[0]} parameters of each rank are gathered in float32"
    if short:
        yield "grads", f"{short[0]} gradients of each rank are averaged in bf16"
    small = [(kind, count) for kind, _, count in shares if 1 < count and 2 * count < SMALL]
    if step == "zero5" and shares and not any(e.about[1] == "all_reduce" and e.values["type"] == "float32" for e in starts):
        yield "small", "no small layer's gradients are averaged by an all_reduce"
    elif small and step == "zero5":
        yield "small", f"a small layer is sent in shares: {small[0][0]} of {small[0][1]} numbers on each of two ranks"


def gradients_in(entries):
    """The numbers of the calls that average gradients."""
    return {e.about[0] for e in entries if e.word == "start" and e.values.get("type") == "float32" and
            e.about[1] in ("reduce_scatter", "all_reduce")}


def raced(step, folder):
    """Yields what is used before it is there, by the journal of rank 0: mostly the bytes differ, but at times it has
    come by then. Calls are executed in order, so who waits for one has waited for those before it."""
    ranks = journal.read(folder / "journal")
    entries = ranks[0][0].entries if ranks.get(0) else []
    gradients, sent, gathers, steps, waited = gradients_in(entries), [], [], 0, -1
    for entry in entries:
        if entry.word == "start" and entry.about[0] in gradients:
            sent.append(int(entry.about[0]))
        elif entry.word == "start" and entry.about[1] == "all_gather":
            gathers.append(int(entry.about[0]))
        elif entry.word == "wait":
            waited = max(waited, int(entry.about[0]))
        elif entry.word == "optim_step":
            steps += 1
            if steps > sum(number <= waited for number in sent):
                yield "early", "a unit takes its step before its gradients are back"
        elif entry.word == "forward" and step in ("zero1", "zero2") and any(number > waited for number in gathers):
            yield "files", "a forward pass begins before the parameters of all units are back"


def named(folder):
    """Yields the mistakes that the journal of rank 0 shows: their names, and what was seen."""
    ranks = journal.read(folder / "journal")
    if not ranks.get(0):
        return
    entries = ranks[0][0].entries
    gradients = gradients_in(entries)
    for entry in entries:
        if entry.word == "start" and entry.about[0] in gradients and entry.values.get("op") != "mean":
            yield "mean", f"the gradients are combined by {entry.values.get('op')}"
    for file in saved_ungathered(entries):
        yield "unshard", f"rank 0 writes {file}, and nobody has sent it what the other ranks own"
    numbers = [e.about[0] for e in entries if e.word == "step"]
    if len(set(numbers)) < len(numbers):
        yield "count", f"step {numbers[1]} is reported twice"


def saved_ungathered(entries):
    """The files that rank 0 writes after a step without a gather in between."""
    gathered = True
    for entry in entries:
        if entry.word == "start" and entry.about[1] == "gather":
            gathered = True
        elif entry.word == "step":
            gathered = False
        elif entry.word == "save" and not gathered:
            yield entry.about[0]


def how_it_ended(status):
    status = 128 - status if status < 0 else status
    if status <= 128:
        return f"it ends with status {status}"
    return f"it is killed by {signal.Signals(status - 128).name}"


def run(program, folder, options, timeout):
    """What the program prints, and None or the error of a failed run. Its files and journals are in the folder."""
    folder.mkdir(parents=True)
    command = [program, *options, "--threads", "1", "--device", "cpu", "--timeout", str(timeout), "--checkpoint-dir", folder]
    try:
        done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=SECONDS,
                              env={**os.environ, "DDP_JOURNAL": str(folder / "journal")})
    except subprocess.TimeoutExpired:
        return "", "it had to be stopped: it did not end within the time that it has"
    output = [line for line in done.stderr.splitlines() if "fatal: " in line]
    own = [line for line in output if " is gone: " not in line]  # the other messages follow from it
    if done.returncode != 0:
        return done.stdout, ": ".join([how_it_ended(done.returncode), *(own or output if done.returncode <= 128 else own)[:1]])
    return done.stdout, None


def files_of(program, folder, options):
    """The files that the run saves, by name, and None; or None and the error of a failed run."""
    _, failure = run(program, folder, options, SECONDS // 2)
    return (None, failure) if failure else (files_in(folder), None)


def files_in(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


def tensors_in(data):
    """{name: (shape, floats)} of the bytes of a safetensors file."""
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    return {name: (tensor["shape"], array.array("f", data[begin + tensor["data_offsets"][0]:begin + tensor["data_offsets"][1]]))
            for name, tensor in json.loads(data[8:begin]).items() if tensor.get("dtype") == "F32"}


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in ("zero1", "zero2", "zero3", "zero4", "zero5"):
        sys.exit(__doc__)
    step, program, ours, folder = sys.argv[1], Path(sys.argv[2]).resolve(), TOP / sys.argv[3], Path(sys.argv[4])
    kept = Path(os.environ.get("LAB_OURS") or folder) / f"ours_{step}"
    for name, options in RUNS.items():
        mine, failure = files_of(program, folder / f"theirs_{name}", options)
        if failure:
            mistake(step, name, f"with {' '.join(options)} {failure}", folder / f"theirs_{name}")
        due, failure = files_in(kept / name), None
        if not due:
            due, failure = files_of(ours, kept / name, options)
        if failure:
            shutil.rmtree(kept / name)
            raise witness.OursFails(f"with {' '.join(options)} {failure}")
        if mine != due:
            wrong = [file for file in due if mine.get(file) != due[file]] or list(mine)
            mistake(step, "files", f"with {' '.join(options)} it saves another {wrong[0]} than ours", folder / f"theirs_{name}")
        for judge in (sent_wrongly, raced) if name == "run" else ():  # of two ranks
            for fault in judge(step, folder / f"theirs_{name}"):
                mistake(step, *fault)
    witness.passed("its files are ours, byte for byte")

    _, _, held, sent = zero.KINDS[min(4, 1 + int(step[-1]))]
    if step in ("zero4", "zero5"):  # two gathers of 2 bytes a parameter, and its gradient's 4, as many as DDP sends
        sent = zero.KINDS[1][3]
    counting = folder / "count"
    counting.mkdir()
    zero.build(program.with_suffix(".c"), counting)
    most, bytes_sent = zero.measure(counting / program.name, 4)
    for name, measured, formula in ("held", most, held), ("sent", bytes_sent, sent):
        due = formula(4) * zero.P
        if abs(measured / due - 1) > 0.05:
            mistake(step, name, f"four ranks: {measured / 1e6:.1f} MB {name}, by the formula {due / 1e6:.1f}")
        witness.passed(f"what a rank {'holds' if name == 'held' else 'sends'} is {measured / 1e6:.1f} MB, by the formula {due / 1e6:.1f}")


if __name__ == "__main__":
    orphans.end_with_judge(sys.argv[-1])
    main()
