#!/usr/bin/env python3
"""Usage: docs/gpu_ladder.py [IMAGES]      What the rungs of docs/gpu_ladder.md fetch, counted by hand: 64 images."""
import sys

CHANNELS, IN_SIZE, OUT_SIZE, FILTERS, WARP = 32, 26, 24, 64, 32
LINE, DEPTH, WINDOWS = 3 * CHANNELS, 9 * CHANNELS, OUT_SIZE * OUT_SIZE
NUMBER, SECTOR = 4, 32  # bytes


def in_x(window, depth):
    """Where a number of a window lies in x, as conv2_cuda.h has it."""
    image, row, column = window // WINDOWS, window // OUT_SIZE % OUT_SIZE, window % OUT_SIZE
    begin = ((image * IN_SIZE + row) * IN_SIZE + column) * CHANNELS
    return begin + depth // LINE * IN_SIZE * CHANNELS + depth % LINE


def in_weight(filter, depth):
    return filter * DEPTH + depth


def sectors(places):
    """How many pieces of 32 bytes one load of a warp touches."""
    return len({place * NUMBER // SECTOR for place in places})


def naive(windows):
    """A warp: one window, 32 filters; each load is made for each number of the depth."""
    x = sum(sectors([in_x(0, depth)] * WARP) for depth in range(DEPTH))
    weight = sum(sectors([in_weight(filter, depth) for filter in range(WARP)]) for depth in range(DEPTH))
    warps = windows * FILTERS // WARP
    return warps * 2 * DEPTH, warps * (x + weight)


def tiled(windows, tile):
    """A block fetches `tile` windows and as many filters; a warp 32 neighbours of the depth."""
    pieces = DEPTH // WARP
    x = sum(sectors([in_x(0, piece * WARP + i) for i in range(WARP)]) for piece in range(pieces))
    weight = sum(sectors([in_weight(0, piece * WARP + i) for i in range(WARP)]) for piece in range(pieces))
    blocks = windows // tile * (FILTERS // tile)
    return blocks * 2 * tile * pieces, blocks * tile * (x + weight)


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
    rungs = {"naive": naive(windows), "shared tiles": tiled(windows, 32), "im2col": im2col(windows),
             "register tiles": tiled(windows, 64), "tensor cores": tiled(windows, 64)}
    for name, (loads, touched) in rungs.items():
        share = "" if name == "im2col" else f"{flop / (touched * SECTOR):.2f}"
        line = f"{name:<16} {loads:>11,} {touched:>12,} {touched / loads:>5.1f} {1e-6 * touched * SECTOR:>8.1f} {share:>7}"
        print(line.rstrip())


if __name__ == "__main__":
    main()
