#!/bin/sh
# Usage: bench/scaling.sh [TURNS]      (or: make scaling)
# What do more ranks bring? Trains the CNN on 1, 2 and 4 ranks, one thread and 64 samples a step for each,
# over tcp and, where it is there, mpi, in turns: samples/s, speed-up over one rank of the same backend,
# efficiency; build/scaling.png and .svg.
set -eu
export LC_ALL=C.UTF-8 # awk and sort take and print 0.5, not 0,5
CDPATH='' cd "$(dirname "$0")/.."
turns=${1:-5} steps=60
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
load=$(cut -d' ' -f1 /proc/loadavg)
awk "BEGIN { exit !($load > 0.5) }" && echo "warning: this machine is busy (load $load): take the figures with salt" >&2

# train BACKEND RANKS: a line "BACKEND RANKS samples/s". Evaluations and printing do not count.
train() {
    launcher=mpirun && [ "$1" = mpi ] || launcher=ddprun
    LAUNCHER=$launcher 03_torchrun_env/run.sh "$2" --backend "$1" --threads 1 --batch-size 64 --max-steps $steps \
        --epochs 100 --save-every 0 --log-interval 1000 --checkpoint-dir "$work" --profile "$work/profile" >/dev/null 2>&1
    awk -v backend="$1" -v ranks="$2" -v samples=$((64 * steps * $2)) '
        { value = 0; for (i = 2; i <= NF && !value; i++) if ($i ~ /^[0-9.]+$/) value = $i }
        /^sum:/ { wall = value }
        /^evaluation/ || /^rest:/ { other += value }
        END { print backend, ranks, samples / (wall - other) }' "$work/profile" >>"$work/rates"
}

backends=tcp
command -v mpirun >/dev/null && train mpi 1 && backends='tcp mpi'
: >"$work/rates" # that was to see whether it works

turn=0
while [ $turn -lt "$turns" ]; do
    turn=$((turn + 1))
    for backend in $backends; do
        for ranks in 1 2 4; do train "$backend" $ranks; done
    done
done

# Medians of the turns.
echo "backend  ranks  samples/s  speed-up  efficiency      ($(nproc) cores, $turns turns)"
sort -k1,1r -k2,2n -k3,3n "$work/rates" | awk '
    function out() { if (n) print name, v[int((n + 1) / 2)] }
    name != $1 " " $2 { out(); name = $1 " " $2; n = 0 }
    { v[++n] = $3 }
    END { out() }' | awk '
    $2 == 1 { one = $3 }
    { printf "%-8s %5d %10.0f %9.2f %10.0f%%\n", $1, $2, $3, $3 / one, 100 * $3 / one / $2 }' | tee "$work/table"
mkdir -p build
cp "$work/table" build/scaling.txt # for step_time.sh

curves='' curve=0
for backend in $backends; do
    grep "^$backend" "$work/table" >"$work/$backend"
    curves="$curves, '$work/$backend' using 2:4 with linespoints lt $((curve += 1)) title '$backend'"
done
for format in png svg; do
    terminal="pngcairo size 700,400 font 'DejaVu Sans,10'"
    [ $format = svg ] && terminal="svg size 700,400 font 'DejaVu Sans,13' background 'white'"
    gnuplot <<END
$(tools/colours.py)
set terminal $terminal
set output 'build/scaling.$format'
set grid
set title 'speed-up over one rank'
set key top left reverse Left
set xlabel 'ranks'
set xrange [0.8:4.2]
set yrange [0:4.4]
set xtics (1, 2, 4)
plot x with lines lw 1.5 dt 2 lc rgb edge title 'a core for each rank would allow', \
    (x < $(nproc) ? x : $(nproc)) with lines lw 2 lc rgb edge title 'the $(nproc) cores of this machine allow'$curves
END
    echo "build/scaling.$format"
done
