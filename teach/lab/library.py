#!/usr/bin/env python3
"""Usage: teach/lab/library.py LAB FILE FOLDER
Judges a library lab: FILE is what the learner wrote. Goes up the rungs on 1, 2, 3, 4 and 7 ranks and stops at the first
fault, with its hint (teach/lab/LAB.txt); then trains with it. Exit status 1: there is a fault.
LAB_SALT=N repeats the numbers that were drawn; LAB_OURS=FOLDER keeps the runs of our program there, for the next time."""
import array
import contextlib
import os
import random
import re
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(os.path.abspath(__file__)).parents[2]
os.chdir(TOP)

import journal
import orphans
import proofs
import witness

SECONDS = int(os.environ.get("LAB_SECONDS", 60))  # most that a program may take
RANKS = (2, 3, 4, 7, 1)  # two first: the easiest to think about
BORROWED = {  # what the learner's file may not call
    "ring": re.compile(r" U ((?:all_|reduce_scatter|broadcast|gather|scatter|barrier|work_wait)\w*|reduce|reduce_async)$", re.M),
    "snapshot": re.compile(r" U ((?:snapshot_|checkpoint_(?:copy|commit|verify|resume|open))\w*)$", re.M),
    "store": re.compile(r" U (service_\w+)$", re.M),
    "reconfigure": re.compile(r" U (sleep|usleep|nanosleep|clock_nanosleep|select|pselect|ppoll|time|gettimeofday|timespec_get|thrd_sleep|clock)$", re.M),
}
RANKS_OF = {"reconfigure": (2, 3)}  # as many as the simulation has


class Fault(Exception):
    """A hint's name, and what was seen."""


def text_of(lab):
    return (TOP / f"teach/lab/{lab}.txt").read_text().splitlines()


def rungs_of(lab):
    return [line.split(": ", 1)[1] for line in text_of(lab) if line.startswith("rung ")]


def hint_of(lab, name):
    for line in text_of(lab) + (text_of("ring") if lab == "ring5" else []) + (TOP / "teach/lab/every.hints").read_text().splitlines():
        if line.startswith(f"hint {name}: "):
            return line.split(": ", 1)[1]
    raise LookupError(f"teach/lab/{lab}.txt has no hint for {name}")


def has_hint(lab, name):
    try:
        return bool(hint_of(lab, name))
    except LookupError:
        return False


def make(target, *variables):
    done = subprocess.run(["make", "-s", *variables, target], capture_output=True, text=True)
    if done.returncode != 0:
        wrong = [line for line in done.stderr.splitlines() if re.search("error:|undefined reference|multiple definition", line)]
        raise Fault("build", "\n     ".join(["it does not compile", *(line.rsplit("/", 1)[-1] for line in wrong[:5])]))


def reason_of_crash(file, err, stage):
    """The name of the hint, and the reason why a rank ended, from standard error and what the harness tried."""
    place = re.search(rf"(\w+) \S*{file.name}:(\d+)", err)
    where = f" in {place[1]}, {file.name}:{place[2]}" if place else ""
    if told := re.search(r"fatal: (.* is not written yet)", err):
        return "start", told[1]
    if re.search(r"AddressSanitizer: attempting (free|to call malloc_usable_size)", err):
        return "not_yours", f"free of what is not allocated{where}"
    if found := re.search(r"ERROR: AddressSanitizer: (attempting )?([\w-]+)", err):
        side = (re.findall(r"located \d+ bytes (to the left|before|to the right|after|inside)", err) + [""])[0] in ("to the left", "before")
        if "overflow" not in found[2]:
            return stage or "crash", f"{found[2]}{where}"
        return stage or ("modulo" if side else "outside"), \
            f"{found[2]}: {'before the beginning' if side else 'behind the end'} of an array{where}"
    if found := re.search(rf"{file.name}:(\d+)\S* runtime error: (.*)", err):
        return stage or "crash", f"{file.name}:{found[1]}: {found[2]}"
    if found := re.search(r"fatal: (.*)", err):
        return stage or "crash", found[1]
    if re.search(r"ended with status 15[0-4]", err):
        return "loop", "a rank computes for more than a minute"
    return stage or "crash", (err.splitlines() or ["it ends without a word"])[0] + where


def try_rung(lab, harness, file, rung, ranks, seed):
    options = "detect_leaks=0:redzone=1024"
    clients = TOP / f"teach/lab/{lab}/clients.py"  # of a server: the harness alone only serves
    command = [str(word) for word in (*([sys.executable, clients] if clients.exists() else []), harness, rung, ranks, seed)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS * 5,
                              env={**os.environ, "ASAN_OPTIONS": options, "OMP_NUM_THREADS": "1"})
    except subprocess.TimeoutExpired:
        raise Fault("loop", f"it does not end; by hand: {' '.join(command)}") from None
    if done.returncode == 0:  # it has found no fault: that alone shows nothing
        return
    name, text = (part.strip() for part in (witness.excerpt(done.stdout) + ":").split(":", 1))
    text = text.removesuffix(":").strip()
    if name == "deadlock" and ranks > RANKS[0] and has_hint(lab, "deadlock_ranks"):
        name = "deadlock_ranks"  # fewer got through
    if name not in ("crash", "") and has_hint(lab, name):
        raise Fault(name, text)
    stage = text if f"hint {text}: " in (TOP / f"teach/lab/{lab}.txt").read_text() else ""
    name, text = reason_of_crash(file, witness.excerpt(done.stderr), stage)
    by_hand = f"; by hand: {' '.join(command)}" if name == "crash" else ""
    raise Fault(name, f"{text} ({ranks} rank{'s' * (ranks > 1)}){by_hand}")


def prove_rung(lab, harness, rung, salt, folder):
    """The harness has found no fault; now all ranks show their results to this process."""
    try:
        end_all = getattr(subprocess, "end_all", lambda: None)  # of the grader's fence
        proofs.prove(subprocess.Popen, lab, harness, rung, salt, SECONDS * 2, folder, end_all)
    except witness.Unseen as reason:
        raise Fault("unseen", f"rung {rung}, with numbers that only the judge knows: {reason}") from None


def run(program, folder, *options):
    """The files that a run saves, by name; and its journals."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [program, *options, "--threads", "1", "--device", "cpu", "--timeout", SECONDS // 2, "--checkpoint-dir", folder / "saved"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DDP_")}
    environment.update(DDP_JOURNAL=str(folder / "journal"), OMP_NUM_THREADS="1")
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS, env=environment)
    except subprocess.TimeoutExpired:
        raise Fault("program", f"with {' '.join(options)} it had to be stopped: it did not end within {SECONDS} seconds") from None
    if done.returncode != 0:
        output = [line for line in done.stderr.splitlines() if "fatal: " in line] or [""]
        raise Fault("program", f"with {' '.join(options)} it ends with status {done.returncode}: {output[0]}")
    return files_in(folder), journal.read(folder / "journal")


def run_ours(program, folder, *options):
    """The same of our program, which has run before or does now."""
    if due := files_in(folder):
        return due, journal.read(folder / "journal")
    try:
        return run(program, folder, *options)
    except Fault as found:
        raise witness.OursFails(found.args[1]) from None


def near_files(mine, due):
    """Do two files of weights hold nearly the same numbers? With three ranks a sum depends on its order."""
    mine, due = (data[8 + int.from_bytes(data[:8], "little"):] for data in (mine, due))  # the header has a loss in it
    if len(mine) != len(due):
        return False
    numbers = (array.array("f", data[:len(due) // 4 * 4]) for data in (mine, due))
    return all(abs(a - b) <= 1e-4 * (1 + abs(b)) for a, b in zip(*numbers))


def files_in(folder):
    return {path.name: path.read_bytes() for path in (folder / "saved").glob("*.safetensors")}


def same_files(program, ours, folder, *options):
    """The learner's program must save what ours does."""
    kept = Path(os.environ.get("LAB_OURS") or folder) / ("ours_" + "_".join(options).replace("/", "_"))
    due, _ = run_ours(TOP / ours, kept, *options)
    mine, journals = run(program, folder / f"theirs{len(list(folder.glob('theirs*')))}", *options)
    wrong = [name for name in due if mine.get(name) != due[name]]
    if wrong:
        raise Fault("files", f"with {' '.join(options)} it saves another {wrong[0]} than ours")
    return journals


def train_replicas(program, ours, folder):
    same_files(program, ours, folder, "--nproc", "2", "--epochs", "1", "--num-samples", "200")
    witness.passed("train with 2 ranks: its files equal ours, byte for byte")
    options = "--nproc", "3", "--epochs", "1", "--num-samples", "200"
    files, journals = run(program, folder / "three", *options)
    due, of_ours = run_ours(TOP / ours, Path(os.environ.get("LAB_OURS") or folder) / "ours_three", *options)
    for name, data in due.items():
        if not near_files(files.get(name, b""), data):
            raise Fault("files", f"with {' '.join(options)} it saves another {name} than ours")
    for steps in zip(*(starts[0].steps for starts in journals.values())):
        if len({step.values["crc"] for step in steps}) > 1:
            raise Fault("replicas", f"after step {steps[0].number} of train the ranks have different weights")
    if any(len(journals[rank][0].steps) != len(starts[0].steps) if rank in journals else True for rank, starts in of_ours.items()):
        raise Fault("replicas", "the ranks of train do not take as many steps as ours")
    if journals:
        witness.passed("train with 3 ranks: all have the same weights after each step")
    else:
        print("     train with 3 ranks: a build without extras/ does not say whether their weights are the same")


def train_sampler(program, ours, folder):
    for ranks in "2", "3":
        same_files(program, ours, folder, "--nproc", ranks, "--epochs", "2", "--num-samples", "200")
        witness.passed(f"train with {ranks} ranks: its files equal ours, byte for byte")


def launch(program, folder, ranks, *options):
    """Starts the ranks of a job as a launcher does, by variables."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {name: value for name, value in os.environ.items() if not name.startswith("DDP_")}
    common.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(ranks), OMP_NUM_THREADS="1")
    command = [program, *options, "--device", "cpu", "--timeout", SECONDS // 2, "--checkpoint-dir", folder / "saved"]
    processes = []
    for rank in range(ranks):
        with witness.fresh(folder / f"rank{rank}.err") as err:
            processes.append(subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=err,
                                              env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
    return processes


def finish(processes, folder, what):
    """Waits until all ranks have ended, each with status 0."""
    end = time.monotonic() + SECONDS
    try:
        for process in processes:
            process.wait(max(0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise Fault("program", f"{what}: it does not end within {SECONDS} seconds") from None
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for rank, process in enumerate(processes):
        if process.returncode != 0:
            output = re.findall(r"fatal: .*", (folder / f"rank{rank}.err").read_text()) or [""]
            raise Fault("program", f"{what}: rank {rank} ends with status {process.returncode}: {output[0]}")


def compare_launched(program, ours, folder, ranks, options, play=None):
    """The learner's job must save what ours does; `play` starts it in its own way."""
    kept = Path(os.environ.get("LAB_OURS") or folder) / "_".join(["ours", Path(ours).parent.name, str(ranks), *options])
    due = files_in(kept)
    if not due:
        try:
            finish(launch(TOP / ours, kept, ranks, *options), kept, "ours")
        except Fault as found:
            raise witness.OursFails(found.args[1]) from None
        due = files_in(kept)
    theirs = folder / f"launched{ranks}"
    what = f"train with {ranks} ranks"
    if play is not None:
        play(theirs)
    else:
        finish(launch(program, theirs, ranks, *options), theirs, what)
    mine = files_in(theirs)
    if wrong := [name for name in due if mine.get(name) != due[name]]:
        raise Fault("files", f"{what}: it saves another {wrong[0]} than ours")


def train_store(program, ours, folder):
    for ranks in 2, 3, 4, 7:
        compare_launched(program, ours, folder, ranks, ("2", "--num-samples", "200", "--batch-size", "8"))
    witness.passed("train with 2, 3, 4 and 7 ranks that meet in your store: its files equal ours, byte for byte")


def train_snapshot(program, ours, folder):
    """Kills the job four times, each at a moment of its own."""
    options = ("3", "--optimizer", "adam", "--num-samples", "200", "--batch-size", "8", "--save-every", "1")
    draw = random.Random(int(os.environ.get("LAB_SALT") or 0))
    for ranks in 2, 3:
        def play(theirs, ranks=ranks):
            for kill in range(4):
                processes = launch(program, theirs, ranks, *options, "--save-every-steps", "2")
                time.sleep(0.2 + draw.random() * (0.5 + kill))
                for process in sorted(processes, key=lambda process: draw.random()):  # as a launcher does, when one is gone
                    process.kill()
                    process.wait()
            finish(launch(program, theirs, ranks, *options, "--save-every-steps", "2"), theirs, f"train with {ranks} ranks, killed")
        compare_launched(program, ours, folder, ranks, options, play)
        witness.passed(f"train with {ranks} ranks, killed four times: its files equal ours, byte for byte")


def train_reconfigure(program, ours, folder):
    """Kills a rank, whose seat gets a new process; another run, of ours, is not disturbed."""
    options = ("--model", "linear", "--num-samples", "512", "--epochs", "3", "--threads", "1", "--momentum", "0.9", "--device", "cpu",
               "--save-every", "0", "--timeout", SECONDS // 2)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DDP_")}
    launcher, what = TOP / "05_fault_tolerance/ddprun", "train with 3 ranks, one of which is killed"

    def start(program, place, *more, **variables):
        command = [launcher, "--max-restarts", "3", "--nproc-per-node", "3", program, *options, "--checkpoint-dir", place / "saved", *more]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS,
                              env={**environment, **variables})

    kept = Path(os.environ.get("LAB_OURS") or folder) / "ours_reconfigure"
    due = files_in(kept)
    if not due:
        with contextlib.suppress(subprocess.TimeoutExpired):
            start(TOP / "05_fault_tolerance/train", kept)
        due = files_in(kept)
        if not due:
            raise witness.OursFails("05_fault_tolerance/train saves nothing")
    for victim in 0, 1:
        place = folder / f"killed{victim}"
        try:
            done = start(program, place, "--inject", f"kill:{victim}:6", DDP_RECONFIGURE="1")
        except subprocess.TimeoutExpired:
            raise Fault("program", f"{what}: it does not end within {SECONDS} seconds") from None
        if done.returncode != 0 or "generation 2 goes on after step" not in done.stderr:
            output = re.findall(r"fatal: .*|keeps the others waiting", done.stderr) or ["no second group"]
            raise Fault("program", f"{what}: it ends with status {done.returncode}: {output[0]}")
        mine = files_in(place)
        if not due or any(mine.get(name) != data for name, data in due.items()):
            raise Fault("files", f"{what}: it saves another file than a run that nobody disturbs")
    witness.passed("train with 3 ranks, one of which is killed: your agreement goes on without a restart, to the same bytes")


LABS = {  # the step's program that uses the learner's file, and how that is judged
    "reconfigure": ("05_fault_tolerance/reconfigure/train_reconfigure", train_reconfigure),
    "ring": ("02_multi_gpu_spawn/train", train_replicas),
    "ring5": ("02_multi_gpu_spawn/train", train_replicas),
    "reducer": ("02_multi_gpu_spawn/train", train_replicas),
    "sampler": ("02_multi_gpu_spawn/train", train_sampler),
    "snapshot": ("05_fault_tolerance/train", train_snapshot),
    "store": ("03_torchrun_env/train", train_store),
}


def build(lab, file):
    """Makes the harness. What the file may not call is found in its object: what our library calls is not there."""
    harness, compiled = file.with_suffix(".try"), Path(f"{file.with_suffix('.try')}.o")
    compiled.unlink(missing_ok=True)
    harness.unlink(missing_ok=True)
    try:
        make(harness, f"MINE={file}")
    finally:
        if lab in BORROWED and compiled.exists():
            symbols = subprocess.run(["nm", compiled], check=True, capture_output=True, text=True).stdout
            if found := BORROWED[lab].search(symbols):
                raise Fault("borrowed", f"it calls {found[1]}")
    return harness


def how_far(done, count, kept):
    """How many rungs are done, and whether there have been more: a change may break an earlier one. `kept`: where that is noted."""
    most = int(kept.read_text()) if kept and kept.exists() else 0
    if kept:
        kept.write_text(str(max(done, most)))
    return f"{done} of {count} rungs are done" + f"; {'rung 1 was' if most == 1 else f'rungs 1 to {most} were'}, before you changed the file" * (most > done)


def judge(lab, file, folder, kept=None):
    ours, train = LABS[lab]
    rungs, done = rungs_of(lab), 0
    salt = int(os.environ.get("LAB_SALT") or secrets.randbelow(2**32))
    try:
        harness = build(lab, file)
        witness.passed("it compiles")
        for rung, title in enumerate(rungs, 1):
            for ranks in RANKS_OF.get(lab, RANKS):
                try_rung(lab, harness, file, rung, ranks, 1)
            prove_rung(lab, harness, rung, salt, folder)
            witness.passed(f"rung {rung}: {title}")
            done = rung
        for rung in range(1, len(rungs) + 1) if salt != 1 else ():  # 1 would draw the same numbers again
            for ranks in RANKS if lab not in ("snapshot", "store", "reconfigure") else RANKS[:1]:  # of these little is drawn
                try:
                    try_rung(lab, harness, file, rung, ranks, salt)
                except Fault as found:
                    witness.take_back(f"rung {rung}")
                    done = rung - 1
                    raise Fault(found.args[0], f"{found.args[1]} (LAB_SALT={salt} make check-lab draws these numbers again)") from None
        program = file.parent / "train"
        make(program, f"MINE={file}", f"TRIED={program}", f"OF={ours}")
        train(program, ours, folder)
    except Fault as found:
        name, text = found.args
        witness.failed(text, 6 if name == "build" else 1)
        print(f"     hint{f' ({name})' if os.environ.get('LAB_NAMES') else ''}: {hint_of(lab, name)}")
        if name != "build":
            print(f"     {how_far(done, len(rungs), kept)}")
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in LABS:
        sys.exit(__doc__)
    mine = Path(sys.argv[2])
    orphans.end_with_judge(sys.argv[3])
    sys.exit(judge(sys.argv[1], mine, Path(sys.argv[3]), mine.with_suffix(".rungs")))
