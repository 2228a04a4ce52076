#!/usr/bin/env python3
"""Usage: teach/plan.py clock            when each part of teach/plan.md begins, in each format
       teach/plan.py run [FORMAT]     (make rehearse: runs the plan's commands, compares, and adds up the machine's time)
FORMAT is '90 minutes', 'half a day' or 'two days'; without it, all parts run. A part of the plan is a heading with a
line below it, 'Minutes: 90 minutes 8, half a day 12'. A block may say what people do by hand before it, usually an edit:
    <!-- by hand: COMMAND -->       done before the commands of the block; its time is not counted"""
import os
import re
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import docs

PLAN = Path(docs.ROOT) / "teach/plan.md"
FORMATS = {"90 minutes": 90, "half a day": 240, "two days": 960} # with breaks
DAY = 480 # from nine to five


class Part:
    """A part of the plan: its heading, its minutes in each format that has it, its lines [first, end)."""

    def __init__(self, title, minutes, first, end):
        self.title, self.minutes, self.first, self.end = title, minutes, first, end


def parts_of(lines):
    heads = [i for i, line in enumerate(lines) if line.startswith("## ")] + [len(lines)]
    parts = []
    for first, end in zip(heads, heads[1:]):
        said = next((line for line in lines[first:end] if line.startswith("Minutes: ")), "")
        minutes = {name: int(number) for name, number in re.findall(r"(90 minutes|half a day|two days) (\d+)", said)}
        if minutes:
            parts.append(Part(lines[first][3:], minutes, first, end))
    return parts


def clock_time(name, minute):
    """When a part begins: since the start, or for two days the day and the time of day."""
    if name != "two days":
        return f"{minute // 60}:{minute % 60:02}"
    return f"day {minute // DAY + 1}, {9 + minute % DAY // 60:2}:{minute % 60:02}"


def show_clock(parts):
    """Prints the table; status 1 if a format is not as long as it should be."""
    at = dict.fromkeys(FORMATS, 0)
    print((" " * 40 + "".join(f"{name:>16}     " for name in FORMATS)).rstrip())
    for part in parts:
        line = f"{part.title:40}"
        for name in FORMATS:
            minutes = part.minutes.get(name)
            line += f"{clock_time(name, at[name]):>16} {minutes:3} " if minutes else " " * 21
            at[name] += minutes or 0
        print(line.rstrip())
    for name, length in FORMATS.items():
        if at[name] != length:
            print(f"teach/plan.py: {name} has {at[name]} minutes, and must have {length}", file=sys.stderr)
    return 0 if at == FORMATS else 1


def rehearse(part, blocks, folder):
    """Runs the commands of a part. Returns their seconds, and how many blocks were not as quoted."""
    seconds, wrong = 0, 0
    for block in blocks:
        if part.first < block.first < part.end:
            if "by hand" in block.notes and not block.excuse():
                docs.show(block.notes["by hand"], folder)
            start = time.monotonic()
            wrong += block.work_on(PLAN, folder)
            seconds += time.monotonic() - start
    return seconds, wrong


def run(parts, lines, only):
    """Measures the machine's part of the time; the rest of a format is reading, typing and talking."""
    machine, wrong = dict.fromkeys(FORMATS, 0), 0
    os.environ["LAB"] = "lab" # the folder's, not the reader's
    with tempfile.TemporaryDirectory() as folder:
        docs.mirror(folder)
        blocks = docs.blocks_of(lines)
        for part in parts:
            if only and only not in part.minutes:
                continue
            seconds, bad = rehearse(part, blocks, folder)
            print(f"{part.title:40} {seconds:6.1f} s", flush=True)
            wrong += bad
            for name in part.minutes:
                machine[name] += seconds
    for name in [only] if only else FORMATS:
        print(f"{name}: the machine works for {machine[name]:.0f} s of {FORMATS[name]} minutes; "
              "the rest is reading, typing, talking and breaks")
        if machine[name] > 0.2 * 60 * FORMATS[name]:
            print(f"{name}: the machine takes more than a fifth of it: this machine is too slow or too busy")
    return 1 if wrong else 0


def main():
    lines = PLAN.read_text().split("\n")
    parts = parts_of(lines)
    if sys.argv[1:] == ["clock"]:
        return show_clock(parts)
    if sys.argv[1:2] == ["run"] and (len(sys.argv) == 2 or len(sys.argv) == 3 and sys.argv[2] in FORMATS):
        return run(parts, lines, (sys.argv[2:] + [None])[0])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
