"""The diffs between the steps, for the site: the output of tools/stepdiff.sh as rows of two columns, and the reasons
that the chapters, or tools/site/reasons.md, give for each hunk."""
import difflib
import html
import os
import re
import subprocess
import sys

from pygments.lexers import get_lexer_for_filename
from pygments.lexers.c_cpp import CLexer
from pygments.lexers.special import TextLexer
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

INCLUDE = re.compile(r"#include |import |from \S+ import ")  # what a file uses
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import docs  # noqa: E402  (its blocks are the quotations)
from reasons import written_reasons  # noqa: E402


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def highlighted(path):
    """The lines of a file, each a list of (CSS class of pygments, text)."""
    try:
        lexer = get_lexer_for_filename(path, stripnl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False)
    return lines_of_tokens(lexer, read(path))


def lines_of_tokens(lexer, code):
    lines = [[]]
    for kind, text in lexer.get_tokens(code):
        while kind not in STANDARD_TYPES:
            kind = kind.parent
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append((STANDARD_TYPES[kind], part))
    return lines[:-1]


def line_html(tokens, marked=frozenset(), link=None):
    """A highlighted line; the characters whose places are in `marked` are shown as changed; link(i): where token i leads."""
    out, place = "", 0
    for at, (css, text) in enumerate(tokens):
        target = link(at) if link else None
        if target:
            out += f'<a class="{css}" href="{target}">{html.escape(text, quote=False)}</a>'
            place += len(text)
            continue
        runs = [[text[0], place in marked]]
        for offset, letter in enumerate(text[1:], place + 1):
            if (offset in marked) == runs[-1][1]:
                runs[-1][0] += letter
            else:
                runs.append([letter, offset in marked])
        for run, changed in runs:
            run = html.escape(run, quote=False)
            run = f"<mark>{run}</mark>" if changed else run
            out += f'<span class="{css}">{run}</span>' if css else run
        place += len(text)
    return out


class Hunk:
    """lines: (sign, number in the old file or None, number in the new one or None, text)."""

    def __init__(self, header):
        self.old, self.new = (int(n) for n in re.match(r"@@ -(\d+).* \+(\d+)", header).groups())
        self.lines, self.is_key = [], False
        self.comment, self.is_c = (0, 0), True  # the last line of the first comment, in both files
        self.reasons = []  # (line it is about, in the new file or else the old one, Markdown)

    def add(self, line):
        old = self.old if line[0] in " -" else None
        new = self.new if line[0] in " +" else None
        self.lines.append((line[0], old, new, line[1:]))
        self.old += old is not None
        self.new += new is not None

    def parts(self):
        """[what is folded, or None; a hunk]: what changes in the first comment, or in headers, apart from the rest."""
        last = max((i for i, line in enumerate(self.lines) if self.is_head(line)), default=-1)
        if not any(line[0] != " " for line in self.lines[:last + 1]):
            return [(None, self)]
        head, rest = Hunk("@@ -1 +1 @@"), Hunk("@@ -1 +1 @@")
        head.lines, rest.lines = self.lines[:last + 1], self.lines[last + 1:]
        if not rest.changed():
            head.lines, rest.lines = self.lines, []
        words = [word for word, found in (("the comment", any(not INCLUDE.match(x[1:]) for x in head.changed() if x[1:].strip())),
                                          ("headers" if self.is_c else "imports", any(INCLUDE.match(x[1:]) for x in head.changed()))) if found]
        return [(" and ".join(words), head)] + ([(None, rest)] if rest.lines else [])

    def is_head(self, line):
        """Is it a line of the first comment of the file, or one that includes or imports?"""
        return INCLUDE.match(line[3]) or (line[2] or 999) <= self.comment[1] and (line[1] is None or line[1] <= self.comment[0]) or \
            line[2] is None and line[1] <= self.comment[0]

    def changed(self):
        return [sign + text for sign, _, _, text in self.lines if sign != " "]


class Step:
    """One diff of tools/stepdiff.sh."""

    def __init__(self, name):
        self.name, self.hunks = name, []
        shown = subprocess.run(["tools/stepdiff.sh", name], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE)
        lines = shown.stdout.splitlines()
        self.before, self.program = (line[4:].split("\t")[0] for line in lines[:2])
        ends = [next((n for n, text in enumerate(read(path).split("\n"), 1) if n > 1 and re.search(r'\*/|"""$', text)), 0)
                for path in (self.before, self.program)]
        for line in lines[2:]:
            if line.startswith("@@"):
                self.hunks.append(Hunk(line))
                self.hunks[-1].comment, self.hunks[-1].is_c = ends, self.program.endswith(".c")
            else:
                self.hunks[-1].add(line)
        # The program's comment begins with it: " * NAME - IDEA."
        self.idea = read(self.program).split(" - ", 1)[1].split("\n")[0].rstrip(".")
        if name == "dp":
            self.idea = "from DataParallel to DDP"


def similar(old, new):
    return difflib.SequenceMatcher(None, old.strip(), new.strip(), autojunk=False).ratio() > 0.6


def pairs(gone, new):
    """Puts changed lines side by side: (old or None, new or None), in the order of both."""
    rows, at = [], 0
    for line in gone:
        match = next((i for i in range(at, len(new)) if similar(line[3], new[i][3])), None)
        if match is None:
            rows.append([line, None])
            continue
        rows += [[None, other] for other in new[at:match]] + [[line, new[match]]]
        at = match + 1
    rows += [[None, other] for other in new[at:]]
    for i, row in enumerate(rows):  # different lines may share a row, too, if nothing is between them
        hole = next((k for k in range(i + 1, len(rows)) if rows[k][0] is None), None)
        if row[1] is None and hole is not None and all(r[1] is None for r in rows[i:hole]):
            row[1] = rows.pop(hole)[1]
    return rows


def rows_of(hunk):
    """(sign, old line or None, new line or None): context, or lines side by side."""
    rows, gone, new = [], [], []
    for line in [*hunk.lines, (" ", None, None, "")]:
        if line[0] == "-":
            gone.append(line)
        elif line[0] == "+":
            new.append(line)
        else:
            rows += [("±", *pair) for pair in pairs(gone, new)] + [(" ", line, line)]
            gone, new = [], []
    return rows[:-1]


def changes(old, new):
    """The places of the characters that differ, word by word, in both lines."""
    words = [re.findall(r"\w+|\s+|[^\w\s]", text) for text in (old, new)]
    starts = [[sum(map(len, w[:i])) for i in range(len(w) + 1)] for w in words]
    marked = set(), set()
    for kind, a, b, c, d in difflib.SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        if kind != "equal":
            marked[0].update(range(starts[0][a], starts[0][b]))
            marked[1].update(range(starts[1][c], starts[1][d]))
    return marked


def hunk_html(step, hunk, tokens, to_root):
    """The rows as one grid: in the order of a unified diff, each with its row for two columns."""
    left, right, out, waiting = tokens[step.before], tokens[step.program], [], []

    def cell(side, sign, path, number, code, row):
        out_of = {"-": "del", "+": "add", " ": "same"}[sign]
        return (f'<div class="{side} {out_of}" style="--row:{row}"><a class="line" tabindex="-1" href="{to_root}{path}.html'
                f'#L{number}">{number}</a><code><i>{sign}</i>{code}</code></div>')

    for row, (sign, old, new) in enumerate(rows_of(hunk), 1):
        marked = changes(old[3], new[3]) if old and new and sign == "±" and similar(old[3], new[3]) else ((), ())
        if sign == " ":
            out += waiting + [cell("left", " ", step.before, old[1], line_html(left[old[1] - 1]), row),
                              cell("right", " ", step.program, new[2], line_html(right[new[2] - 1]), row)]
            waiting = []
            continue
        if old:
            out.append(cell("left", "-", step.before, old[1], line_html(left[old[1] - 1], marked[0]), row))
        if new:
            waiting.append(cell("right", "+", step.program, new[2], line_html(right[new[2] - 1], marked[1]), row))
    return '<div class="highlight rows">' + "".join(out + waiting) + "</div>"


def context_html(step, old, new, count, tokens, to_root):
    """COUNT lines that both files have, from these on, folded."""
    if count <= 0:
        return ""
    hunk = Hunk(f"@@ -{old} +{new} @@")
    for tokens_of_line in tokens[step.before][old - 1:old - 1 + count]:
        hunk.add(" " + "".join(text for _, text in tokens_of_line))
    lines = "1 unchanged line" if count == 1 else f"{count} unchanged lines"
    return f'<details class="context"><summary>{lines}</summary>{hunk_html(step, hunk, tokens, to_root)}</details>\n'


def quoted_html(quoted):
    """The lines of a diff that a page quotes, as the diff pages show theirs. One line of HTML: Markdown ends at an empty one."""
    signs = {"-": "-", "<": "-", "+": "+", ">": "+", " ": " ", "": " "}
    hunk, places = Hunk("@@ -1 +1 @@"), []
    for line in quoted:
        if line[:1] in signs and line != "---":
            hunk.add(signs[line[:1]] + (line[2:] if line[:1] in ("<", ">") else line[1:]))
            places.append(None)
        else:
            places.append(f'<div class="place"><code>{html.escape(line, quote=False)}</code></div>')
    tokens = lines_of_tokens(CLexer(stripnl=False), "".join(line[3] + "\n" for line in hunk.lines))
    marked = {}
    for sign, old, new in rows_of(hunk):
        if sign == "±" and old and new and similar(old[3], new[3]):
            marked[id(old)], marked[id(new)] = changes(old[3], new[3])
    css, rows, shown = {"-": "del", "+": "add", " ": "same"}, zip(hunk.lines, tokens), []
    for place in places:
        if place is None:
            line, code = next(rows)
            place = f'<div class="{css[line[0]]}"><code><i>{line[0]}</i>{line_html(code, marked.get(id(line), ()))}</code></div>'
        shown.append(place)
    return '<div class="highlight rows quoted">' + "".join(shown) + "</div>"


def quotations(chapter):
    """The diffs that a page quotes: (first line of the block, its command, changed lines, heading above it)."""
    lines = read(chapter).split("\n")
    for block in docs.blocks_of(lines):
        if block.language == "diff" and "from" in block.notes:
            heading = next(line for line in reversed(lines[:block.first]) if re.match("#+ ", line))
            yield block.first, block.notes["from"], [x for x in block.quoted if x[1:].strip()], heading.lstrip("# ")


def steps():
    """All steps, each hunk with its reasons. Reports hunks without a reason, and reasons without a hunk."""
    names = subprocess.run(["tools/stepdiff.sh"], cwd=ROOT, text=True, stderr=subprocess.PIPE).stderr
    found = [Step(name) for name in re.findall(r"[\w-]+", names.split("is no step: ")[1]) if name not in ("or", "--count")]
    written = written_reasons()
    for step in found:
        for piece, text, is_key in written.get(step.name, []):
            places = [hunk for hunk in step.hunks if any(piece in line for line in hunk.changed())]
            for hunk in places:
                sign, old, new, _ = max((line for line in hunk.lines if line[0] != " " and piece in line[3]), key=lambda line: line[0] == "+")
                hunk.reasons.append((new or old, text))
                hunk.is_key |= is_key
            if len(places) != 1:
                print(f"tools/site/reasons.md: {step.name}: '{piece}' is in {len(places)} places of the diff, not in 1",
                      file=sys.stderr)
        if sum(hunk.is_key for hunk in step.hunks) != 1:
            print(f"tools/site/reasons.md: {step.name}: one place must be the key one (## key: ...)", file=sys.stderr)
        for number, hunk in enumerate(step.hunks, 1):
            hunk.reasons.sort()
            if not hunk.reasons:
                print(f"tools/site/reasons.md: {step.name}: place {number} of the diff has no reason: "
                      f"{hunk.changed()[0]}", file=sys.stderr)
    return found
