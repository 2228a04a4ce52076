#!/usr/bin/env python3
"""Usage: teach/trap_twin.py NN [fixed]      The fault of a trap in PyTorch: makes a broken twin, runs it, and prints
what the trap's command prints. fixed: the twin without the fault, where the symptom must be gone.
In teach/traps/NN.txt a line is a word and its text:
    twin          the PyTorch program that the fault is put into; none: there is no twin
    twin_edit     sed's commands that break it; twin_fix: those that fix the broken one
    twin_run      the command, in which $program is the twin; none: the trap's own (run)
    twin_symptom  a regular expression that its output matches; none: the trap's own (symptom)
TORCH_BIN is the folder of a Python with PyTorch; without it tests/against/torch/venv.sh says where that is."""
import os
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
import trap as traps


class Twin:
    def __init__(self, name):
        self.trap = traps.Trap(name)
        if not self.trap.all("twin"):
            traps.fail(f"trap {name} has no twin: {' '.join(n for n in traps.names() if traps.Trap(n).all('twin'))} have")
        self.folder = traps.LAB / f"twin_{name}"
        self.symptom = (self.trap.all("twin_symptom") or self.trap.all("symptom"))[0]

    def write(self, fixed):
        text = traps.edited(Path(self.trap.one("twin")).read_text(), self.trap.all("twin_edit"))
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "train.py").write_text(traps.edited(text, self.trap.all("twin_fix")) if fixed else text)

    def script(self):
        rooms = [str(traps.TOP / "pytorch"), str(Path(self.trap.one("twin")).resolve().parent)]  # where it imports from
        python = Path(os.environ["TORCH_BIN"]) / "python"
        return f"""export PYTHONPATH={':'.join(rooms)} PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
program="{python} {self.folder}/train.py" saved={self.folder}/saved
rm -rf $saved
{" ".join(self.trap.all("twin_run") or self.trap.all("run"))}
"""


def main():
    name, *rest = sys.argv[1:] or [""]
    if not name or rest not in ([], ["fixed"]):
        traps.fail(__doc__)
    if "TORCH_BIN" not in os.environ:
        os.environ["TORCH_BIN"] = subprocess.check_output("tests/against/torch/venv.sh", text=True).strip()
    twin = Twin(name)
    twin.write(bool(rest))
    sys.exit(subprocess.call(["sh", "-c", twin.script()]))


if __name__ == "__main__":
    main()
