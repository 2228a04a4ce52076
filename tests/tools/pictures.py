"""Pictures as files, made without the libraries that read them."""
import csv, gzip, struct, zlib


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(rows, colour=0):
    """From rows of bytes; colour type 0 is grey, 2 RGB, 4 grey with alpha, 6 RGBA."""
    width = len(rows[0]) // {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    head = struct.pack(">2I5B", width, len(rows), 8, colour, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def pgm(rows):
    return b"P5\n%d %d\n255\n" % (len(rows[0]), len(rows)) + b"".join(map(bytes, rows))


def digits():
    """(label, rows of 8 x 8 with ink from 0 to 255) of the test images."""
    with gzip.open("data/digits.csv.gz", "rt") as file:
        table = [list(map(int, row)) for row in csv.reader(file)]
    for row in table[::5]:
        ink = [min(255, 16 * value) for value in row[:64]]
        yield row[64], [ink[i:i + 8] for i in range(0, 64, 8)]


def enlarge(rows, times):
    return [[value for value in row for _ in range(times)] for row in rows for _ in range(times)]


def on_paper(rows, border):
    """Dark on light, as on a sheet, with so much of it around."""
    width = len(rows[0]) + 2 * border
    blank = [[255] * width] * border
    return blank + [[255] * border + [255 - value for value in row] + [255] * border for row in rows] + blank


def as_mnist(rows):
    """8 x 8 in the middle of 28 x 28, enlarged to 20 x 20: bilinear, half-pixel centres, edges clamped."""
    def between(i):
        at = max(0, (i + 0.5) * 8 / 20 - 0.5)
        low = int(at)
        return low, min(low + 1, 7), at - low

    large = [[0] * 28 for _ in range(28)]
    for y in range(20):
        top, bottom, v = between(y)
        for x in range(20):
            left, right, u = between(x)
            upper = rows[top][left] * (1 - u) + rows[top][right] * u
            lower = rows[bottom][left] * (1 - u) + rows[bottom][right] * u
            large[4 + y][4 + x] = round(upper * (1 - v) + lower * v)
    return large
