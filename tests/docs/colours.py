"""The colours of docs/colours.css: contrast by WCAG 2, and the distance between the colours of a set as eyes without red or
green cones see them (Machado, Oliveira and Fernandes 2009, severity 1; OKLab). Usage: colours.py [FILE]"""
import itertools
import math
import re
import sys

NORMAL = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
NO_RED = ((.152286, 1.052583, -.204868), (.114503, .786281, .099216), (-.003882, -.048116, 1.051998))
NO_GREEN = ((.367322, .860646, -.227968), (.280085, .672501, .047413), (-.01182, .04294, .968881))
SETS = {"rank-": 7, "phase-": 7, "bucket-": 7, "(?:ok|warn|fault)": 5}  # the least distance; 2 is just visible side by side


def linear(colour):
    values = (int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5))
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def contrast(one, other):
    dark, bright = sorted(sum(a * b for a, b in zip((.2126, .7152, .0722), linear(c))) for c in (one, other))
    return (bright + 0.05) / (dark + 0.05)


def oklab(rgb):
    lms = times(((.4122214708, .5363325363, .0514459929), (.2119034982, .6806995451, .1073969566),
                 (.0883024619, .2817188376, .6299787005)), rgb)
    return times(((.2104542553, .793617785, -.0040720468), (1.9779984951, -2.428592205, .4505937099),
                  (.0259040371, .7827717662, -.808675766)), [max(0, v) ** (1 / 3) for v in lms])


def distance(one, other, eyes):
    seen = [oklab([min(1, max(0, v)) for v in times(eyes, linear(c))]) for c in (one, other)]
    return 100 * math.dist(*seen)


def of_terminal(number):
    """A colour of the terminal's 256, of those that have fixed values: 16 to 255."""
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    number -= 16
    return "#" + "".join(f"{(0, 95, 135, 175, 215, 255)[v]:02x}" for v in (number // 36, number // 6 % 6, number % 6))


def main():
    text = open(sys.argv[1] if len(sys.argv) > 1 else "docs/colours.css", encoding="utf-8").read()
    pairs = dict((name, both) for name, *both in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", text))
    wrong, checked = [], 0

    def needs(least, one, other, what):
        nonlocal checked
        checked += 1
        if contrast(one, other) < least:
            wrong.append(f"{what}: contrast {contrast(one, other):.2f}, needs {least}")

    shapes = [name for name in pairs if name + "-ink" in pairs]
    for i, theme in enumerate(("light", "dark")):
        value = {name: both[i] for name, both in pairs.items()}
        for ground in ("page", "card"):
            for name in shapes:
                needs(3, value[name], value[ground], f"--{name} on --{ground}, {theme}")
                needs(4.5, value[name + "-ink"], value[ground], f"--{name}-ink on --{ground}, {theme}")
            for name, least in (("text", 7), ("muted", 4.5), ("accent", 4.5), ("edge", 3)):
                needs(least, value[name], value[ground], f"--{name} on --{ground}, {theme}")
        for name in shapes:
            needs(4.5, value[name + "-ink"], value[name + "-wash"], f"--{name}-ink on its wash, {theme}")
            needs(4.5, value[name + "-on"], value[name], f"--{name}-on, {theme}")
        for ground in ("diff-new", "diff-new-word", "diff-gone", "diff-gone-word"):
            needs(4.5, value["text"], value[ground], f"--text on --{ground}, {theme}")
        for start, least in SETS.items():
            for one, other in itertools.combinations([name for name in shapes if re.fullmatch(start + r"\w*", name)], 2):
                for eyes in (NORMAL, NO_RED, NO_GREEN):
                    checked += 1
                    apart = distance(value[one], value[other], eyes)
                    if apart < least:
                        wrong.append(f"--{one} and --{other}, {theme}: {apart:.1f} apart, needs {least}")
    for name, number in re.findall(r"--([\w-]+)-ansi: (\d+);", text):
        for ground in ("#000000", "#ffffff"):
            needs(2.95, of_terminal(int(number)), ground, f"--{name}-ansi on {ground}")
    assert len(shapes) == 8 + 8 + 5 + 3, shapes
    print("\n".join(wrong) or f"{checked} contrasts and distances suffice")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
