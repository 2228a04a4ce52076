"""The reasons that tools/site/reasons.md gives for each place of the diffs, for the site and for docs/moving/walk.html."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def written_reasons():
    """{step: [(piece of a changed line, Markdown, is this the key place of the diff?)]}"""
    written, step = {}, None
    with open(os.path.join(ROOT, os.environ.get("REASONS", "tools/site/reasons.md")), encoding="utf-8") as file:
        text = file.read()
    for part in re.split(r"^(?=##? )", text, flags=re.M)[1:]:
        title, text = part.split("\n", 1)
        if title.startswith("# "):
            step = written.setdefault(title[2:], [])
        else:
            step.append((title[3:].removeprefix("key: "), text.strip(), title.startswith("## key: ")))
    return written
