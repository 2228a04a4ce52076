"""What try_programs.py and try_library.py share: their rows, LAB EXPECTED EDIT, and what is made of them."""
import os
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def rows_of(name):
    """The rows of tests/labs/NAME."""
    lines = (TOP / "tests/labs" / name).read_text().splitlines()
    return [line.split(maxsplit=2) for line in lines if line and not line.startswith("#")]


def chosen(rows, words):
    """Those of these labs, or LAB:EXPECTED; all if there are no words."""
    return [row for row in rows if not words or row[0] in words or f"{row[0]}:{row[1]}" in words]


def cpu_seconds():
    """What this program and its children have used of the processor: unlike the time on the clock, it does not grow with the load."""
    return sum(os.times()[:4])


def try_rows(rows, judge, what):
    """Asks judge(folder, lab, edit) about each: what is said, and whether it is accepted (None: it could not be judged).
    A right one must be, a wrong one not, with the hint that is expected. Returns the exit status."""
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.setdefault("LAB_OURS", str(folder / "ours"))  # a test file shares them
        os.environ["LAB_NAMES"] = "1"
        (folder / "config.yaml").symlink_to(TOP / "config.yaml")
        for lab, expected, edit in rows:
            begin, cpu = time.monotonic(), cpu_seconds()
            output, accepted = judge(folder, lab, edit)
            good = accepted is True if expected == "right" else accepted is False and f"hint ({expected}): " in output
            print(f"{'ok' if good else 'WRONG'}  {lab} {expected}  {edit[:100]}  "
                  f"({time.monotonic() - begin:.1f} s; {cpu_seconds() - cpu:.1f} s of the processor)", flush=True)
            if not good:
                print(f"{edit}\n{output}")
            failed += not good
    print(f"{len(rows)} {what}, {failed} judged wrongly")
    return failed > 0
