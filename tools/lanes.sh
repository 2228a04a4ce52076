#!/bin/sh
# Usage: tools/lanes.sh TRACE [STEP [STEPS]]      (or: make lanes TRACE=FILE STEP=N)
# Draws one or more steps of a trace that --trace FILE recorded, from STEP (10, or the last) on. Each rank has two lanes:
# the thread that trains, or the GPU, and below it the collectives. Writes FILE.png and FILE.svg.
set -eu
export LC_ALL=C.UTF-8 # awk and sort take and print 0.5, not 0,5
[ $# -gt 0 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
trace=$1 step=${2:-} steps=${3:-1}
for program in gnuplot jq python3; do
    command -v $program >/dev/null || { echo "$0: no $program here: see 'make doctor'" >&2 && exit 1; }
done
case ${step:-1}$steps in *[!0-9]* | 0*) echo "$0: steps are numbers from 1 on: $step $steps" >&2 && exit 2 ;; esac
[ -f "$trace" ] || { echo "$0: there is no file $trace: --trace FILE writes one" >&2 && exit 1; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
"$(dirname "$0")/colours.py" >"$work/style"

# A step begins with rank 0's zero_grad, and ends before the next one or the evaluation. Lines: rank, lane, begin, end (ms, from
# there), kind, name. Where a step has several all-reduces of arrays they are its buckets.
jq -r --argjson step "${step:-null}" --argjson steps "$steps" '
    [.traceEvents[] | .pid -= 1 | .tid -= 1] as $events # ranks and lanes
    | [$events[] | select(.cat == "evaluation")] as $all_evaluations
    | [$all_evaluations[] | select(.pid == 0) | .ts] as $evaluations
    | [$events[] | select(.ph == "X" and .cat != "evaluation")
       | select(. as $e | all($all_evaluations[]; .pid != $e.pid or $e.ts < .ts or .ts + .dur < $e.ts))]
    | (if any(.tid == 2) then map(select(.tid > 0) | .tid %= 2) else . end) as $all
    | [$all[] | select(.pid == 0 and .name == "zero_grad") | .ts] as $starts
    | ($step // ([10, ($starts | length)] | min)) as $step
    | if ($starts | length) < $step or $step == 0 then "has \($starts | length) steps: STEP=1 to \($starts | length)" | halt_error(3) else . end
    | $starts[$step - 1] as $from
    | ([$starts[$step - 1 + $steps:][], $evaluations[] | select(. > $from)] | min // $all[-1].ts + $all[-1].dur) as $until
    | [$all[] | select(.ts + .dur > $from and .ts < $until)] as $shown
    | (reduce ($shown | map(select(.name == "all_reduce" and (.args.count // 0) > 1 and .ts >= $from)) | sort_by(.ts)[]) as $e
        ({}; .["\($e.pid)"] += ["\($e.ts)"])) as $buckets
    | $shown[] | .ts as $ts | ($buckets["\(.pid)"] // []) as $own
    | if .name == "all_reduce" and ($own | length) > $steps and ($own | index("\($ts)")) != null
      then .name = "bucket\u00a0\($own | index("\($ts)") % ($own | length / $steps | ceil))" else . end
    | [.pid, .tid, (.ts - $from) / 1000, (.ts + .dur - $from) / 1000, .cat, .name, ($until - $from) / 1000]
    | @tsv' "$trace" >"$work/events" 2>"$work/error" ||
    case $? in
    3) echo "$0: $trace $(cat "$work/error")" >&2 && exit 1 ;;
    *) echo "$0: $trace is no trace of a run: $(head -n 1 "$work/error")" >&2 && exit 1 ;;
    esac
ranks=$(awk '$1 + 1 > n { n = $1 + 1 } END { print n }' "$work/events")
length=$(awk 'NR == 1 { print $7 }' "$work/events")

# Boxes of each kind, and their names: in the boxes that have room for them, else, for messages, below.
for kind in data forward backward optimizer graph wait communication; do
    awk -v kind=$kind -v ranks="$ranks" '$5 == kind {
        y = 2.4 * (ranks - 1 - $1) + (1 - $2)
        print ($3 + $4) / 2, y + 0.5, $3, $4, y + 0.08, y + 0.92 }' "$work/events" >"$work/$kind"
    for place in in below; do
        awk -v kind=$kind -v place=$place -v length_="$length" -v ranks="$ranks" '$5 == kind {
            name = $6; sub(/_next|_step/, "", name)
            from = $3 > 0 ? $3 : 0; to = $4 < length_ ? $4 : length_; room = to - from > length_ * 0.011 * length(name)
            if (place == "in" ? room : !room && kind == "communication")
                print place == "in" ? (from + to) / 2 : from < 0.93 * length_ ? from : 0.93 * length_, 2.4 * (ranks - 1 - $1) + (1 - $2) + (place == "in" ? 0.5 : -0.2), name
        }' "$work/events" >"$work/$kind.$place"
    done
done

box() { # KIND PHASE TITLE: lines of gnuplot's plot, with the colours of a phase (docs/colours.css)
    edge='border rgb card' && [ "$1" != communication ] || edge=noborder # a short message is as thin as an edge
    [ ! -s "$work/$1" ] || echo " '$work/$1' using 1:2:3:4:5:6 with boxxyerror fs solid 1.0 $edge lw 0.7 lc rgb phase_$2 title '$3', \\"
    [ ! -s "$work/$1.in" ] || echo " '$work/$1.in' using 1:2:3 with labels tc rgb phase_$2_on font ',9' notitle, \\"
    [ ! -s "$work/$1.below" ] || echo " '$work/$1.below' using 1:2:3 with labels left tc rgb phase_$2_ink font ',9' notitle, \\"
}
{
    echo "load '$work/style'"
    echo "set title 'What each rank computes, and its messages'"
    echo "set xrange [0:$length]"
    echo "set yrange [-0.6:$ranks * 2.4]"
    echo 'set xlabel "milliseconds" offset 0,0.5'
    echo 'set ytics ("" 0)'
    rank=0
    while [ "$rank" -lt "$ranks" ]; do
        echo "set label 'rank $rank' at graph -0.01, first 2.4 * ($ranks - 1 - $rank) + 1.5 right textcolor rgb rank_$((rank % 8))_ink"
        echo "set label 'messages' at graph -0.01, first 2.4 * ($ranks - 1 - $rank) + 0.5 right textcolor rgb muted"
        rank=$((rank + 1))
    done
    cat <<'END'
set border 1
set lmargin 11
set key outside bottom center horizontal
set style fill solid 1.0 noborder
END
    echo "plot \\"
    box data data data
    box forward forward forward
    box backward backward backward
    box optimizer optimizer optimizer
    box graph graph graph
    box wait wait wait
    box communication send all-reduce
    echo ' -9 notitle'
} >"$work/plot"
height=$((130 + ranks * 90))
for format in png svg; do
    terminal="pngcairo size 1000,$height font 'DejaVu Sans,10'"
    [ $format = svg ] && terminal="svg size 1000,$height font 'DejaVu Sans,12' background 'white'"
    gnuplot -e "set terminal $terminal; set output '$work/lanes.$format'" "$work/plot"
    mv "$work/lanes.$format" "${trace%.json}.$format"
    echo "${trace%.json}.$format"
done
