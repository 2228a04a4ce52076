#!/usr/bin/env python3
"""Usage: docs/answers/dust.py URL      The digits of client.py with a speck of dust, and without it again."""
from client import count, pictures


def with_dust(rows):
    sheet = pictures.on_paper(pictures.enlarge(rows, 4), 8)
    sheet[1][1] = sheet[1][2] = sheet[2][1] = sheet[2][2] = 0
    return sheet


def pieces(sheet):
    """The connected pieces of ink, as sets of (y, x); pixels that touch at a corner are connected."""
    ink = {(y, x) for y, row in enumerate(sheet) for x, value in enumerate(row) if value < 224}
    while ink:
        piece, edge = set(), [ink.pop()]
        while edge:
            y, x = edge.pop()
            piece.add((y, x))
            near = {(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & ink
            ink -= near
            edge += near
        yield piece


def cleaned(sheet):
    found = list(pieces(sheet))
    largest = max(map(len, found))
    for piece in found:
        if 20 * len(piece) < largest:
            for y, x in piece:
                sheet[y][x] = 255
    return sheet


print("with a speck:", count(with_dust), "of 360 are right")
print("small pieces removed:", count(lambda rows: cleaned(with_dust(rows))), "of 360 are right")
