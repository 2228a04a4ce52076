#!/usr/bin/env python3
"""Usage: tests/labs/try_traps.py [--sample SEED] [NN]...
Each trap, or these: does the broken program show the symptom, and ours not? Are our program and the other right fixes
accepted, and the wrong ones rejected, and wrong answers too? --sample: two traps by chance."""
import difflib
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "teach"))
import rows
import trap as traps
import trap_answer


def symptom(trap):
    """Yields what is wrong with it. A symptom of time, a rank that is slow, may also come from a busy machine: three tries."""
    for text, due in (trap.ours(), False), (trap.broken(), True):  # the answer quotes the last output
        trap.write(trap.folder, text)
        for _ in range(3):
            (trap.folder / "output.txt").unlink(missing_ok=True)
            done = subprocess.run(["sh", "-c", f"exec 2>&1\n{trap.run_script()}"], stdout=subprocess.PIPE, text=True)
            if (re.search(trap.one("symptom"), done.stdout, re.M) is not None) == due:
                break
        else:
            yield f"{'no symptom' if due else 'the symptom, of our program'}:\n{done.stdout}"


def answers(trap):
    changed = [line[1:].strip() for line in difflib.ndiff(trap.ours().splitlines(), trap.broken().splitlines())
               if line[0] in "+-"]
    line = next((line for line in changed if re.search(trap.one("line"), line)), "none of the edit")
    signs = trap_answer.signs(trap.one("symptom"), (trap.folder / "output.txt").read_text()) or ["none"]
    right = {"symptom": signs[0], "rank": trap.one("rank").partition("|")[0], "line": line, "cause": trap.cause}
    wrong = {"symptom": "all is well", "rank": "7", "line": "Metrics metrics;", "cause": "bad_luck"}
    for field in (None, *right):
        given = dict(right, **({field: wrong[field]} if field else {}))
        (trap.folder / "answer.txt").write_text("".join(f"{key}: {text}\n" for key, text in given.items()))
        faults = [name for name, fault in trap.faults_of_answer() if fault]
        if faults != ([field] if field else []):
            yield f"of the answer {given} these are wrong: {faults}"


judged_ours = set()  # our programs, and how each was judged: several traps are made from one


def fixes(trap):
    tries = [("nothing", trap.broken(), False)]
    how = (trap.step, trap.ours(), *trap.all("with"), *trap.all("also"))
    if how not in judged_ours:
        judged_ours.add(how)
        tries.insert(0, ("ours", trap.ours(), True))
    tries += [(edit, traps.edited(trap.broken(), [edit]), True) for edit in trap.all("right")]
    tries += [(edit, traps.edited(trap.broken(), [edit]), False) for edit in trap.all("wrong")]
    if not trap.all("wrong"):
        yield "no wrong fix is tried"
    for name, text, due in tries:
        if name not in ("ours", "nothing") and text == trap.broken():
            yield f"this fix changes nothing: {name}"
        trap.write(trap.folder, text)
        with tempfile.TemporaryDirectory() as folder:
            faults = list(trap.faults_of_fix(Path(folder)))
        print(f"    {name}: {'; '.join(faults) or 'accepted'}", flush=True)
        if (not faults) != due:
            yield f"should be {'accepted' if due else 'rejected'}: {name}"


def main():
    names = sys.argv[1:] or traps.names()
    if names[0] == "--sample":
        names = random.Random(names[1]).sample(traps.names(), 2)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        traps.LAB = Path(folder) / "lab"
        os.environ["LAB_OURS"] = f"{folder}/ours"
        for name in names:
            begin, cpu, trap = time.monotonic(), [rows.cpu_seconds()], traps.Trap(name)
            wrong = []
            for part in symptom, answers, fixes:
                wrong += part(trap)
                cpu.append(rows.cpu_seconds())
            used = f"{cpu[-1] - cpu[0]:.1f} s of the processor, {cpu[1] - cpu[0]:.1f} for the symptom"
            print(f"trap {name}: {'WRONG' if wrong else 'ok'} ({time.monotonic() - begin:.1f} s; {used})", *wrong, sep="\n", flush=True)
            failed += len(wrong)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
