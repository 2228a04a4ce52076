"""What the pictures are drawn with: plain SVG with a background of its own, so that it reads on light
and dark pages alike. All pictures share its colours and its font."""
import math
from html import escape

INK, GREY, PALE, PAPER = "#222222", "#777777", "#eeeeee", "#ffffff"
COLOURS = ["#4477aa", "#cc6677", "#228833", "#b8860b"]  # of ranks 0 to 3
LIGHT = ["#dce6f2", "#f7dfe3", "#d9eedd", "#f6ebcd"]
FONT = "DejaVu Sans, Verdana, Arial, sans-serif"


class Picture:
    def __init__(self, width, height):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="{FONT}" font-size="14">',
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6" '
            f'fill="{PAPER}" stroke="{GREY}"/>']

    def text(self, x, y, words, anchor="middle", size=14, colour=INK, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" '
                          f'fill="{colour}"{weight}>{escape(words)}</text>')

    def box(self, x, y, width, height, lines=(), fill=PALE, stroke=GREY, size=14):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" '
                          f'fill="{fill}" stroke="{stroke}"/>')
        top = y + height / 2 - (len(lines) - 1) * (size + 4) / 2 + size * 0.36
        for i, line in enumerate(lines):
            self.text(x + width / 2, round(top + i * (size + 4), 1), line, size=size)

    def arrow(self, x1, y1, x2, y2, label="", dx=0, dy=-6, colour=INK, anchor="middle"):
        length = math.hypot(x2 - x1, y2 - y1)
        ex, ey = (x2 - x1) / length, (y2 - y1) / length  # along the arrow
        bx, by = x2 - 9 * ex, y2 - 9 * ey  # where its head begins
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{bx:.1f}" y2="{by:.1f}" '
                          f'stroke="{colour}" stroke-width="1.6"/>')
        self.parts.append(f'<polygon points="{x2},{y2} {bx - 4 * ey:.1f},{by + 4 * ex:.1f} '
                          f'{bx + 4 * ey:.1f},{by - 4 * ex:.1f}" fill="{colour}"/>')
        if label:
            self.text((x1 + x2) / 2 + dx, (y1 + y2) / 2 + dy, label, anchor, 12)

    def line(self, x1, y1, x2, y2, dashes="none", colour=GREY):
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" '
                          f'stroke-width="1.6" stroke-dasharray="{dashes}"/>')

    def svg(self):
        return "\n".join(self.parts + ["</svg>", ""])
