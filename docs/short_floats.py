#!/usr/bin/env python3
"""Usage: docs/short_floats.py NUMBER...      Each number as the types of mixed precision keep it."""
import struct
import sys


def rounded(number, mantissa):
    """To float32's range and this many bits of mantissa: the nearest, of two equally near the even one."""
    bits = struct.unpack("<I", struct.pack("<f", number))[0]
    dropped = 23 - mantissa
    bits += (1 << dropped >> 1) - 1 + (bits >> dropped & 1) if dropped else 0
    return struct.unpack("<f", struct.pack("<I", bits >> dropped << dropped))[0]


def fp16(number):
    try:
        return struct.unpack("<e", struct.pack("<e", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def main():
    rows = []
    try:
        for text in sys.argv[1:]:
            number = float(text)
            rows.append((text, [rounded(number, 23), rounded(number, 10), fp16(number), rounded(number, 7)]))
    except (ValueError, OverflowError):
        rows = []
    if not rows:
        print(__doc__.split("      ")[0], file=sys.stderr)
        sys.exit(2)
    print(f"{'':>10} {'float32':>12} {'tf32':>12} {'fp16':>12} {'bf16':>12}")
    for text, kept in rows:
        print(f"{text:>10} " + " ".join(f"{value:12.7g}" for value in kept))


if __name__ == "__main__":
    main()
