#!/bin/sh
# Usage: tools/lanes.sh TRACE [STEP [STEPS]]      (or: make lanes TRACE=FILE STEP=N)
# Draws one or more steps of a trace that --trace FILE recorded, from STEP (10, or the last) on. Each rank has two lanes:
# the thread that trains, or the GPU, and below it the collectives. Writes FILE.png and FILE.svg.
set -eu
[ $# -gt 0 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
trace=$1 step=${2:-} steps=${3:-1}
for program in gnuplot jq; do
    command -v $program >/dev/null || { echo "$0: no $program here: see 'make doctor'" >&2 && exit 1; }
done
case ${step:-1}$steps in *[!0-9]* | 0*) echo "$0: steps are numbers from 1 on: $step $steps" >&2 && exit 2 ;; esac
[ -f "$trace" ] || { echo "$0: there is no file $trace: --trace FILE writes one" >&2 && exit 1; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

# A step begins with rank 0's zero_grad, and ends before the next one or the evaluation. Lines: rank, lane, begin, end (ms, from there), kind, name.
jq -r --argjson step "${step:-null}" --argjson steps "$steps" '
    [.traceEvents[] | select(.cat == "evaluation")] as $all_evaluations
    | [$all_evaluations[] | select(.pid == 0) | .ts] as $evaluations
    | [.traceEvents[] | select(.ph == "X" and .cat != "evaluation")
       | select(. as $e | all($all_evaluations[]; .pid != $e.pid or $e.ts < .ts or .ts + .dur < $e.ts))]
    | (if any(.tid == 2) then map(select(.tid > 0) | .tid %= 2) else . end) as $all
    | [$all[] | select(.pid == 0 and .name == "zero_grad") | .ts] as $starts
    | ($step // ([10, ($starts | length)] | min)) as $step
    | if ($starts | length) < $step or $step == 0 then "has \($starts | length) steps: STEP=1 to \($starts | length)" | halt_error(3) else . end
    | $starts[$step - 1] as $from
    | ([$starts[$step - 1 + $steps:][], $evaluations[] | select(. > $from)] | min // $all[-1].ts + $all[-1].dur) as $until
    | $all[] | select(.ts + .dur > $from and .ts < $until)
    | [.pid, .tid, (.ts - $from) / 1000, (.ts + .dur - $from) / 1000, .cat, .name, ($until - $from) / 1000]
    | @tsv' "$trace" >"$work/events" 2>"$work/error" ||
    case $? in
    3) echo "$0: $trace $(cat "$work/error")" >&2 && exit 1 ;;
    *) echo "$0: $trace is no trace of a run: $(head -n 1 "$work/error")" >&2 && exit 1 ;;
    esac
ranks=$(awk '$1 + 1 > n { n = $1 + 1 } END { print n }' "$work/events")
length=$(awk 'NR == 1 { print $7 }' "$work/events")

# Boxes of each kind, and names in those that have room for them.
for kind in data forward backward optimizer graph wait communication; do
    awk -v kind=$kind -v ranks="$ranks" '$5 == kind {
        y = 2.4 * (ranks - 1 - $1) + (1 - $2)
        print ($3 + $4) / 2, y + 0.5, $3, $4, y + 0.08, y + 0.92 }' "$work/events" >"$work/$kind"
    [ -s "$work/$kind" ] || echo "NaN NaN NaN NaN NaN NaN" >"$work/$kind"
done
grep -q '^[0-9]' "$work/graph" && graph="title 'graph'" || graph=notitle
awk -v length_="$length" -v ranks="$ranks" '{ name = $6; sub(/_next|_step/, "", name) }
    ($4 < length_ ? $4 : length_) - ($3 > 0 ? $3 : 0) > length_ * 0.011 * length(name) {
    print (($3 > 0 ? $3 : 0) + ($4 < length_ ? $4 : length_)) / 2, 2.4 * (ranks - 1 - $1) + (1 - $2) + 0.5, name
}' "$work/events" >"$work/names"
[ -s "$work/names" ] || echo "NaN NaN -" >"$work/names"

{
    echo "set xrange [0:$length]"
    echo "set yrange [-0.4:$ranks * 2.4]"
    echo 'set xlabel "milliseconds"'
    printf 'set ytics ('
    rank=0
    while [ "$rank" -lt "$ranks" ]; do
        printf '%s"rank %d" %s, "messages" %s' "$([ "$rank" -eq 0 ] || printf ', ')" "$rank" \
            "2.4 * ($ranks - 1 - $rank) + 1.5" "2.4 * ($ranks - 1 - $rank) + 0.5"
        rank=$((rank + 1))
    done
    cat <<'END'
)
set tics nomirror scale 0.5
set border 3
set key outside top center horizontal
set termoption noenhanced
set style fill solid 1.0 noborder
END
    echo "plot '$work/data' using 1:2:3:4:5:6 with boxxyerror lc rgb '#aa3377' title 'data', \\"
    echo " '$work/forward' using 1:2:3:4:5:6 with boxxyerror lc rgb '#4477aa' title 'forward', \\"
    echo " '$work/backward' using 1:2:3:4:5:6 with boxxyerror lc rgb '#cc6677' title 'backward', \\"
    echo " '$work/optimizer' using 1:2:3:4:5:6 with boxxyerror lc rgb '#228833' title 'optimizer', \\"
    echo " '$work/graph' using 1:2:3:4:5:6 with boxxyerror lc rgb '#66ccee' $graph, \\"
    echo " '$work/wait' using 1:2:3:4:5:6 with boxxyerror lc rgb '#aaaaaa' title 'wait', \\"
    echo " '$work/communication' using 1:2:3:4:5:6 with boxxyerror lc rgb '#ddaa33' title 'all-reduce', \\"
    echo " '$work/names' using 1:2:3 with labels tc rgb 'white' font ',9' notitle"
} >"$work/plot"
height=$((130 + ranks * 90))
for format in png svg; do
    terminal="pngcairo size 1000,$height font 'DejaVu Sans,10'"
    [ $format = svg ] && terminal="svg size 1000,$height font 'DejaVu Sans,12' background 'white'"
    gnuplot -e "set terminal $terminal; set output '$work/lanes.$format'" "$work/plot"
    mv "$work/lanes.$format" "${trace%.json}.$format"
    echo "${trace%.json}.$format"
done
