"""What the figures of a suite (bench/bench.py's summary, as in its JSON file) look like: tables, curves, goals."""

import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
import colours

MOST_ROWS = 8  # of sizes in a table: where there are more, every second is left to the curves


def number(value):
    """Three digits that count."""
    if value == 0:
        return "0"
    return f"{value:.{min(9, max(0, 2 - math.floor(math.log10(abs(value)))))}f}"


def size(x, axis):
    if axis != "bytes":
        return f"{x:g} {axis}"
    power = min(3, int(math.log(max(x, 1), 1024)))
    return f"{x / 1024**power:g} {['B', 'KiB', 'MiB', 'GiB'][power]}"


def name_of(case, x, axis, word=""):
    """By this goals and readers know a case."""
    return case if x is None else f"{case}, {word}{size(x, axis)}"


def cell(value, unit=""):
    text = number(value["median"]) + unit
    if len(value.get("turns", [])) > 1:
        text += f" ({number(value['lowest'])}-{number(value['highest'])})"
    return text


def table(head, rows):
    """As Markdown has it, padded so that it reads well on a terminal, too."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [" | ".join(text.ljust(width) for text, width in zip(row, widths)) for row in [head, *rows]]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)


def groups(suite):
    """The cases, by table: those of one curve together, and all others."""
    found = {}
    for case in suite["cases"]:
        found.setdefault("" if case["x"] is None else case["group"], []).append(case)
    return found


def shown(cases):
    """Of a curve's cases those that tables have a row for: the largest, and every second before it."""
    return cases[::-2][::-1] if len(cases) > MOST_ROWS else cases


def tables(suite, group, cases):
    """Medians; beside them, or where there are many contenders in a table of their own, the ratios; bandwidths."""
    measured = [one["name"] for one in suite["contenders"] if any(one["name"] in case["by"] for case in cases)]
    ours, others = suite["contenders"][0]["name"], []
    if ours in measured:
        others = [name for name in measured if name != ours]

    def name(case):
        return size(case["x"], suite["axis"]) if group else f"{case['case']}, {case['unit']}"

    def values(case):
        return [cell(case["by"][who]) if who in case["by"] else "-" for who in measured]

    def times(case):
        found = case["ratios"].get(ours, {})
        return [cell(found[who], "x") if who in found else "-" for who in others]

    cases = shown(cases) if group else cases
    first = f"{group}, {cases[0]['unit']}" if group else "case"
    beside = [f"{ours} to {name}" for name in others]
    if len(measured) <= 3:
        yield table([first, *measured, *beside], [[name(case), *values(case), *times(case)] for case in cases])
    else:
        yield table([first, *measured], [[name(case), *values(case)] for case in cases])
        if others:
            yield table([f"{group or 'case'}: {ours} to", *others], [[name(case), *times(case)] for case in cases])
    if group in suite["bus"]:
        yield table([f"{group}: algbw / busbw, GB/s", *measured],
                    [[name(case), *(bandwidths(case, who, suite["bus"][group]) for who in measured)]
                     for case in cases if case["x"] >= 1024])  # of a few bytes it says nothing


def seconds(case, who):
    """The median of a case that is measured in time."""
    return case["by"][who]["median"] * {"s": 1, "ms": 1e-3, "us": 1e-6}[case["unit"]]


def bandwidths(case, who, factor):
    """As nccl-tests defines them: bytes through time, and what of that goes over each rank's wire."""
    if who not in case["by"] or case["by"][who]["median"] == 0:
        return "-"
    rate = 1e-9 * case["x"] / seconds(case, who)
    return " / ".join(number(one) if one >= 0.1 else f"{one:.3f}" for one in (rate, factor * rate))


def facts(machine):
    return "; ".join(f"{value} cores" if name == "cores" else
                     value if name in ("processor", "kernel", "compiler", "MPI") else f"{name} {value}"
                     for name, value in machine.items())


def load(suite):
    """Who else used the machine: figures from a busy one are to be taken with salt."""
    others = suite["others"]
    return (f"{'**Warning**: others' if others['warn'] else 'Others'} used {others['during']:.0%} of the machine "
            f"meanwhile, {others['worst']:.0%} in the worst turn, {others['before']:.0%} before.")


def markdown(suite):
    """All that is to be said about a suite."""
    parts = [f"### {suite['title']}", suite["note"]]
    for group, cases in groups(suite).items():
        parts += tables(suite, group, cases)
    parts += [f"Not measured: {one['name']}: {one['missing']}." for one in suite["contenders"] if one["missing"]]
    parts += [f"**Failed**: {one['name']}: {one['failed']}" for one in suite["contenders"] if one["failed"]]
    turns = "1 turn" if suite["turns"] == 1 else f"medians of {suite['turns']} turns, in brackets lowest and highest"
    parts += [f"{turns[0].upper()}{turns[1:]}. {load(suite)}"]
    return "\n\n".join(part for part in parts if part)


def goals(suites):
    """Each goal, and whether it is reached."""
    found = [goal for suite in suites for goal in suite["goals"]]
    rows = [[goal["verdict"], goal["goal"], goal["found"]] for goal in found]
    return "Goals\n\n" + (table(["", "goal", "found"], rows) if rows else "There are none.")


def block(suite):
    """What stands in bench/RESULTS.md about a suite, between two marks by which write finds it again."""
    parts = [f"<!-- bench {suite['name']} -->", markdown(suite), facts(suite["machine"]) + ".",
             f"    make bench SUITES={suite['name']}"]
    if suite["goals"]:
        parts.insert(3, goals([suite]).split("\n\n", 1)[1])
    return "\n\n".join(parts) + f"\n\n<!-- end of bench {suite['name']} -->\n"


def write(path, suites):
    """Puts blocks in the place of older ones, or after the last there is, or at the file's end."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for suite in suites:
        new = block(suite)
        old = re.search(rf"<!-- bench {suite['name']} -->\n.*?<!-- end of bench {suite['name']} -->\n", text, re.S)
        last = None if old else list(re.finditer(r"<!-- end of bench \S+ -->\n", text))[-1:]
        if old:
            text = text[:old.start()] + new + text[old.end():]
        elif last:
            text = text[:last[0].end()] + "\n" + new + text[last[0].end():]
        else:
            text += f"\n## make bench\n\n{new}"
    path.write_text(text, encoding="utf-8")


def plot(suite, folder):
    """NAME.png and NAME.svg: for each case with sizes its curves, and beside them those of its busbw, if it has one."""
    drawn = {group: cases for group, cases in groups(suite).items() if group and len(cases) > 1}
    if not drawn:
        return
    if not shutil.which("gnuplot"):
        print("bench.py: no gnuplot here, so no curves: see 'make doctor'", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as work:
        pictures = []
        for group, cases in drawn.items():
            curves = write_curves(suite, group, cases, f"{work}/{len(pictures)}")
            label = size if suite["axis"] == "bytes" else lambda x, _: f"{x:g}"
            ticks = ", ".join(f"'{label(case['x'], suite['axis'])}' {case['x']}" for case in shown(cases))
            head = f"set title '{plain(group)}'\nset xtics ({ticks})\n"
            pictures.append(head + picture(cases[0]["unit"], "set logscale y", "2:3:4", curves))
            if group in suite["bus"]:
                pictures.append(head + picture("busbw, GB/s", "unset logscale y; set yrange [0:*]", "5:5:5", curves))
        columns = 2 if suite["bus"] else 1
        rows = -(-len(pictures) // columns)
        for kind, terminal in (("png", "pngcairo font 'DejaVu Sans,10'"),
                               ("svg", "svg font 'DejaVu Sans,13' background 'white'")):
            gnuplot(f"""{colours.style()}
set terminal {terminal} size {640 * columns},{380 * rows}
set output '{folder}/{suite['name']}.{kind}'
set grid
set key top left reverse Left samplen 2
set logscale x 2
set xlabel '{"" if suite["axis"] == "bytes" else plain(suite["axis"])}'
set multiplot layout {rows},{columns}
""" + "\n".join(pictures))


def gnuplot(commands):
    done = subprocess.run(["gnuplot"], input=commands, text=True, timeout=60, check=False)
    if done.returncode != 0:
        print("bench.py: gnuplot could not draw the curves", file=sys.stderr)


def plain(text):
    """Without the quotes that gnuplot's own strings end with."""
    return text.replace("'", "")


def write_curves(suite, group, cases, path):
    """A file of points for each contender, as (file, style, title)."""
    curves = []
    for i, who in enumerate(one["name"] for one in suite["contenders"]):
        points = [(case, case["by"][who]) for case in cases if who in case["by"]]
        if not points:
            continue
        with open(f"{path}-{i}", "w", encoding="ascii") as file:
            for case, value in points:
                rate = 1e-9 * suite["bus"][group] * case["x"] / seconds(case, who) if group in suite["bus"] else 0
                print(case["x"], value["median"], value["lowest"], value["highest"], rate, file=file)
        curves.append((f"{path}-{i}", f"lt {i + 1}", plain(who)))
    return curves


def picture(label, scale, columns, curves):
    lines = [f"'{path}' using 1:{columns} with yerrorlines {style} ps 0.6 title '{title}'"
             for path, style, title in curves]
    return f"set yrange [*:*]\n{scale}\nset ylabel '{plain(label)}'\nplot " + ", ".join(lines)
