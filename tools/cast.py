#!/usr/bin/env python3
"""Usage: tools/cast.py [STORY]      (or: make cast, which draws docs/cast.svg)

Records a real terminal with script(1), and draws the recording as an SVG that plays once, faster than it was: docs/STORY.svg. Its
first and its last picture are a poster, the lines of the recording that tell the story. The stories:
cast  Two ranks have equal losses; then one is killed, the job resumes, and the file has the bytes of a run without a fault.
gloo  Two ranks in PyTorch; then one of them in C: the lines are the same. PYTHON: a Python that has PyTorch, if not python3."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from html import escape

from colours import colours

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COLUMNS, ROWS, LENGTH, STILL = 60, 10, 12, 1.5  # seconds: of all, and of the poster before and behind the recording
FRAME, LONGEST, READ = 0.12, 1.0, 2.0  # recorded seconds: closer pictures are one, longer pauses are cut, a line to read stays
STORIES = {
    "cast": {
        "title": "Two ranks have equal losses; rank 1 is killed, the job resumes from a snapshot, and ends with the same bytes",
        "before": "05_fault_tolerance/run.sh 2 --epochs 2 --checkpoint-dir quiet",
        "commands": ("STAGE=b 02_multi_gpu_spawn/run.sh 2 --epochs 1", "05_fault_tolerance/run.sh 2 --inject kill:1:21 \\\n"
                     "--epochs 2 --save-every-steps 8 --checkpoint-dir killed", "cmp {quiet,killed}/cnn* && echo the same bytes"),
        "poster": ("$ STAGE=b", "Test Epoch: 0", "Test Epoch: 0", "$ 05_", "> --epochs", "was killed by SIGKILL", "resumes from", "done in",
                   "$ cmp", "the same bytes"),  # in the rows of the recording, in this order
        "read": ("Test Epoch", "was killed by", "resumes from", "done in"),
    },
    "gloo": {
        "title": "Two ranks in PyTorch train; then one of them is a program in C, and the lines are the same",
        "before": "true",
        "commands": ("beyond/gloo/run.sh 0 2 $OPTIONS | tee python # PyTorch", "beyond/gloo/run.sh 1 1 $OPTIONS | tee mixed # C, PyTorch",
                     "cmp <(sort python) <(sort mixed) && echo the same lines"),
        "poster": ("$ beyond", "[640/1437] Loss", "[960/1437] Loss", "Test Epoch: 0", "$ beyond", "[640/1437] Loss", "[960/1437] Loss",
                   "Test Epoch: 0", "$ cmp", "the same lines"),
        "read": ("[960/1437] Loss", "Test Epoch"),
        "environment": {"OPTIONS": "--dropout off --max-steps 20 --log-interval 5", "GLOO_SOCKET_IFNAME": "lo"},
    },
}


def session(story):
    """What runs in the recorded terminal: types each command, then runs it."""
    for command in story["commands"]:
        for letter in "$ " + command.replace("\n", "\n> ") + "\n":
            print(letter, end="", flush=True)
            time.sleep(0.012)
        subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True, env=os.environ | story.get("environment", {}))


class Screen:
    """As much of a terminal as a run writes to: lines that wrap and scroll, carriage returns, erasing, colours."""

    def __init__(self):
        self.rows, self.x, self.colour = [[]], 0, None

    def write(self, text):
        for escape_, letter in re.findall(r"\x1b\[([\d;?]*[A-Za-z])|(.)", text, re.S):
            if escape_[-1:] == "K":
                del self.rows[-1][self.x:]
            elif escape_[-1:] == "m":
                number = re.search(r"38;5;(\d+)", escape_)
                self.colour = int(number[1]) if number else {"31": 160, "32": 29, "33": 136, "2": 242}.get(escape_[:-1])
            elif letter == "\n":
                self.rows.append([])
                self.x = 0
            elif letter == "\r":
                self.x = 0
            elif letter >= " ":
                if self.x == COLUMNS:
                    self.rows.append([])
                    self.x = 0
                row = self.rows[-1]
                row += [(" ", None)] * (self.x + 1 - len(row))
                row[self.x] = (letter, self.colour)
                self.x += 1

    def picture(self):
        return [list(row) for row in self.rows[-ROWS:]]


def row_svg(row, y, names):
    """A row as text, a tspan for each colour; the prompt and marks of the run have those of docs/colours.css."""
    text = "".join(letter for letter, _ in row).rstrip()
    if not text:
        return ""
    css = "c" if text.startswith(("$ ", "> ", "Test ")) else "f" if "fatal:" in text or "SIGKILL" in text else \
        "g" if "resumes from" in text or text.startswith("the same ") else "o"
    runs = [["", row[0][1]]]
    for letter, colour in row[:len(text)]:
        if colour != runs[-1][1]:
            runs.append(["", colour])
        runs[-1][0] += letter
    parts = "".join(f'<tspan fill="{names[colour]}">{escape(run)}</tspan>' if colour in names else escape(run) for run, colour in runs)
    return f'<text class="{css}" x="16" y="{y}">{parts}</text>'


def draw(frames, title):
    """frames: (seconds, picture). One tall column of pictures, which steps past a window."""
    dark = colours("dark")
    names = {}
    css = open(os.path.join(ROOT, "docs/colours.css"), encoding="utf-8").read()
    for name, number in re.findall(r"--([\w-]+)-ansi: (\d+);", css):
        names.setdefault(int(number), dark[name + "-ink"])
    width, height, end = 16 * 2 + 7.83 * COLUMNS, 24 + 19 * ROWS, LENGTH
    keys = "".join(f"{100 * at / end:.2f}%{{transform:translateY({-height * i}px)}}" for i, (at, _) in enumerate(frames))
    body = "".join(f'<g transform="translate(0 {height * i})">' + "".join(row_svg(row, 28 + 19 * k, names) for k, row in enumerate(picture)) + "</g>\n"
                   for i, (_, picture) in enumerate(frames))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img">
<title>{escape(title)}</title>
<style>
text {{ font: 13px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }}
.c {{ fill: {dark["text"]}; }} .o {{ fill: {dark["muted"]}; }} .f {{ fill: {dark["fault-ink"]}; }} .g {{ fill: {dark["ok-ink"]}; }}
#film {{ transform: translateY({-height * (len(frames) - 1)}px); }}
@media (prefers-reduced-motion: no-preference) {{ #film {{ animation: play {end:.1f}s step-end 1 both; }} }}
@keyframes play {{ {keys}100%{{transform:translateY({-height * (len(frames) - 1)}px)}} }}
</style>
<rect width="100%" height="100%" rx="12" fill="{dark["sunk"]}"/>
<svg width="100%" height="100%"><g id="film">
{body}</g></svg>
</svg>
"""


def poster(rows, lines):
    """The rows of a recording that tell its story."""
    chosen, rows = [], iter(rows)
    for words in lines:
        chosen.append(next(row for row in rows if words in "".join(letter for letter, _ in row)))
    return chosen


def frames_of(typescript, timing, words_to_read):
    """The pictures of a recording, script's output and its lines of "SECONDS BYTES", and all of its rows."""
    screen, frames, at, shown, place = Screen(), [], 0, -1, typescript.index(b"\n") + 1
    for line in timing.splitlines():
        seconds, size = line.split()
        text = typescript[place:place + int(size)].decode("utf-8", "replace")
        at += min(float(seconds), LONGEST)
        screen.write(text)
        place += int(size)
        to_read = any(words in text for words in words_to_read)
        if at - shown >= FRAME or to_read:
            frames.append((at, screen.picture()))
            shown = at
        at += READ if to_read else 0
    return [*frames, (at + FRAME, screen.picture())], screen.rows


def film(frames, still):
    """The frames between two posters, at the speed that makes all of it LENGTH seconds long."""
    speed = frames[-1][0] / (LENGTH - 2 * STILL)
    return [(0, still), *((STILL + at / speed, picture) for at, picture in frames[:-1]), (LENGTH - STILL, still)]


def main():
    name = sys.argv[-1] if len(sys.argv) > 1 else "cast"
    if name not in STORIES:
        sys.exit(f"cast: there is no story {name}: it is {' or '.join(STORIES)}")
    story = STORIES[name]
    if sys.argv[1:2] == ["--session"]:
        return session(story)
    if not shutil.which("script"):
        sys.exit("cast: no script(1) here: it is in the package util-linux or bsdutils")
    with tempfile.TemporaryDirectory() as folder:
        for part in ("02_multi_gpu_spawn", "05_fault_tolerance", "beyond"):
            os.symlink(os.path.join(ROOT, part), os.path.join(folder, part))
        subprocess.run(story["before"], shell=True, cwd=folder, check=True, capture_output=True)
        inside = f"stty cols {COLUMNS} rows {ROWS}; exec {sys.executable} {os.path.abspath(__file__)} --session {name}"
        recorder = ["script", "-q", "-e", "-c", inside, "--log-out", "out", "--log-timing", "timing"]
        subprocess.run(["unshare", "-ru", "sh", "-c", 'hostname myhost && exec "$@"', "sh", *recorder], cwd=folder,
                       check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        with open(folder + "/out", "rb") as typescript, open(folder + "/timing", encoding="ascii") as timing:
            frames, rows = frames_of(typescript.read(), timing.read(), story["read"])
    svg = draw(film(frames, poster(rows, story["poster"])), story["title"])
    assert len(svg.encode()) <= 300000, len(svg)
    out = os.path.join(ROOT, "docs", name + ".svg")
    with open(out, "w", encoding="utf-8") as file:
        file.write(svg)
    print(out, len(svg), "bytes")


if __name__ == "__main__":
    main()
