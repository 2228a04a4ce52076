"""What the pictures are drawn with: plain SVG with a background of its own, so that it reads on light and dark pages alike.
Colours are names of docs/colours.css. An element has the light value, and the name for a page that knows it (the site)."""
import math
import os
import sys
from html import escape

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
from colours import colours

VALUES = colours()
INK, GREY, EDGE, PALE, PAPER = "text", "muted", "edge", "sunk", "card"
COLOURS = [f"rank-{rank}-ink" for rank in range(4)]
LIGHT = [f"rank-{rank}-wash" for rank in range(4)]
FONT = "DejaVu Sans, Verdana, Arial, sans-serif"


def painted(**colours):
    """The attributes fill and stroke, by names."""
    style = ";".join(f"{what}:var(--{name},{VALUES[name]})" for what, name in colours.items())
    return " ".join(f'{what}="{VALUES[name]}"' for what, name in colours.items()) + f' style="{style}"'


class Picture:
    def __init__(self, width, height):
        self.parts = [
            f'<svg class="drawn" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="{FONT}" font-size="14">',
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6" {painted(fill=PAPER, stroke=EDGE)}/>']

    def text(self, x, y, words, anchor="middle", size=14, colour=INK, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" '
                          f'{painted(fill=colour)}{weight}>{escape(words)}</text>')

    def box(self, x, y, width, height, lines=(), fill=PALE, stroke=EDGE, size=14, colour=INK):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" '
                          f'{painted(fill=fill, stroke=stroke)}/>')
        top = y + height / 2 - (len(lines) - 1) * (size + 4) / 2 + size * 0.36
        for i, line in enumerate(lines):
            self.text(x + width / 2, round(top + i * (size + 4), 1), line, size=size, colour=colour)

    def bar(self, x, y, width, height, words, name, size=12):
        """A phase or a bucket: a box full of its colour."""
        self.box(x, y, width, height, (words,), fill=name, stroke=name, size=size, colour=name + "-on")

    def arrow(self, x1, y1, x2, y2, label="", dx=0, dy=-6, colour=INK, anchor="middle"):
        length = math.hypot(x2 - x1, y2 - y1)
        ex, ey = (x2 - x1) / length, (y2 - y1) / length  # along the arrow
        bx, by = x2 - 9 * ex, y2 - 9 * ey  # where its head begins
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{bx:.1f}" y2="{by:.1f}" '
                          f'{painted(stroke=colour)} stroke-width="1.6"/>')
        self.parts.append(f'<polygon points="{x2},{y2} {bx - 4 * ey:.1f},{by + 4 * ex:.1f} '
                          f'{bx + 4 * ey:.1f},{by - 4 * ex:.1f}" {painted(fill=colour)}/>')
        if label:
            self.text((x1 + x2) / 2 + dx, (y1 + y2) / 2 + dy, label, anchor, 12)

    def line(self, x1, y1, x2, y2, dashes="none", colour=EDGE):
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {painted(stroke=colour)} '
                          f'stroke-width="1.6" stroke-dasharray="{dashes}"/>')

    def svg(self):
        return "\n".join(self.parts + ["</svg>", ""])
