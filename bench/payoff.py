#!/usr/bin/env python3
"""Usage: bench/payoff.py [TURNS [sleep|compute [BATCH_SIZE]]]      (or: make payoff)

What overlap saves by the rate of the network (--simulate-network): the CNN's step with one all-reduce after the
backward pass (stage c of 02) and with the Reducer, measured in turns and by the formula

    blocking = alone + T        reducer = alone + max(0, T - what is left of the backward pass)      T = bytes / rate

and at 3 Gbit/s by bucket size. 2 ranks, batch 64 unless you say another, one thread, no shared memory. With sleep, the
default, the ranks sleep for as long as a quiet core computes, and the least of the turns counts, since other work on the
machine only adds. With compute they compute, which needs two idle cores, and the median counts. Tables, and
build/payoff.png and .svg.
"""
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
import colours

RATES = [0.3, 1, 2, 3, 5, 10, 30]
CAPS = [0.01, 0.1, 1, 5, 25]
RUN = "DDP_SHM_DISABLE=1 03_torchrun_env/ddprun --nproc-per-node 2 build/bench/payoff"


def measure(turns, way, batch_size, rate, cap):
    way_argument = "sleep" if way == "sleep" else ""
    command = (f"{RUN} {turns} {way_argument} --batch-size {batch_size} --threads 1 --simulate-network {rate}gbit"
               f" --bucket-cap-mb {cap}")
    lines = subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [[float(word) for word in line.split()] for line in lines[1:]]
    size = sum(int(word) for word in lines[0].split())
    columns = list(zip(*rows))
    typical = min if way == "sleep" else statistics.median
    return size, [typical(column) for column in columns[:5]], statistics.median(columns[5])


def main(turns=40, way="sleep", batch_size=64):
    by_rate, by_cap = [], []
    print("Gbit/s   alone   blocking (exposed)   reducer (exposed)   faster   formula      (ms a step)")
    for rate in RATES:
        size, (alone, blocking, late, reducer, exposed), left = measure(turns, way, batch_size, rate, 25)
        taken = 8e-6 * size / rate
        formula = (alone + taken) / (alone + max(0, taken - left))
        by_rate.append((rate, blocking / reducer, formula))
        print(f"{rate:6g} {alone:7.1f} {blocking:10.1f} ({late:7.1f}) {reducer:10.1f} ({exposed:7.1f})"
              f" {blocking / reducer:8.2f} {formula:9.2f}", flush=True)
    print("\nbucket cap, MiB   blocking   reducer (exposed)   faster      (ms a step, 3 Gbit/s)")
    for cap in CAPS:
        _, (_, blocking, _, reducer, exposed), _ = measure(turns, way, batch_size, 3, cap)
        by_cap.append((cap, blocking / reducer))
        print(f"{cap:15g} {blocking:10.1f} {reducer:9.1f} ({exposed:7.1f}) {blocking / reducer:8.2f}", flush=True)
    draw(by_rate, by_cap)


def draw(by_rate, by_cap):
    """by_rate: (rate, measured, by the formula); by_cap: (MiB, measured)."""
    os.makedirs("build", exist_ok=True)
    both = [tuple(zip(*rows)) for rows in (by_rate, by_cap)]
    ends = [(both[0][0][-1], both[0][1][-1], "measured", "accent"), (both[0][0][-1], both[0][2][-1], "by the formula", "text")]
    data = [f"${name} << END\n" + "".join(" ".join(f"{v:.6g}" for v in row) + "\n" for row in rows) + "END\n"
            for name, rows in (("rates", by_rate), ("caps", by_cap))]
    for terminal, name in (("pngcairo size 800,420 font 'DejaVu Sans,10'", "build/payoff.png"),
                           ("svg size 800,420 font 'DejaVu Sans,13' background 'white'", "build/payoff.svg")):
        subprocess.run(["gnuplot"], text=True, check=True, input=f"""{colours.style()}
{"".join(data)}
set terminal {terminal}
set output '{name}'
set multiplot layout 1,2
set logscale x
set yrange [0.9:1.6]
set rmargin 15
set xrange [0.25:36]
set xtics (0.3, 1, 2, 3, 5, 10, 30)
set xlabel 'rate of the network, Gbit/s'
set title 'step of stage c / step with the Reducer'
{colours.labels(ends, 0.045)}
plot $rates using 1:3 with linespoints lt 2 notitle, $rates using 1:2 with linespoints lt 1 notitle
unset label
set rmargin 3
set xrange [0.008:32]
set xtics (0.01, 0.1, 1, 5, 25)
set xlabel 'bucket cap at 3 Gbit/s, MiB'
set title 'the same, measured, by bucket size'
plot $caps using 1:2 with linespoints lt 1 notitle
""")
        print(name)


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
if __name__ == "__main__":
    main(*[int(a) if a.isdigit() else a for a in sys.argv[1:]])
