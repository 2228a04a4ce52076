"""What try_programs.py and try_library.py share: their rows, LAB EXPECTED EDIT, and what is made of them."""
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
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


def try_rows(rows, judge, what, at_once=1):
    """Asks judge(folder, lab, edit) about each: what is said, and whether it is accepted (None: it could not be judged).
    A right one must be, a wrong one not, with the hint that is expected. `at_once` of them are judged side by side: most
    wrong ones are waited for. Returns the exit status."""
    failed, begin_cpu = 0, cpu_seconds()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.setdefault("LAB_OURS", str(folder / "ours"))  # a test file shares them
        os.environ["LAB_NAMES"] = "1"

        def judged(number):
            lab, _, edit = rows[number]
            own, begin = folder / str(number), time.monotonic()
            own.mkdir()
            (own / "config.yaml").symlink_to(TOP / "config.yaml")
            return *judge(own, lab, edit), time.monotonic() - begin

        def show(number, output, accepted, seconds):
            lab, expected, edit = rows[number]
            good = accepted is True if expected == "right" else accepted is False and f"hint ({expected}): " in output
            print(f"{'ok' if good else 'WRONG'}  {lab} {expected}  {edit[:100]}  ({seconds:.1f} s)", flush=True)
            if not good:
                print(f"{edit}\n{output}")
            return not good

        alone = 1 if at_once > 1 else 0  # the first makes what all use
        for number in range(min(alone, len(rows))):
            failed += show(number, *judged(number))
        with ThreadPoolExecutor(at_once) as pool:
            for number, result in enumerate(pool.map(judged, range(alone, len(rows))), alone):
                failed += show(number, *result)
    print(f"{cpu_seconds() - begin_cpu:.0f} s of processors")
    print(f"{len(rows)} {what}, {failed} judged wrongly")
    return failed > 0
