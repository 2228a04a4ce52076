#!/usr/bin/env python3
"""Usage: teach/handout.py [FILE.html]      (make slides: teach/handout.md as one page to print, A4 or Letter)"""
import html
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import docs
from slides import TOP, items_of, text

STYLE = """
@page { margin: 9mm; }
body { font: 9.7pt/1.3 "DejaVu Sans", Verdana, Arial, sans-serif; margin: 0 auto; max-width: 190mm; columns: 2; column-gap: 6mm; }
h1 { font-size: 15pt; margin: 0 0 1.5mm; column-span: all; } h2 { font-size: 11pt; margin: 2.6mm 0 .8mm; break-after: avoid; }
p, ol, ul { margin: 0 0 1.2mm; } ol, ul { padding-left: 4.5mm; } table { border-collapse: collapse; width: 100%; break-inside: avoid; }
td, th { border-bottom: .2mm solid var(--edge); padding: .35mm 1mm; text-align: left; vertical-align: top; } tr:first-child { display: none; } td:first-child { width: 37%; }
li { break-inside: avoid; }
pre { background: var(--sunk); padding: 1mm; font-size: 7.9pt; white-space: pre-wrap; break-inside: avoid; margin: 0; }
figure { margin: 0 0 1.2mm; } figure svg { display: block; width: 100%; height: auto; }
code, pre { font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; } code { font-size: .9em; overflow-wrap: anywhere; }
"""


def picture(name):
    """A drawing of docs/pictures, whose colours are those of the page."""
    svg = (TOP / "docs/pictures" / name).read_text()
    return f"<figure>{svg[svg.index('<svg'):]}</figure>"


def body(lines):
    """The Markdown of a hand-out as HTML: headings, paragraphs, lists, tables and blocks."""
    items = {tuple(item.lines): item for item in items_of(lines)}
    fenced = {block.first - 1: block for block in docs.blocks_of(lines)}
    at, made = 0, []
    while at < len(lines):
        end = at + 1
        if at in fenced:
            made.append(f"<pre>{html.escape(chr(10).join(fenced[at].quoted))}</pre>")
            end = fenced[at].end + 1
        elif lines[at].startswith("!["):
            made.append(picture(re.search(r"pictures/(\w+\.svg)", lines[at])[1]))
        elif lines[at].startswith("#"):
            level, _, title = lines[at].partition(" ")
            made.append(f"<h{len(level)}>{text(title)}</h{len(level)}>")
        elif lines[at].strip():
            while end < len(lines) and lines[end].strip():
                end += 1
            paragraph = lines[at:end]
            if tuple(paragraph) in items:
                rows = ["".join(f"<td>{text(cell.strip())}</td>" for cell in row[1:-1].split("|"))
                        for row in paragraph[:1] + paragraph[2:]]
                made.append("<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>")
            elif re.match(r"(-|\d+\.) ", paragraph[0]):
                tag = "ul" if paragraph[0][0] == "-" else "ol"
                points = re.split(r"^(?:-|\d+\.) ", "\n".join(paragraph), flags=re.M)[1:]
                made.append(f"<{tag}>" + "".join(f"<li>{text(point)}</li>" for point in points) + f"</{tag}>")
            else:
                made.append(f"<p>{text(' '.join(paragraph))}</p>")
        at = end
    return "\n".join(made)


def main():
    page = Path(sys.argv[1]) if len(sys.argv) == 2 else TOP / "build/slides/handout.html"
    if len(sys.argv) > 2 or str(page).startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    page.parent.mkdir(parents=True, exist_ok=True)
    lines = (TOP / "teach/handout.md").read_text().split("\n")
    title = html.escape(lines[0].lstrip("# "))
    page.write_text(f'<!doctype html>\n<html lang="en" data-theme="light"><meta charset="utf-8"><title>{title}</title>'
                    f'<style>{(TOP / "docs/colours.css").read_text()}{STYLE}</style>\n'
                    f"<body>\n{body(lines)}\n</body></html>\n")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
