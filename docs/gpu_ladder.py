#!/usr/bin/env python3
"""Usage: docs/gpu_ladder.py [IMAGES]      What the rungs of extras/gpu_ladder fetch, counted by hand: 64 images.

Then the least time that this allows on an H100, by formula. Nothing here was measured."""
import sys

CHANNELS, IN_SIZE, OUT_SIZE, FILTERS, WARP = 32, 26, 24, 64, 32
LINE, DEPTH, WINDOWS = 3 * CHANNELS, 9 * CHANNELS, OUT_SIZE * OUT_SIZE
NUMBER, SECTOR = 4, 32  # bytes
# An H100 SXM, by NVIDIA's data sheet and its guide to tuning: processors, Hz, operations and bytes of memory a second;
# the bytes that a processor's L1 cache and shared memory, which are one memory, move in a cycle.
SMS, CLOCK, PEAK, PEAK16, MEMORY, PORT = 132, 1.755e9, 67e12, 989e12, 3.35e12, 128


def in_x(window, depth):
    """Where a number of a window lies in x, as conv2_cuda.h has it."""
    image, row, column = window // WINDOWS, window // OUT_SIZE % OUT_SIZE, window % OUT_SIZE
    begin = ((image * IN_SIZE + row) * IN_SIZE + column) * CHANNELS
    return begin + depth // LINE * IN_SIZE * CHANNELS + depth % LINE


def in_weight(filter, depth):
    return filter * DEPTH + depth


def sectors(places, number=NUMBER):
    """How many pieces of 32 bytes one load of a warp touches."""
    return len({place * number // SECTOR for place in places})


def wavefronts(places, wide):
    """The cycles in which shared memory serves a warp whose lanes want `wide` bytes each, from these bytes on. Lanes that
    make up 128 bytes are served together, a bank gives one word a cycle."""
    lanes, cycles = 128 // wide, 0
    for first in range(0, len(places), lanes):
        words = {(place + i) // 4 for place in places[first:first + lanes] for i in range(0, wide, 4)}
        cycles += max(sum(word % 32 == bank for word in words) for bank in range(32))
    return cycles


def naive(windows):
    """A warp: one window, 32 filters; each load is made for each number of the depth."""
    x = sum(sectors([in_x(0, depth)] * WARP) for depth in range(DEPTH))
    weight = sum(sectors([in_weight(filter, depth) for filter in range(WARP)]) for depth in range(DEPTH))
    warps = windows * FILTERS // WARP
    return warps * 2 * DEPTH, warps * (x + weight)


def tiled(windows, tile, filters=None, number=NUMBER, wide=1):
    """A block fetches `tile` windows and as many filters, or `filters`; a warp 32 neighbours of the depth, or `wide` times
    as many in rows of 32."""
    lanes = [(i * wide // WARP, i * wide % WARP) for i in range(WARP)]  # row, place
    x = sectors([in_x(row, at + i) for row, at in lanes for i in range(wide)], number)
    weight = sectors([in_weight(row, at + i) for row, at in lanes for i in range(wide)], number)
    filters = filters or tile
    blocks, pieces = windows // tile * (FILTERS // filters), DEPTH // WARP
    loads = blocks * pieces // wide
    return loads * (tile + filters), loads * (tile * x + filters * weight)


def fp16(windows, tile, wide, number):
    """Rungs 5 to 9: also the cycles of shared memory. Rows have 40 fp16; 12 reads for 16 instructions of tensor cores."""
    loads, touched = tiled(windows, tile, FILTERS, number, wide)
    places = [(i * wide // WARP * 40 + i * wide % WARP) * 2 for i in range(WARP)]
    writes = loads * wavefronts(places, max(4, 2 * wide)) if wide > 1 else loads
    return loads, touched, writes + windows * FILTERS * DEPTH // 1024 * 12 // 16


def im2col(windows):
    """The kernel alone; what cuBLAS then fetches is its own affair."""
    loads = windows * DEPTH // WARP
    return loads, loads * sectors([in_x(0, i) for i in range(WARP)])


def main():
    try:
        images = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    except ValueError:
        sys.exit(__doc__.split("      ")[0])
    windows = images * WINDOWS
    flop = 2 * windows * FILTERS * DEPTH
    x, y = images * IN_SIZE * IN_SIZE * CHANNELS * NUMBER, windows * FILTERS * NUMBER
    weight, matrix = FILTERS * DEPTH * NUMBER, windows * DEPTH * NUMBER
    print(f"{images} images: {1e-9 * flop:.2f} GFLOP; x {1e-6 * x:.1f} MB, filters {1e-6 * weight:.2f}, "
          f"y {1e-6 * y:.1f}, the matrix of windows {1e-6 * matrix:.1f}")
    print(f"{flop // 2:,} multiplications, or {flop // 2 // (16 * 8 * 8):,} instructions of tensor cores")
    print(f"{'rung':<16} {'loads':>11} {'sectors':>12} {'each':>5} {'MB':>8} {'FLOP/B':>7}")
    products = flop // 2 // WARP  # a warp's multiplications
    rungs = {"naive": (*naive(windows), 0), "shared tiles": (*tiled(windows, 32), products * 40 // 32),
             "im2col": (*im2col(windows), 0), "register tiles": (*tiled(windows, 64), products * 16 // 64),
             "tensor cores": fp16(windows, 64, 1, 4), "wide loads": fp16(windows, 64, 4, 4),
             "two buffers": fp16(windows, 64, 8, 2), "warp tiles": fp16(windows, 192, 8, 2),
             "ldmatrix": fp16(windows, 192, 8, 2)}
    for name, (loads, touched, _) in rungs.items():
        share = "" if name == "im2col" else f"{flop / (touched * SECTOR):.2f}"
        line = f"{name:<16} {loads:>11,} {touched:>12,} {touched / loads:>5.1f} {1e-6 * touched * SECTOR:>8.1f} {share:>7}"
        print(line.rstrip())

    print("\nat least, us     arithmetic  L1 and shared   memory  so of cuBLAS, at most")
    bound = {}

    def row(name, peak, cycles, moved, rival):
        times = flop / peak, cycles / SMS / CLOCK, moved / MEMORY
        bound[name] = max(times)
        print(f"{name:<16}" + "".join(f"{1e6 * time:>{width}.1f}" for time, width in zip(times, (11, 15, 9)))
              + f"{100 * bound[rival] / bound[name]:>22.0f}%")

    row("cuBLAS alone", PEAK, 0, matrix + weight + y, "cuBLAS alone")
    row("the same, fp16", PEAK16, 0, (matrix + weight) // 2 + y, "the same, fp16")
    later = list(rungs).index("tensor cores")
    for i, (name, (_, touched, shared)) in enumerate(rungs.items()):
        cycles = touched * SECTOR / PORT + shared
        moved = (x + weight) // (2 if i > later + 1 else 1) + y
        if name != "im2col":
            row(name, PEAK16 if i >= later else PEAK, cycles, moved, "the same, fp16" if i >= later else "cuBLAS alone")


if __name__ == "__main__":
    main()
