#!/usr/bin/env python3
"""How long a training step takes on many ranks, by a model: a table, and a picture by gnuplot.

Weak scaling: every rank computes as much as one alone. A message takes alpha + bytes x beta. Bucket j,
ready in the backward pass at r_j, is sent when the one before it is done:

    end_j = max(r_j, end_(j-1)) + T(n, bytes_j)        exposed = max(0, end_last - backward)
    step  = forward + backward + exposed + rest + steal x hidden

T is the all-reduce's: log2(n) messages of all bytes where those are few (is_short), else 2 (n - 1) of an n-th
(the ring), or in stages where L ranks share a node: twice L - 1 messages of an L-th inside, and between the
n / L nodes T of an L-th, as L such sums share a node's line (chapters 02 and 04). Hidden is the communication
that is not exposed; steal says how much of it the computing cores pay: nothing where network cards carry the
bytes, all of it where a core that computes has to copy them, as over loopback.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
import colours

SHORT_BYTES, SHORT_BLOCK = 32 << 10, 4 << 10  # as in common/comm/tcp/backend_tcp.c
RANKS = [2**i for i in range(11)]


@dataclass
class Step:  # what one rank alone takes, in seconds
    forward: float
    backward: float
    rest: float  # optimizer, data
    buckets: list  # (ready, as a part of the backward pass; bytes), in the order they leave


@dataclass
class Network:
    name: str
    alpha: float  # seconds a message, between nodes
    beta: float  # seconds a byte
    per_node: int = 1  # ranks that share a node, and its line
    inside: tuple = (0.0, 0.0)  # alpha and beta inside a node
    steal: float = 0.0


def is_short(n, size):
    """Whether doubling sums an array of so many bytes on n ranks, and not a ring."""
    return size <= SHORT_BYTES or size // n < SHORT_BLOCK


def all_reduce(n, size, alpha, beta):
    """Seconds for n ranks, flat."""
    if is_short(n, size):
        return math.ceil(math.log2(n)) * (alpha + size * beta)
    return 2 * (n - 1) * (alpha + size / n * beta)


def flat(network, n, size):
    link = network.inside if n <= network.per_node else (network.alpha, network.beta)
    return all_reduce(n, size, *link)


def staged(network, n, size):
    """The line of a node carries all of its L shares: an L-th of the array each, L times."""
    per_node = network.per_node
    if n <= per_node or size <= SHORT_BYTES:
        return flat(network, n, size)
    alpha, beta = network.inside
    nodes = n / per_node
    inside = 2 * (per_node - 1) * (alpha + size / per_node * beta)
    return inside + all_reduce(nodes, size / per_node, network.alpha, network.beta * per_node)


def step_seconds(step, network, n, way=flat, ranks_per_core=1.0):
    """ranks_per_core: how many ranks share a core."""
    forward, backward, rest = (ranks_per_core * t for t in (step.forward, step.backward, step.rest))
    if n == 1:
        return forward + backward + rest
    end = total = 0.0
    for ready, size in step.buckets:
        taken = way(network, n, size)
        end = max(end, ready * backward) + taken
        total += taken
    exposed = max(0.0, end - backward)
    return forward + backward + rest + exposed + network.steal * max(0.0, total - exposed)


def parse_network(text, inside):
    """NAME:GBIT:MICROSECONDS[:RANKS PER NODE]"""
    name, gbit, microseconds, *per_node = text.split(":")
    per_node = int(per_node[0]) if per_node else 1
    return Network(name, 1e-6 * float(microseconds), 8e-9 / float(gbit), per_node, inside)


def ways(network):
    return [("ring", flat)] + ([("staged", staged)] if network.per_node > 1 else [])


def print_table(step, networks):
    alone = step_seconds(step, networks[0], 1)
    heads = [f"{network.name}, {way}" for network in networks for way, _ in ways(network)]
    width = max(len(head) for head in heads)
    print(f"\nstep time in ms, and efficiency (one rank alone takes {1e3 * alone:.2f} ms)")
    print("ranks".rjust(width), *(f"{n:>12d}" for n in RANKS[1:]))
    for network in networks:
        for name, way in ways(network):
            cells = [step_seconds(step, network, n, way) for n in RANKS[1:]]
            row = (f"{1e3 * t:7.1f} {100 * alone / t:3.0f}%" for t in cells)
            print(f"{network.name}, {name}".rjust(width), *row)


def print_errors(step, network, measured, cores):
    """measured: ranks -> seconds. The model where it can be checked."""
    print("\nranks   measured, ms   model, ms   error")
    errors = []
    for n, seconds in sorted(measured.items()):
        if n == 1:
            continue  # it is what the model is made of
        model = step_seconds(step, network, n, ranks_per_core=max(1.0, n / cores))
        errors.append(model / seconds - 1)
        print(f"{n:5d} {1e3 * seconds:14.2f} {1e3 * model:11.2f} {100 * errors[-1]:+6.0f}%")
    rms = math.sqrt(sum(error**2 for error in errors) / len(errors))
    print(f"the model is off by {100 * rms:.0f} % (root of the mean square)")


def draw(step, networks, out):
    alone = step_seconds(step, networks[0], 1)
    curves, lines, ends = [], [], ([], [])
    for i, network in enumerate(networks):
        for name, way in ways(network):
            for n in RANKS:
                t = step_seconds(step, network, n, way)
                lines.append(f"{n} {1e3 * t:.6g} {100 * alone / t:.6g}")
            lines.append("\n")
            curves.append(i % 6 + 1)
            for end, value in zip(ends, (1e3 * t, 100 * alone / t)):
                end.append((RANKS[-1], value, f"{network.name}, {name}"))
    with tempfile.NamedTemporaryFile("w", suffix=".dat") as data:
        data.write("\n".join(lines) + "\n")
        data.flush()
        plots = {
            column: ", ".join(
                f"'{data.name}' index {i} using 1:{column} with linespoints lt {kind} ps 0.5 notitle"
                for i, kind in enumerate(curves)
            )
            for column in (2, 3)
        }
        top = 1.05 * max(value for _, value, _ in ends[0])
        names = [colours.labels(colours.together(end, 0.005), 0.05 * high) for end, high in zip(ends, (top, 105))]
        for form, terminal in (
            ("png", "pngcairo size 1000,440 font 'DejaVu Sans,10'"),
            ("svg", "svg size 1000,440 font 'DejaVu Sans,13' background 'white'"),
        ):
            script = f"""{colours.style()}
set terminal {terminal}
set output '{out}.{form}'
set multiplot layout 1,2
set grid
set logscale x 2
set xlabel 'ranks'
set rmargin 27
set title 'step, ms'
set yrange [0:{top:.6g}]
{names[0]}
plot {plots[2]}
unset label
{names[1]}
set title 'efficiency, %'
set yrange [0:105]
plot {plots[3]}
"""
            subprocess.run(["gnuplot"], input=script, text=True, check=True)
            print(f"{out}.{form}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compute", required=True, metavar="FORWARD,BACKWARD,REST", help="ms of one rank alone")
    parser.add_argument("--buckets", required=True, metavar="READY:BYTES,...", help="in the order they leave")
    parser.add_argument("--loopback", required=True, metavar="ALPHA,BETA", help="us a message, ns a byte, here")
    parser.add_argument("--measured", default="", metavar="RANKS:MS,...", help="steps that were measured here")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="that those ranks shared")
    parser.add_argument(
        "--network", action="append", default=[], metavar="NAME:GBIT:US[:RANKS PER NODE]", help="may be repeated"
    )
    parser.add_argument("--out", default="build/step_time")
    args = parser.parse_args()
    step = Step(
        *(1e-3 * float(t) for t in args.compute.split(",")),
        [(float(ready), int(size)) for ready, size in (b.split(":") for b in args.buckets.split(","))],
    )
    alpha, beta = args.loopback.split(",")
    inside = 1e-6 * float(alpha), 1e-9 * float(beta)
    here = Network("this machine", *inside, steal=1.0)
    networks = [here] + [parse_network(text, inside) for text in args.network]
    if args.measured:
        measured = {int(n): 1e-3 * float(t) for n, t in (m.split(":") for m in args.measured.split(","))}
        print_errors(step, here, measured, args.cores)
    print_table(step, networks)
    draw(step, networks, args.out)


if __name__ == "__main__":
    main()
