#!/usr/bin/env python3
"""Usage: tools/colours.py      The colours of docs/colours.css for gnuplot, --rank-0 as rank_0, and how our plots look.

colours() gives Python their names and values."""
import os
import re

FILE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs/colours.css")
STYLE = """set termoption noenhanced
set encoding utf8
set border 3 linecolor rgb edge
set tics nomirror scale 0.5 textcolor rgb muted
set grid linecolor rgb line_
set title textcolor rgb text font ',+1'
set xlabel textcolor rgb muted
set ylabel textcolor rgb muted
set key textcolor rgb text"""


def colours(theme="light"):
    """{"rank-0": "#3f6fe0", ...} of a theme, light or dark."""
    with open(FILE, encoding="utf-8") as file:
        found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", file.read())
    return {name: dark if theme == "dark" else light for name, light, dark in found}


def style():
    """The first lines of a plot. `line_`, as `line` is a word of gnuplot's."""
    values = {name.replace("-", "_"): value for name, value in colours().items()}
    values["line_"] = values.pop("line")
    return "".join(f"{name} = '{value}'\n" for name, value in values.items()) + STYLE


if __name__ == "__main__":
    print(style())
