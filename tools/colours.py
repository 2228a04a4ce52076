#!/usr/bin/env python3
"""Usage: tools/colours.py      The colours of docs/colours.css for gnuplot, --rank-0 as rank_0, and how our plots look.

Lines that are no ranks, phases or buckets have the plots' linetypes: ours is the first, and others differ by grey and
dashes. colours() and labels() serve Python."""
import math
import os
import re

FILE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs/colours.css")
STYLE = """set termoption noenhanced
set encoding utf8
set border 3 linecolor rgb edge
set tics nomirror scale 0.5 textcolor rgb muted
set grid linecolor rgb line_
set title textcolor rgb text
set xlabel textcolor rgb muted
set ylabel textcolor rgb muted
set key textcolor rgb text
set linetype 1 linecolor rgb accent linewidth 2.5 pointtype 7
set linetype 2 linecolor rgb text linewidth 2 dashtype (12, 5) pointtype 6
set linetype 3 linecolor rgb muted linewidth 2 dashtype (4, 4) pointtype 4
set linetype 4 linecolor rgb muted linewidth 2 dashtype (14, 4, 3, 4) pointtype 12
set linetype 5 linecolor rgb edge linewidth 2 pointtype 8
set linetype 6 linecolor rgb edge linewidth 2 dashtype (2, 5) pointtype 10
set linetype cycle 6"""


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


def labels(ends, height, log=False):
    """gnuplot's labels at the ends of lines, [(x, y, words, colour)]: those that would overlap move apart. `height` is that of
    a label, in units of y (or, with `log`, as a factor)."""
    out, floor = "", -math.inf
    for x, y, words, colour in sorted(ends, key=lambda end: end[1]):
        place = max(math.log(y) if log else y, floor)
        floor = place + (math.log(height) if log else height)
        out += f"set label '{words}' at {x},{math.exp(place) if log else place:.6g} left offset 1,0 textcolor rgb {colour}\n"
    return out


def together(ends, near):
    """Ends (x, y, name) that differ by less than `near` of their y are one, under all of their names."""
    out = []
    for x, y, name in sorted(ends, key=lambda end: end[1]):
        if out and y - out[-1][1] <= near * y:
            out[-1] = (x, out[-1][1], f"{out[-1][2]} = {name}")
        else:
            out.append((x, y, name))
    return [(*end, "text") for end in out]


if __name__ == "__main__":
    print(style())
