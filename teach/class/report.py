"""The grade as text, as Gradescope's results.json, and as JUnit's XML; a class as a table."""
import csv
import io
import json
import re
import sys
from collections import namedtuple
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

Grade = namedtuple("Grade", "lab checks said seconds")  # checks: [(title, points, passed)]; said: by the judge
TEXTS = Path(__file__).parents[1] / "lab"
LONGEST = 8000  # characters of a judge's words


def plain(text):
    """Without what a terminal or an XML parser would take for more than text."""
    return re.sub(r"[^\n\t\x20-\x7e\xa0-\ud7ff\ue000-\ufffd]", "?", text)[:LONGEST]


def points_of(lab):
    """[(points, is it passed before the step, too; how the judge's line begins)], as points.txt has them."""
    lines = (Path(__file__).parent / "points.txt").read_text().splitlines()
    rows = [line.split(maxsplit=2) for line in lines if line and line[0] != "#"]
    found = [(float(worth.rstrip("*")), worth.endswith("*"), check) for name, worth, check in rows if name == lab]
    return found or sys.exit(f"grade: teach/class/points.txt has no points for lab {lab}: say there what its checks are worth")


def sentence(lab, check):
    """A check as the report shows it: of a rung also what it is, as the lab's text says it."""
    rung = re.fullmatch(r"rung \d", check) and re.search(rf"^{check}: .*", (TEXTS / f"{lab}.txt").read_text(), re.M)
    return rung[0] if rung else check


def points(grade):
    return sum(worth for _, worth, passed in grade.checks if passed), sum(worth for _, worth, _ in grade.checks)


def text(grades, seconds, parted):
    lines = []
    for grade in grades:
        got, most = points(grade)
        lines.append(f"{grade.lab}: {got:g} of {most:g} points")
        lines += [f"  {'yes' if passed else 'no ':3} {worth:4g}  {title}" for title, worth, passed in grade.checks]
        lines += [f"      | {line}" for line in plain(grade.said).splitlines()]
    got, most = (sum(points(grade)[i] for grade in grades) for i in (0, 1))
    lines.append(f"all: {got:g} of {most:g} points, in {seconds:.0f} s" +
                 ("" if parted else " (another user was the whole fence: this machine allows no namespaces)"))
    return "\n".join(lines) + "\n"


def gradescope(grades, seconds, parted):
    tests = []
    for grade in grades:
        for number, (title, worth, passed) in enumerate(grade.checks, 1):
            tests.append({"name": f"{grade.lab}: {title}", "number": f"{grade.lab}.{number}", "score": worth if passed else 0,
                          "max_score": worth, "status": "passed" if passed else "failed", "visibility": "visible",
                          "output": plain(grade.said) if number == 1 else ""})
    result = {"score": sum(test["score"] for test in tests), "execution_time": round(seconds), "visibility": "visible",
              "stdout_visibility": "hidden", "output_format": "text", "tests": tests,
              "output": "What the judge says of a lab stands at its first check."}
    return json.dumps(result, indent=1) + "\n"


def junit(grades, seconds, parted):
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites time="{seconds:.1f}">']
    for grade in grades:
        failed = sum(not passed for _, _, passed in grade.checks)
        lines.append(f'<testsuite name={quoteattr(grade.lab)} tests="{len(grade.checks)}" failures="{failed}" time="{grade.seconds}">')
        for title, worth, passed in grade.checks:
            name = f"<testcase classname={quoteattr(grade.lab)} name={quoteattr(f'{title} ({worth:g} points)')}"
            lines.append(f"{name}/>" if passed else f'{name}><failure message="not passed"/></testcase>')
        lines.append(f"<system-out>{escape(plain(grade.said))}</system-out></testsuite>")
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def table(kind, labs, rows):
    """rows: [(name, {lab: points})]. plain: a line for each lab. moodle: the first column is mapped to `username`. canvas: new columns
    become assignments, with the points that the second line names, and a student is found by login. No points: an empty cell."""
    most = {lab: sum(worth for worth, _, _ in points_of(lab)) for lab in labs}
    heads = [f"lab-{lab}" for lab in labs]
    if kind == "plain":
        lines = [["name", "lab", "points", "of"]] + [[name, f"lab-{lab}", got.get(lab), most[lab]] for name, got in rows for lab in labs]
    elif kind == "moodle":
        lines = [["Username", *heads]] + [[name, *(got.get(lab) for lab in labs)] for name, got in rows]
    else:
        lines = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *heads], ["Points Possible", *[""] * 4, *most.values()]]
        lines += [[name, "", "", name, "", *(got.get(lab) for lab in labs)] for name, got in rows]
    lines = [[f"{cell:g}" if isinstance(cell, (int, float)) else cell for cell in line] for line in lines]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


TABLES = "plain", "moodle", "canvas"
FORMATS = {"text": text, "gradescope": gradescope, "junit": junit}
