#!/usr/bin/env python3
"""Usage: tools/cast.py [OUT.svg]      (or: make cast)

Records a real terminal with script(1): two ranks train, one is killed, the job resumes, and the file has the bytes of a run
without a fault. Draws the recording as an SVG that plays once and stays at its last picture: docs/cast.svg."""
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
COLUMNS, ROWS, FRAME, LONGEST = 98, 21, 0.12, 1.0  # seconds: pictures closer than FRAME are one, longer pauses are cut
RUN = "05_fault_tolerance/run.sh 2 --epochs 3 --num-samples 640 --threads 1 --save-every 0 --save-every-steps 8"
COMMANDS = (f"{RUN} --inject kill:1:21 --checkpoint-dir $D/killed", "cmp $D/quiet/cnn_digits.safetensors "
            "$D/killed/cnn_digits.safetensors && echo the same bytes")


def session(folder):
    """What runs in the recorded terminal: types each command, then runs it."""
    for command in COMMANDS:
        shown = command.replace("$D/", "")
        for letter in f"$ {shown}\n":
            print(letter, end="", flush=True)
            time.sleep(0.012)
        # Only the places of files are shortened.
        run = f"{{ {command.replace('$D', folder)}; }} 2>&1 | sed -u 's|{folder}/||g'"
        subprocess.run(["bash", "-c", run], cwd=ROOT, check=True)


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
    css = "c" if text.startswith("$ ") else "f" if "fatal:" in text or "SIGKILL" in text else \
        "g" if "resumes from" in text or text.startswith("the same bytes") else "o"
    runs = [["", row[0][1]]]
    for letter, colour in row[:len(text)]:
        if colour != runs[-1][1]:
            runs.append(["", colour])
        runs[-1][0] += letter
    parts = "".join(f'<tspan fill="{names[colour]}">{escape(run)}</tspan>' if colour in names else escape(run) for run, colour in runs)
    return f'<text class="{css}" x="16" y="{y}">{parts}</text>'


def draw(frames):
    """frames: (seconds, picture). One tall column of pictures, which steps past a window."""
    dark = colours("dark")
    names = {}
    css = open(os.path.join(ROOT, "docs/colours.css"), encoding="utf-8").read()
    for name, number in re.findall(r"--([\w-]+)-ansi: (\d+);", css):
        names.setdefault(int(number), dark[name + "-ink"])
    width, height, end = 16 * 2 + 7.83 * COLUMNS, 24 + 19 * ROWS, frames[-1][0] + 0.01
    keys = "".join(f"{100 * at / end:.2f}%{{transform:translateY({-height * i}px)}}" for i, (at, _) in enumerate(frames))
    body = "".join(f'<g transform="translate(0 {height * i})">' + "".join(row_svg(row, 28 + 19 * k, names) for k, row in enumerate(picture)) + "</g>\n"
                   for i, (_, picture) in enumerate(frames))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img">
<title>Two ranks train, rank 1 is killed, the job resumes from a snapshot, and ends with the same bytes</title>
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


def frames_of(typescript, timing):
    """The pictures of a recording: script's output, and its lines of "SECONDS BYTES"."""
    screen, frames, at, shown, place = Screen(), [], 0, -1, typescript.index(b"\n") + 1
    for line in timing.splitlines():
        seconds, size = line.split()
        at += min(float(seconds), LONGEST)
        screen.write(typescript[place:place + int(size)].decode("utf-8", "replace"))
        place += int(size)
        if at - shown >= FRAME:
            frames.append((at, screen.picture()))
            shown = at
    return [*frames, (at + FRAME, screen.picture())]


def main():
    if sys.argv[1:2] == ["--session"]:
        return session(sys.argv[2])
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "docs/cast.svg")
    if not shutil.which("script"):
        sys.exit("cast: no script(1) here: it is in the package util-linux or bsdutils")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(f"{RUN} --checkpoint-dir {folder}/quiet", shell=True, cwd=ROOT, check=True, capture_output=True)
        inside = f"stty cols {COLUMNS} rows {ROWS}; exec {sys.executable} {os.path.abspath(__file__)} --session {folder}"
        subprocess.run(["script", "-q", "-e", "-c", inside, "--log-out", folder + "/out", "--log-timing", folder + "/timing"],
                       check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        with open(folder + "/out", "rb") as typescript, open(folder + "/timing", encoding="ascii") as timing:
            svg = draw(frames_of(typescript.read(), timing.read()))
    assert "the same bytes" in svg and "SIGKILL" in svg and len(svg.encode()) <= 300000, len(svg)
    with open(out, "w", encoding="utf-8") as file:
        file.write(svg.replace(os.uname().nodename, "myhost"))
    print(out, len(svg), "bytes")


if __name__ == "__main__":
    main()
