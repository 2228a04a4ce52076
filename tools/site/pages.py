"""Writes the pages from which Sphinx makes the site (tools/site/conf.py calls it): the documents, with links to the
pages of this site; a page for each folder and for each diff between two steps. When Sphinx is done, writes a page for
each source file: these are too many for Sphinx, and are copies of one of its pages."""
import html
import json
import os
import re
import shutil
import textwrap

import blocks
import diffs
import landing
import names
import quizzes
from colours import colours
from diffs import ROOT, highlighted, hunk_html, line_html, read

ROOMS = ("beyond", "common", "extras", "launcher", "tools", "teach", "bench", "docs", "data", "findings")  # all sources of these and of the steps have a page
SOURCES = (".c", ".h", ".cu", ".cuh", ".sh", ".py", ".sed", ".mk", ".slurm", ".pbs", ".yaml", ".html", ".txt", ".bat",
           ".bats", ".bash", ".cff", "VERSION", "LICENSE", "Makefile", "Dockerfile")
PICTURES = (".svg", ".png")
MOVING = "docs/moving/"  # pages of their own: copied, with links for the site
PICTURE = re.compile(r"!\[([^]]*)\]\(([^)\s]*(?:pictures|plots)/\w+\.svg)\)")
CODE = re.compile(r"(?<=\n\n)(?: {4}[^\n]*\n)+|^```.*?^```$|<!--.*?-->|`(?:[^`\n]|\n(?!\n))+`", re.M | re.S)  # where ]( is no link


def tree():
    """The files of the project, without those that are built or written by commands."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        here = os.path.relpath(folder, ROOT)
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in ("build", "__pycache__", *diffs.docs.OWN))
        if here == "teach":
            folders.append("lab")  # OWN's lab is the one at the top
        found += [os.path.normpath(os.path.join(here, name)) for name in sorted(files)]
    return found


def plain(markdown):
    """What a reader sees of a page: without the marks of Markdown, without tags, contents lists and rows of dashes."""
    text = re.sub(r"<!--.*?-->|^```{toctree}.*?^```$|<[^>]*>|(?<=\])\([^)\s]*\)|^```\w*|^#+ |^\|[-| ]*$|\*\*|[][`]", "",
                  markdown.replace("</div><div", "</div>\n<div"), flags=re.M | re.S)
    return re.sub(r" *\| *", "  ", html.unescape(text))


def drawn(path, words):
    """An SVG of docs/pictures or docs/plots, for inside a page: its colours become the page's (docs/colours.css), light or
    dark. A plot has values alone: each becomes the first name that has it."""
    svg = re.sub(r"<\?xml.*?\?>|<title>.*?</title>|<desc>.*?</desc>|\bid='\w+_plot_\w+'", "", read(path), flags=re.S)
    if "var(--" not in svg:
        names = {}
        for name, value in colours().items():
            names.setdefault(value, name)
        svg = re.sub(r"rgb\( *(\d+), *(\d+), *(\d+)\)", lambda rgb: "#" + "".join(f"{int(part):02x}" for part in rgb.groups()), svg)
        svg = re.sub(r"#[0-9a-fA-F]{6}\b", lambda value: f"var(--{names[value[0].lower()]})" if value[0].lower() in names else value[0], svg)
    svg = re.sub(r'<svg (class="drawn" )?', f'<svg class="drawn" role="img" aria-label="{html.escape(words)}" ', svg, count=1)
    return re.sub(r"\s*\n\s*", " ", svg.strip())


class Site:
    def __init__(self, folder):
        self.folder, self.written = folder, set()
        self.files = tree()
        self.folders = {os.path.dirname(path) for path in self.files}
        self.documents = [p for p in self.files if p.endswith(".md") and p != "tools/site/reasons.md"]
        self.sources = {p for p in self.files if p.endswith(SOURCES) and not p.startswith(MOVING) and
                        (re.match("0[1-5]_", p) or p.split("/")[0] in ROOMS or "/" not in p)}
        self.listed = set()  # folders that a page links to
        self.steps = diffs.steps()
        self.names = names.Names(sorted(self.sources))
        self.quoted = {}  # {source: {document: its title}}

    def write(self, path, text):
        self.written.add(path)
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    def copy(self, path):
        self.written.add(path)
        target = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(target) or os.path.getmtime(target) < os.path.getmtime(os.path.join(ROOT, path)):
            shutil.copy2(os.path.join(ROOT, path), target)

    def link(self, path, target):
        """Where a link to TARGET in the document PATH goes on the site, as Markdown wants it."""
        place = os.path.normpath(os.path.join(os.path.dirname(path), target))
        if place in self.folders:
            self.listed.add(place)
            place = os.path.join(place, "README.md")
        if place.startswith(MOVING):
            return "src:" + os.path.relpath(place, os.path.dirname(path) or ".")
        if place.endswith(SOURCES) and place in self.files:
            self.sources.add(place)
            return "src:" + os.path.relpath(place, os.path.dirname(path) or ".") + ".html"
        return os.path.relpath(place, os.path.dirname(path) or ".")

    def origin(self, path, block):
        """The link from a quotation to its source, the link's text, and of a source (name, first line); None if the source
        is not exactly one place."""
        command, top = block.notes.get("from", ""), os.path.relpath(".", os.path.dirname(path) or ".")
        if block.language == "diff":
            for step in self.steps:
                if not re.search(rf"stepdiff.sh {step.name} |{re.escape(step.before)} {re.escape(step.program)}", command):
                    continue
                for number, hunk in enumerate(step.hunks, 1):
                    if set(hunk.changed()) & {x for x in block.quoted if len(x) > 12}:
                        return f"{top}/diffs/{step.name}.html#hunk-{number}", "the whole diff, side by side", None
            return None
        name = next((word.strip("'") for word in command.split() if word.strip("'") in self.sources), None)
        if name is None or "|" in command or not block.quoted:
            return None
        lines = read(name).split("\n")
        places = [i for i in range(len(lines)) if lines[i:i + len(block.quoted)] == block.quoted]
        if len(places) != 1:
            return None
        self.quoted.setdefault(name, {})[path] = re.search(r"^# (.*)", read(path), re.M)[1]
        return f"{top}/{name}.html#L{places[0] + 1}", f"{name}, line {places[0] + 1}", (name, places[0] + 1)

    def document(self, path):
        text = read(path)
        lines = text.split("\n")
        for block in reversed(diffs.docs.blocks_of(lines)):
            where = self.origin(path, block)
            if block.language == "diff":
                lines[block.first - 1:block.end + 1] = ["", blocks.figure("diff", where, diffs.quoted_html(block.quoted)), ""]
            elif where and block.language in ("c", "python"):
                shown = blocks.source(*where[2], len(block.quoted), where[0].split("#")[0])
                lines[block.first - 1:block.end + 1] = ["", blocks.figure("source", where, shown), ""]
            elif where:
                lines[block.end + 1:block.end + 1] = ["", f'<p class="from"><a href="{where[0]}">{where[1]}</a></p>', ""]
            elif block.typed and "varies" in block.notes:
                lines[block.end + 1:block.end + 1] = ["", blocks.varies(block.notes["varies"]), ""]
        text, out, at = "\n".join(lines), "", 0
        for block in [*CODE.finditer(text), None]:
            prose = text[at:block.start() if block else len(text)]
            prose = PICTURE.sub(lambda link: drawn(os.path.normpath(os.path.join(os.path.dirname(path), link[2])), link[1]), prose)
            out += re.sub(r"\]\((?!\w+:|#)([^)\s#]+)((?:#[^)\s]*)?)\)",
                          lambda link: f"]({self.link(path, link[1])}{link[2]})", prose)
            code = block[0] if block else ""
            out += f"```sh\n{textwrap.dedent(code)}```\n" if re.match(r" {4}(\./|make |git )", code) else code
            at = block.end() if block else at
        return out

    def listing(self, folder):
        """The list of a folder's files, for its page."""
        inside = sorted({p[len(folder) + 1:].split("/")[0] for p in self.files if p.startswith(folder + "/")})
        out = []
        for name in inside:
            path = f"{folder}/{name}"
            if path in self.folders and (path in self.listed or any(s.startswith(path + "/") for s in self.sources)):
                self.listed.add(path)
                out.append(f"- [{name}/]({name}/README.md)")
            elif path in self.sources:
                out.append(f"- [{name}](src:{name}.html)")
            elif path in self.documents and name != "README.md":
                out.append(f"- [{name}]({name})")
        return "\n".join(out)

    def source(self, path, page):
        """The page of a source: Sphinx's page SOURCE.html with this name, these lines, and links from this folder."""
        top, above = os.path.relpath(".", os.path.dirname(path) or "."), os.path.dirname(path)
        page = re.sub(r'\b(href|src|action)="(?!#|\w+:)', rf'\1="{top}/', page)
        page = page.replace('data-content_root="./"', f'data-content_root="{top}/"')
        ways = [f'<a href="{top}/{above}/README.html">{above}/</a>'] if above else []
        ways += [f'<a href="{top}/{name[:-3]}.html">{html.escape(title)}</a>' for name, title in sorted(self.quoted.get(path, {}).items())]
        touched = [f'<a href="{top}/diffs/{step.name}.html">{step.name}</a>' for step in self.steps if path in (step.before, step.program)]
        ways += ["diffs: " + ", ".join(touched)] if touched else []
        lines, link = [], None
        for number, tokens in enumerate(highlighted(path), 1):
            if path.endswith(names.LINKED):
                def link(at, tokens=tokens, number=number):
                    found = self.names.link(tokens, at, path, number, self.sources)
                    return found and (f"{'' if found[0] == path else top + '/' + found[0] + '.html'}" + (f"#L{found[1]}" if found[1] else ""))
            lines.append(f'<span id="L{number}"><a class="line" tabindex="-1" href="#L{number}">{number}</a>{line_html(tokens, link=link)}\n</span>')
        outline = self.names.outline(path)
        if outline:
            page = page.replace(" no-toc", "").replace('<aside class="toc-drawer">', '<aside class="toc-drawer"><div class="toc-sticky toc-scroll">'
                '<div class="toc-title-container"><span class="toc-title">In this file</span></div><div class="toc-tree-container"><div class="toc-tree">'
                f"<ul>{outline}</ul></div></div></div>")
        shown = f'<p class="from ways">{" · ".join(ways)}</p><div class="highlight source"><pre>{"".join(lines)}</pre></div>'
        return page.replace("SOURCE-NAME", os.path.basename(path)).replace("<p>SOURCE-LINES</p>", shown)

    def write_sources(self, folder):
        shutil.copytree(os.path.join(ROOT, MOVING), os.path.join(folder, MOVING))
        programs = os.path.join(ROOT, os.environ.get("BUILD", "build"), "play/ranks.js")  # make play
        if os.path.exists(programs):
            shutil.copy2(programs, os.path.join(folder, MOVING))
        for path in (p for p in self.files if p.startswith(MOVING) and p.endswith(".html")):
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(landing.on_site(read(path)))
        for name in ("docs/colours.css", "docs/cast.svg", "docs/gloo.svg"):
            shutil.copy2(os.path.join(ROOT, name), f"{folder}/{name}")
        os.makedirs(folder + "/docs/pictures", exist_ok=True)
        for name in re.findall(r'src="../(pictures/\w+.svg)"', "".join(read(p) for p in self.files if p.startswith(MOVING) and p.endswith(".html"))):
            shutil.copy2(os.path.join(ROOT, "docs", name), f"{folder}/docs/{name}")  # shown without scripts
        with open(folder + "/SOURCE.html", encoding="utf-8") as file:
            page = file.read()
        for path in sorted(self.sources):
            target = f"{folder}/{path}.html"
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as file:
                file.write(self.source(path, page))
        os.remove(folder + "/SOURCE.html")

    def diff(self, step, quoted):
        tokens = {path: highlighted(path) for path in (step.before, step.program)}
        size = sum(len(hunk.changed()) for hunk in step.hunks)
        out = [f"# {step.name}: {step.idea}\n\nFrom [{step.before}](src:../{step.before}.html) to [{step.program}](src:../{step.program}.html): "
               f"{size} lines. In a terminal: `{'make diff-' + step.name if step.name != '05-ddprun' else 'tools/stepdiff.sh 05-ddprun'}`.\n"]
        out.append(self.tools(step))
        old, new = 1, 1  # the next lines of both files
        for number, hunk in enumerate(step.hunks, 1):
            more = {}
            for chapter, heading, command, lines in quoted:
                if set(lines) & set(hunk.changed()) and re.search(
                        rf"stepdiff.sh {step.name} |{re.escape(step.before)} {re.escape(step.program)}", command):
                    anchor = "#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
                    if chapter.startswith("answers/"):  # the chapter that asks for it says why
                        chapter, anchor = chapter.removeprefix("answers/"), ""
                        heading = re.search("^# (.*)", read(f"docs/{chapter}.md"), re.M)[1]
                    more[f"[{heading}](../docs/{chapter}.md{anchor})"] = 1
            reasons = [f"[{line}](src:../{step.program}.html#L{line}): {text}" if len(hunk.reasons) > 1 else text for line, text in hunk.reasons]
            reasons = "\n\n".join(reasons + [f"The chapter: {link}" for link in more])
            first = hunk.lines[0]
            out.append(diffs.context_html(step, old, new, first[1] - old if first[1] else 0, tokens, "../"))
            old, new = hunk.old, hunk.new
            shown = "".join(hunk_html(step, part, tokens, "../") if not folded else
                            f'<details class="folded"><summary>{folded}: {len(part.changed())} changed lines</summary>{hunk_html(step, part, tokens, "../")}</details>'
                            for folded, part in hunk.parts())
            key = '<span class="mark">the key change</span>' if hunk.is_key else ""
            out.append(f'<section class="hunk{" key" if hunk.is_key else ""}" id="hunk-{number}" tabindex="-1"><div class="reason">'
                       f'<a class="place" href="#hunk-{number}">{number} of {len(step.hunks)}</a>{key}\n\n{reasons}\n\n</div>\n'
                       f'<div class="rows-of">{shown}</div>\n</section>\n')
        out.append(diffs.context_html(step, old, new, len(tokens[step.before]) - old + 1, tokens, "../"))
        return "\n".join(out)

    def tools(self, step):
        """The switch to the same step in PyTorch, or back; the keys."""
        twin = step.name.removeprefix("twin-") if step.name.startswith("twin-") else "twin-" + step.name
        switch = ""
        if any(other.name == twin for other in self.steps):
            c, torch = sorted((step.name, twin), key=lambda name: name.startswith("twin-"))
            both = "".join(f'<a href="{name}.html"{" aria-current=page" if name == step.name else ""}>{words}</a>' for name, words in ((c, "C"), (torch, "PyTorch")))
            switch = f'<span class="switch">{both}</span>'
        return (f'<div class="tools">{switch}<span><kbd>n</kbd> next, <kbd>p</kbd> previous, <kbd>k</kbd> key change</span>'
                '<button type="button" class="all" hidden>Show all lines</button></div>\n')

    def map(self):
        """The diffs as a map, SVG: each box is a diff and leads to its page; what starts at a program is to the right of it."""
        at, boxes, lines, row = {"01_single_gpu/train.c": (0, 0)}, [("start", 0, 0, "01", None, "")], [], 0
        programs = {step.program for step in self.steps if step.name != "dp"}  # dp leads back to step 02
        made = [step for step in self.steps if step.before not in programs or step.name.startswith("0")]
        while len(made) < len(self.steps):  # each after the diff that made the program that it starts from
            made += [step for step in self.steps if step not in made and step.before in {other.program for other in made}]
        for step in made:
            if step.before not in at:  # a beginning of its own
                row += 1
                at[step.before] = (max(at.get(step.program, (0, 0))[0] - 2, 0), row)
                boxes.append(("start", *at[step.before], os.path.basename(step.before).removesuffix('.c'), None, ""))
            column, above = at[step.before]
            taken = {place[:2] for place in [(x, y) for _, x, y, *_ in boxes]}
            here = (column + 1, above)
            if here in taken:
                row += 1
                here = (column + 1, row)
            size = sum(len(hunk.changed()) for hunk in step.hunks)
            boxes.append(("main" if here[1] == 0 else "", *here, step.name, step.name, f"{size} lines"))
            lines.append(((column, above), here))
            at.setdefault(step.program, here)
            row = max(row, here[1])
        width, height = 118, 62
        drawn = "".join(f'<path d="M{x * width + 100} {y * height + 24}h8V{v * height + 24}h10"/>' for (x, y), (_, v) in lines)
        for css, x, y, name, page, size in boxes:
            label = f'<rect x="{x * width + 2}" y="{y * height + 2}" width="98" height="44" rx="8"/><text x="{x * width + 51}" y="{y * height + (22 if size else 29)}">{name}</text>' + \
                (f'<text class="n" x="{x * width + 51}" y="{y * height + 38}">{size}</text>' if size else "")
            drawn += f'<a class="{css}" href="{page}.html">{label}</a>' if page else f'<g class="{css}">{label}</g>'
        size = max(box[1] for box in boxes) * width + 104, (row + 1) * height
        return f'<div class="map" tabindex="0" role="group" aria-label="Map of the diffs"><svg width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}">{drawn}</svg></div>\n'

    def toctree(self, caption, pages, hidden=True):
        return f"\n```{{toctree}}\n{':hidden:' if hidden else ':maxdepth: 1'}\n:caption: {caption}\n\n" + \
               "\n".join(pages) + "\n```\n"

    def write_pages(self):
        pages = {path: quizzes.insert(self.document(path)) for path in self.documents}
        quoted = [(path[5:-3], heading, command, lines) for path in self.documents
                  if path.startswith("docs/") for _, command, lines, heading in diffs.quotations(path)]
        for step in self.steps:
            self.write(f"diffs/{step.name}.md", self.diff(step, quoted))
        self.write("diffs/index.md", "# The diffs between the steps\n\nWhat each step adds to the one before, side by "
                   "side, with the reasons. What branches off starts from the program on its left.\n\n" + self.map() + self.toctree("Diffs", [step.name for step in self.steps], hidden=False))
        self.write("SOURCE.md", "---\norphan: true\n---\n# SOURCE-NAME\n\nSOURCE-LINES\n")
        self.listed |= {os.path.dirname(path) for path in self.sources} - {""}
        listed = set()
        while self.listed - listed:  # a listing may link to further folders
            for folder in sorted(self.listed - listed):
                listed.add(folder)
                page, files = f"{folder}/README.md", self.listing(folder)
                if page in pages:
                    pages[page] += f"\n## The files of {folder}/\n\n{files}\n"
                else:
                    orphan = "" if folder == "docs/answers" else "---\norphan: true\n---\n"
                    pages[page] = f"{orphan}# {folder}/\n\n{files}\n"

        # The order of the book is that of the links in its README.
        groups = {}
        for part in read("docs/README.md").split("\n## ")[1:]:
            title, _, body = part.partition("\n")
            found = ["docs/" + n for n in re.findall(r"^(?:\| |- )\[[^]]*\]\((\w+)\.md\)", body, re.M)]
            if found:
                groups[title] = found
        groups["To look things up"].append("docs/answers/README")
        answers = [path[:-3] for path in pages if path.startswith("docs/answers/") and not path.endswith("README.md")]
        pages["docs/answers/README.md"] = "# Answers\n" + self.toctree("Answers", [os.path.basename(p) for p in answers], False)
        placed = {"README", "docs/README", "docs/ten_minutes", *answers, *(page for group in groups.values() for page in group)}
        rest = [path[:-3] for path in pages if path[:-3] not in placed and "orphan: true" not in pages[path]]
        groups["To look things up"] += [path for path in rest if path.startswith(("docs/", "teach/"))] + ["diffs/index"] + \
            [path for path in rest if not path.startswith(("docs/", "teach/"))]
        pages["index.md"] = landing.page(pages["README.md"], self.steps) + self.toctree("The book", ["README", "docs/README", "docs/ten_minutes"]) + \
            "".join(self.toctree(title, group) for title, group in groups.items())
        for path, text in pages.items():
            self.write(path, text)
        for path in self.files:
            if path.endswith(PICTURES) and path.startswith("docs/"):
                self.copy(path)
        # The texts that a search shows (static/site.js): a script, since a browser reads scripts from files, too.
        texts = {path[:-3]: plain(text) for path, text in pages.items()}
        sources = {path: read(path) for path in sorted(self.sources)}
        self.write("_static/texts.js", f"const TEXTS = {json.dumps(texts)};\nconst SOURCES = {json.dumps(sources)};\n")
        for folder, _, inside in os.walk(self.folder):
            for name in inside:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.folder) not in self.written:
                    os.remove(path)

