#!/usr/bin/env python3
"""Usage: teach/slides.py [DIR]      (make slides: teach/slides/*.txt become build/slides/*.html)

A deck names things that its chapter shows, and describes them in a few words; the generator takes pictures, code,
outputs and tables from the chapter itself, so the tests have compared them. A deck has a line for each thing:

    slide TITLE
    show TEXT      the first picture, block or table of the chapter in which TEXT stands; 'show PAGE.md: TEXT' of a page;
                   below a picture may be one more
    only TEXT      of that, the lines in which TEXT stands (may be repeated)
    moving NAME STATE   a picture that moves, docs/moving/NAME.html#STATE, in place of the shown one where scripts run and
                   nothing is printed
    point TEXT     at most three of these, the question included
    ask TEXT       a question to the room, in large letters: one in every five slides at least; its answer is in a 'say'
    say TEXT       for the speaker; the paragraph of the chapter before what is shown is added

The first slide is made of the chapter's own title and its 'You will learn'; a deck has at most twelve. Each deck is one HTML file that needs no
network: arrows turn the page, n shows the notes, w a window with notes and clock, f a moving picture in the whole window,
and the browser's print gives a PDF, with the notes if they are shown.
"""
import base64
import html
import mimetypes
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(__file__).resolve().parents[1]
DOCS = TOP / "docs"

sys.path.insert(0, str(TOP / "tools"))
import docs


class Typed(str):
    """A line of a command."""


class Item:
    """What a chapter shows: a picture, a table, a fenced block, or commands with their output; the paragraph before it;
    the section it is in."""

    def __init__(self, kind, lines, before, section):
        self.kind, self.lines, self.before, self.section = kind, lines, before, section

    def __contains__(self, text):
        return any(text in line for line in self.lines)


def paragraph_before(lines, at):
    """The text that ends just above line `at`, comments and empty lines skipped; '' below a heading."""
    found = []
    for line in reversed(lines[:at]):
        if line.startswith(("#", "```", "![", "|", "<details", "<summary", "</details")) or (found and not line.strip()):
            break
        if line.strip() and not line.startswith("<!--"):
            found.append(line.strip())
    return " ".join(reversed(found))


def items_of(lines):
    fences = {block.first - 1: block for block in docs.blocks_of(lines)}
    items, section, at = [], "", 0
    pairs_end = None # of the last commands or output
    while at < len(lines):
        line, end = lines[at], at + 1
        kind = None
        if at in fences:
            block = fences[at]
            kind, shown, end = block.language, block.quoted, block.end + 1
            is_typed = kind == "sh" and "from" not in block.notes
            if is_typed:
                shown = [Typed(line) for line in shown]
            if is_typed or block.typed:
                if pairs_end is not None and not any(lines[i] for i in range(pairs_end, at) if not lines[i].startswith("<!-- ")):
                    items[-1].lines += shown # commands follow an output, or the other way round
                    kind = None
                pairs_end = end
        elif line.startswith("!["):
            kind, shown = "picture", [line]
        elif line.startswith("| "):
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            kind, shown = "table", lines[at:end]
        elif line.startswith("#"):
            section = line.lstrip("# ")
        if kind is not None:
            items.append(Item(kind, shown, paragraph_before(lines, at), section))
        at = end
    return items


def text(markdown):
    """A line of Markdown as HTML: code, bold and italics; a link becomes its text."""
    parts = re.split(r"(`[^`]*`)", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown))
    for i, part in enumerate(parts):
        if part.startswith("`"):
            parts[i] = f"<code>{html.escape(part[1:-1])}</code>"
        else:
            part = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html.escape(part, quote=False))
            parts[i] = re.sub(r"(?<!\w)\*([^*]+)\*", r"<i>\1</i>", part)
    return "".join(parts)


def picture_html(line, folder):
    alt, path = re.match(r"!\[(.*)\]\((.*)\)", line).groups()
    data = base64.b64encode((folder / path).read_bytes()).decode()
    return f'<img alt="{html.escape(alt)}" src="data:{mimetypes.guess_type(path)[0]};base64,{data}">'


IMPORT = '@import "../colours.css";'

# A figure is 91 hundredths of the slide's width wide and 35 high, if it is code or a table (teach/slides.html).
SIZES = [size / 20 for size in range(50, 31, -1)] # font sizes; below 1.6 the last row of a room reads nothing


def fitting(rows_of, what, room=34):
    """The largest font size at which the lines fit: rows_of(size) of them, wrapped ones included."""
    for size in SIZES:
        if rows_of(size) * 1.32 * size <= room:
            return size
    raise ValueError(f"{what[:60]}... is too long for a slide: choose lines of it with 'only'")


CUT = {"code": re.compile(r" (?=&& |\|\| |\? )|(?<=[,;]) |(?<=[^=!<>]=) "), "typed": re.compile(r" (?=--|\| |&& |>)|(?<=;) ")} # where to break a line


def margin_of(line, kind):
    return re.match("[+-]? *" if kind == "code" else " *", line)[0]


def cut(line, columns, kind):
    """Where a line that is too long is broken. Code: before a comment; else before an operator or behind a comma, where the
    fewest brackets are open. A command: before an option or a bar, but neither early nor within quotes. Otherwise between two
    words."""
    margin = len(margin_of(line, kind))
    comment = line.find(" // ") if kind == "code" else -1
    if margin < comment <= columns:
        return comment

    def depth(at):
        return sum((c in "([{") - (c in ")]}") for c in line[:at]) if kind == "code" else 0
    places = [at for at in range(margin + 1, columns + 1) if line[at] == " " and (kind == "" or line[:at].count("'") % 2 == 0)]
    wanted = [at for at in places if kind in CUT and CUT[kind].match(line, at) and (kind == "code" or 3 * at > columns)] or places
    return min(wanted, key=lambda at: (depth(at), -at), default=0)


def broken(line, columns, kind):
    """The line in parts of at most so many columns, all but the first indented by four more; a comment's begin as it does."""
    margin = margin_of(line, kind)
    sign = re.match("// |# ", line[len(margin):])
    kind, more, parts = "" if sign else kind, margin + (sign[0] if sign else "    "), []
    end = " \\" if kind == "typed" else ""
    while len(line) > columns and (at := cut(line, columns - len(end), kind)) > (len(more) if parts else 0):
        parts.append(line[:at] + end)
        line = more + line[at + 1:]
    return [*parts, line]


def closer(lines):
    """The lines; of columns, which are two spaces apart at least, exactly two remain between each and the next, and
    those at the end that no slide is wide enough for are left out."""
    rows = [line for line in lines if re.search(r"\S {2,}\S+.* {2,}\S", line) and not isinstance(line, Typed)]
    blank = [all(row[i:i + 1] in ("", " ") for row in rows) for i in range(max(map(len, rows), default=0))]
    kept = [i for i, empty in enumerate(blank) if not (empty and i > 1 and blank[i - 1] and blank[i - 2])]
    ends = [at for at, i in enumerate(kept) if at <= 90 and i > 0 and blank[i] and blank[i - 1]]
    kept = kept[:ends[-1] if len(kept) > 89 and ends else None]
    return ["".join(line[i:i + 1] for i in kept).rstrip() if line in rows else line for line in lines]


def joined(lines):
    """The lines; a command that goes on in the next line is one again, to be broken where the slide needs it."""
    made = []
    for line in lines:
        if made and isinstance(made[-1], Typed) and isinstance(line, Typed) and made[-1].endswith(" \\"):
            line = Typed(made.pop()[:-1] + line.lstrip())
        made.append(line)
    return made


def code_html(kind, lines, room=34):
    """A block; a long diff is cut to its changed lines."""
    lines = joined(lines)
    if kind == "diff" and len(lines) > 18:
        lines = [line for line in lines if line[:1] in "+-"]
    while not lines[0].strip(" +-"):
        lines = lines[1:]
    lines = lines if kind == "diff" or max(map(len, lines)) <= 89 else closer(lines)
    if kind == "diff": # an indentation that all lines share says nothing
        shared = min((len(line) - len(line[1:].lstrip()) - 1 for line in lines if line[1:].strip()), default=0)
        lines = [line[:1] + line[1 + shared:] for line in lines]
    longest = max(map(len, lines))

    def parts_of(line, size):
        how = "typed" if isinstance(line, Typed) else "code" if kind in ("diff", "c", "python") else ""
        return [type(line)(part) for part in broken(line, int(143 / size), how)]
    size = fitting(lambda size: sum(len(parts_of(line, size)) for line in lines)
                   if size <= 1.6 or longest * size <= 143 else 99, lines[0], room)
    marked = []
    for line in sum((parts_of(whole, size) for whole in lines), []):
        tag = "b" if isinstance(line, Typed) else {"+": "ins", "-": "del"}.get(line[:1]) if kind == "diff" else None
        marked.append(f"<{tag}>{html.escape(line)}</{tag}>" if tag else html.escape(line))
    return f'<pre style="--size: {size}">' + "\n".join(marked) + "</pre>"


def table_html(lines):
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])] for line in lines]
    columns = list(zip(*rows))
    words = sum(max(len(word) for cell in column for word in re.split(r"\s+|(?<=_)", cell)) for column in columns)
    size = fitting(lambda size: sum(1.5 + 1.3 * (len("".join(row)) * size * 0.6 // (88 - 1.6 * size * len(row))) for row in rows)
                   if (0.58 * words + 1.6 * len(columns)) * size <= 88 and size <= 2 else 99, lines[0])
    made = [f"<tr><{tag}>" + f"</{tag}><{tag}>".join(text(cell).replace("_", "_<wbr>") for cell in row) + f"</{tag}></tr>"
            for tag, row in zip(["th"] + ["td"] * len(rows), rows)]
    return f'<table style="--size: {size}">' + "".join(made) + "</table>"


def figure_html(item, only, room):
    """What is shown; with `only`, the lines that have one of these texts, and a table's head."""
    if item.kind == "picture":
        return picture_html(item.lines[0], DOCS)
    is_table = item.kind == "table"
    head, lines = item.lines[:1 if is_table else 0], item.lines[2 if is_table else 0:]
    lines = head + [line for line in lines if not only or any(text in line for text in only)]
    return table_html(lines) if is_table else code_html(item.kind, lines, room)


def moving_html(wanted, folder):
    """A frame that has all of a moving picture in it: styles, recording and scripts."""
    name, _, state = wanted.partition(" ")
    path = folder / f"moving/{name}.html"
    if not path.is_file():
        raise ValueError(f"moving {wanted}: there is no docs/moving/{name}.html")
    page = re.sub(r"<noscript>.*?</noscript>|<nav.*?</nav>|<link rel=\"icon\"[^>]*>", "", path.read_text(), flags=re.S)
    styles = "".join((folder / file).read_text() for file in ("colours.css", "moving/moving.css", "moving/slide.css"))
    page = page.replace('<link rel="stylesheet" href="moving.css">', f"<style>{styles.replace(IMPORT, '')}</style>")
    page = re.sub(r'<script src="(\w+\.js)"></script>', lambda found: f"<script>{(folder / 'moving' / found[1]).read_text()}</script>", page)
    page = page.replace("<html ", f'<html data-theme="light" class="on-slide" data-state="{html.escape(state)}" ').replace("<body>", f'<body class="{name}">')
    title = re.search("<title>(.*)</title>", page)[1]
    return (f'<iframe title="{title}" srcdoc="{html.escape(page)}"></iframe>'
            '<button type="button" class="full" aria-label="The picture in the whole window">larger</button>')


def read_deck(path):
    """The slides of a deck as lists of (key, text), each beginning with its title."""
    slides = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        key, _, rest = line.partition(" ")
        if key not in ("slide", "show", "moving", "only", "point", "ask", "say") or not rest or (key != "slide" and not slides):
            raise ValueError(f"{path}:{number}: a line begins with slide, show, moving, only, point, ask or say, and a deck with slide: '{line}'")
        if key == "slide":
            slides.append([])
        slides[-1].append((key, rest))
    for slide in slides:
        keys = [key for key, _ in slide]
        shows = [rest for key, rest in slide if key == "show"]
        if keys.count("point") + keys.count("ask") > 3 or keys.count("ask") > 1 or len(shows) > 1 + (".svg" in "".join(shows[:1])) or "say" not in keys:
            raise ValueError(f"{path}: '{slide[0][1]}': a slide has at most three points, one of them a question, one show or one "
                             "below a picture, and something to say")
        if "moving" in keys and not any(key == "show" and ".svg" in rest for key, rest in slide):
            raise ValueError(f"{path}: '{slide[0][1]}': what moves needs a picture to show on paper, and without scripts")
    asks = [False, *(any(key == "ask" for key, _ in slide) for slide in slides)] # the first is the title's
    if len(asks) > 12:
        raise ValueError(f"{path}: {len(asks)} slides with the title's: nobody remembers more than 12")
    for first in range(len(asks) - 4):
        if not any(asks[first:first + 5]):
            raise ValueError(f"{path}: slides {first + 1} to {first + 5} ask nothing")
    return slides


def section_html(number, body, notes, footer):
    return (f'<section id="{number}"><div class="slide">{body}<footer>{footer} · {number}</footer></div>'
            f'<aside>{notes}</aside></section>')


def title_slide(lines):
    """The chapter's title, and its 'You will learn', for the notes."""
    title = lines[0].lstrip("# ")
    first = lines.index("## You will learn") + 2
    learn = " ".join(lines[first:lines.index("", first)])
    number, _, rest = title.partition(" ")
    return title, f"<h1>{number}<br>{text(rest)}</h1>", f"<p>{text(learn)}</p>"


def find_item(wanted, deck):
    """The item that a deck's show names, and the page that has it."""
    page, text_in_it = re.fullmatch(r"(?:((?:\w+/)?\w+\.md): )?(.*)", wanted).groups()
    page = page or f"{deck.stem}.md"
    for item in items_of((DOCS / page).read_text().split("\n")):
        if text_in_it in item:
            return item, page
    raise ValueError(f"{deck}: show: nothing in docs/{page} has '{text_in_it}'")


def deck_html(deck):
    """The page of a deck; its chapter is the document of the same name."""
    title, body, notes = title_slide((DOCS / f"{deck.stem}.md").read_text().split("\n"))
    made = [section_html(1, body, notes, "ddp.c")]
    for number, slide in enumerate(read_deck(deck), 2):
        def all_of(key, slide=slide):
            return [line for word, line in slide if word == key]
        figure, notes = "", "".join(f"<p>{text(line)}</p>" for line in all_of("say"))
        for wanted in all_of("show"):
            item, page = find_item(wanted, deck)
            frame = "".join(moving_html(named, DOCS) for named in all_of("moving") if not figure)
            figure += f"<figure{' class=moving' if frame else ''}>{figure_html(item, all_of('only'), 13 if figure else 34)}{frame}</figure>"
            notes += f'<p class="from">{page}, “{text(item.section)}”: {text(item.before)}</p>'
        points = "".join(f"<li>{text(line)}</li>" for line in all_of("point"))
        points = points and f'<ul class="{"" if figure else "large"}">{points}</ul>'
        points += "".join(f"<p class=ask>{text(line)}</p>" for line in all_of("ask"))
        made.append(section_html(number, f"<h2>{text(slide[0][1])}</h2>{figure}{points}", notes, text(title)))
    page = (TOP / "teach/slides.html").read_text()
    page = page.replace("{colours}", (TOP / "docs/colours.css").read_text())
    return page.replace("{title}", html.escape(title)).replace("{slides}", "\n".join(made))


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) == 2 else TOP / "build/slides"
    if len(sys.argv) > 2 or str(folder).startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    for deck in sorted((TOP / "teach/slides").glob("*.txt")):
        page = folder / f"{deck.stem}.html"
        try:
            page.write_text(deck_html(deck))
        except ValueError as error:
            print(f"teach/slides.py: {error}", file=sys.stderr)
            return 1
        print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
