#!/usr/bin/env python3
"""Usage: tests/house/circles.py      Files of common/, extras/, launcher/, tools/, beyond/ and the steps that include each other in a circle.

X.c and X.h in one folder are one file here. Prints a line for each group of files of which each reaches all others.
"""
import glob, os, re


def includes():
    """For each file, the files that it includes."""
    graph = {}
    for path in [f for folder in ('beyond', 'common', 'extras', 'launcher', 'tools', '0*') for f in glob.glob(folder + '/**/*', recursive=True)]:
        file, ending = os.path.splitext(path)
        if ending in ('.c', '.h', '.cu'):
            others = re.findall(r'^#include "(.+)\.h"$', open(path).read(), re.M)
            graph.setdefault(file, set()).update(others)
    return graph


def reached(graph, start):
    """What a file includes, and what that includes, and so on."""
    found, left = set(), [start]
    while left:
        for other in graph.get(left.pop(), ()):
            if other not in found:
                found.add(other)
                left.append(other)
    return found


graph = includes()
reach = {file: reached(graph, file) - {file} for file in graph}
circles = {tuple(sorted([file] + [other for other in others if file in reach.get(other, ())])) for file, others in reach.items()}
for circle in sorted(circles):
    if len(circle) > 1:
        print(*circle)
