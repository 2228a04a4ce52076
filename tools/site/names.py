"""What the names in the sources stand for, by Universal Ctags: each links to where it is defined. Without ctags (setup.sh
installs it) the pages of sources have no outline, and their names no links."""
import html
import os
import re
import subprocess

from diffs import ROOT

LINKED = (".c", ".h", ".cu", ".cuh")
KINDS = {"prototype": "prototype", "function": "function", "struct": "type", "typedef": "type", "union": "type", "enum": "type", "macro": "macro", "enumerator": "constant",
         "class": "type", "member": "function", "method": "function", "target": "target"}
NAME = re.compile(r"[A-Za-z_]\w+$")


class Names:
    def __init__(self, paths):
        """self.outlines: {path: [(line, name, kind)]}; self.places: {name: [(path, line)]}, those that other files see."""
        self.outlines, self.places, self.declared = {}, {}, {}
        try:
            output = subprocess.run(["ctags", "-x", "--_xformat=%N\t%F\t%n\t%K\t%f", "--kinds-C=fpstugde", "--kinds-C++=fpstugdec", "--kinds-Python=cfm",
                                   "--langmap=C:.c.h", "-L", "-"], cwd=ROOT, check=True, text=True, capture_output=True,
                                  input="\n".join(paths)).stdout
        except (OSError, subprocess.CalledProcessError):
            return
        for line in output.splitlines():
            name, path, number, kind, only_here = line.split("\t")
            if kind not in KINDS or name.startswith("__anon"):
                continue
            self.outlines.setdefault(path, []).append((int(number), name, KINDS[kind]))
            if kind == "prototype":
                self.declared.setdefault(name, []).append((path, int(number)))
            elif path.endswith(LINKED) and not (only_here == "file" and path.endswith(".c")):
                self.places.setdefault(name, []).append((path, int(number)))
        for outline in self.outlines.values():
            outline.sort()

    def place(self, name, path):
        """(file, line) of the one definition of NAME that the file PATH means; None if there is none, or there are several."""
        here = [(path, line) for line, other, kind in self.outlines.get(path, []) if other == name and kind != "prototype"]
        there = self.places.get(name, [])
        near = [found for found in there if os.path.dirname(found[0]) == os.path.dirname(path)]
        return next((found[0] for found in (here, there, near, self.declared.get(name, [])) if len(found) == 1), None)

    def link(self, tokens, at, path, number, files):
        """Where a token of a line leads: (file, line or 0), or None."""
        css, text = tokens[at]
        if css == "cpf" and text[0] == '"':
            found = [name for name in (text[1:-1], os.path.join(os.path.dirname(path), text[1:-1])) if name in files]
            return (found[0], 0) if found else None
        around = tokens[at - 1][1][-1:] if at else "", tokens[at + 1][1][:1] if at + 1 < len(tokens) else ""
        if css[:1] not in ("n", "k") or not NAME.match(text) or around[0] in (".", ">"):
            return None
        if text.islower() and "_" not in text and around[1] != "(":
            return None  # a variable, which may be called like a function elsewhere
        found = self.place(text, path)
        return None if found == (path, number) else found

    def outline(self, path):
        """The list of what a file defines, for the side bar."""
        shown = [entry for entry in self.outlines.get(path, []) if entry[2] != "constant" and (entry[2] != "prototype" or path.endswith(".h")) and not entry[1].endswith("_H")]
        return "".join(f'<li><a class="reference internal" href="#L{line}">{html.escape(name)}</a></li>\n' for line, name, _ in shown)
