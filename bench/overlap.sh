#!/bin/sh
# Usage: bench/overlap.sh [RANKS [TURNS]]      (or: make overlap)
# How much of its communication does a step hide? Trains the CNN with stage b's blocking all-reduce and
# with the reducer, for several bucket sizes in turns, and reads the time from --profile: a table, and
# build/overlap.png and .svg. "Exposed": the training thread had to wait for it.
set -eu
export LC_ALL=C.UTF-8 # awk and sort take and print 0.5, not 0,5
CDPATH='' cd "$(dirname "$0")/.."
ranks=${1:-2} turns=${2:-5}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
load=$(cut -d' ' -f1 /proc/loadavg)
awk "BEGIN { exit !($load > 0.5) }" && echo "warning: this machine is busy (load $load): take the figures with salt" >&2

# measure NAME COMMAND...: a line "NAME exposed-ms slowest-ms all-ms step-ms" per step, mean of the ranks.
steps=60
measure() {
    name=$1 && shift
    "$@" --threads 1 --batch-size 64 --max-steps $steps --epochs 100 --save-every 0 --log-interval 1000 \
        --checkpoint-dir "$work" --profile "$work/profile" >/dev/null
    awk -v name="$name" -v n=$steps '
        { value = 0; for (i = 2; i <= NF && !value; i++) if ($i ~ /^[0-9.]+$/) value = $i }
        /^communication exposed/ { exposed = value }
        /^wait for/ { slowest = value }
        /^communication in all/ { all = value }
        /^sum:/ { wall = value }
        /^evaluation/ { evaluation = value }
        END { print name, 1e3 * exposed / n, 1e3 * slowest / n, 1e3 * all / n, 1e3 * (wall - evaluation) / n }
    ' "$work/profile" >>"$work/all"
}

turn=0
while [ $turn -lt "$turns" ]; do
    turn=$((turn + 1))
    measure blocking 02_multi_gpu_spawn/train_b_all_reduce --nproc "$ranks"
    for cap in 0.01 0.1 0.5 1 5 25 100; do
        measure $cap 02_multi_gpu_spawn/train --nproc "$ranks" --bucket-cap-mb $cap
    done
done

# Medians of the turns.
echo "bucket cap, MiB   exposed   for the slowest   in all   hidden   step      (ms a step, $ranks ranks, $turns turns)"
for name in blocking 0.01 0.1 0.5 1 5 25 100; do
    printf '%-15s' $name
    for field in 2 3 4 5; do
        awk -v name=$name -v field=$field '$1 == name { print $field }' "$work/all" | sort -n |
            awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
    done | tr '\n' ' ' | awk '{ printf "%10.2f %17.2f %8.2f %7.0f%% %6.2f\n", $1, $2, $3, $1 < $3 ? 100 * (1 - $1 / $3) : 0, $4 }'
done | tee "$work/table"

awk '{ print NR - 1, $2, $4 - $2, $1 }' "$work/table" >"$work/bars"
mkdir -p build
for format in png svg; do
    terminal="pngcairo size 800,420 font 'DejaVu Sans,10'"
    [ $format = svg ] && terminal="svg size 800,420 font 'DejaVu Sans,13' background 'white'"
    gnuplot <<END
$(tools/colours.py)
set terminal $terminal
set output 'build/overlap.$format'
set style fill solid 1.0 noborder
set boxwidth 0.7
set xlabel 'bucket cap, MiB (blocking: one all-reduce after the backward pass)'
set title 'communication of a step, ms'
set yrange [0:*]
set offsets graph 0, 0, 0.25, 0
set label 'hidden behind the backward pass' at graph 0.99, 0.94 right textcolor rgb phase_send_ink
set label 'exposed: the training waits' at graph 0.99, 0.87 right textcolor rgb phase_wait_ink
plot '$work/bars' using 1:(\$2 + \$3):xtic(4) with boxes lc rgb phase_send notitle, \
     '' using 1:2 with boxes lc rgb phase_wait notitle
END
    echo "build/overlap.$format"
done
