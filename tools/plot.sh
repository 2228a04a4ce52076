#!/bin/sh
# Usage: tools/plot.sh DIR...      (or: make plot RUN=DIR,DIR)
# Draws the loss, and the accuracy on the test set, of runs that had --metrics-dir DIR, one curve for
# each: DIR/plot.png and DIR/plot.svg, in the first of the folders. Each rank writes its own loss; the
# curve is their mean, which is the loss of the group's batch; where one of them is nan, there is a gap. Thin:
# step by step; thick: smoothed. For the linear model there is also the smallest loss that any weights can
# reach (tools/optimum).
set -eu
[ $# -gt 0 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
for program in gnuplot jq; do
    command -v $program >/dev/null || { echo "$0: no $program here: see 'make doctor'" >&2 && exit 1; }
done
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

# lines FILE FILTER...: what jq prints for the file's whole lines; a line that a kill has cut off is skipped.
lines() {
    file=$1 && shift
    jq -Rr "fromjson? | $1" "$file"
}

number=0 losses='' accuracies=''
for dir in "$@"; do
    ls "$dir"/rank*.jsonl >/dev/null 2>&1 ||
        { echo "$0: no metrics in $dir: name the folder that a run had as --metrics-dir" >&2 && exit 1; }
    number=$((number + 1))
    name=$(basename "$dir" | tr -c '[:alnum:]._\n-' ' ') # other characters are special in gnuplot's quotes
    for file in "$dir"/rank*.jsonl; do
        lines "$file" 'select(.step) | "\(.step) \(.loss // "nan")"'
    done | sort -n | awk '
        function out() {
            if (!n) return
            if (lost) { print ""; return } # the loss of a rank is nan: a gap
            smooth = 0.9 * smooth + 0.1 * sum / n # a moving average, and
            weight = 0.9 * weight + 0.1 # the sum of its weights so far
            print step, sum / n, smooth / weight
        }
        $1 != step { out(); step = $1; sum = n = lost = 0 }
        { sum += $2; n++; lost += $2 == "nan" }
        END { out() }' >"$work/loss$number"
    grep -q . "$work/loss$number" || { echo "$0: $dir holds no step yet" >&2 && exit 1; }
    losses="$losses${losses:+, }'$work/loss$number' using 1:2 with lines lw 1 lc rgb pale($number) notitle,\
 '' using 1:3 with lines lw 2.5 lc rgb colour($number) title \"$name\""
    if [ -s "$dir/test.jsonl" ]; then
        lines "$dir/test.jsonl" 'select(.accuracy) | "\(.step) \(100 * .accuracy)"' >"$work/test$number"
        accuracies="$accuracies${accuracies:+, }'$work/test$number' with linespoints lw 2.5 pt 7 lc rgb colour($number) title \"$name\""
    fi
    if [ -s "$dir/run.json" ] && jq -e '.model == "linear"' "$dir/run.json" >/dev/null; then
        optimum=$(jq -r '"--seed=\(.seed) --dataset-size=\(.dataset_size) --num-samples=\(.num_samples)"' \
            "$dir/run.json" | xargs "$here/optimum")
        losses="$losses, $optimum with lines lw 1.5 dt 2 lc rgb colour($number) title 'least squares: $optimum'"
    fi
done

panels=1 && [ -n "$accuracies" ] && panels=2
cat >"$work/plot" <<END
colour(i) = word("#4477aa #cc6677 #228833 #b8860b #66ccee #aa3377", (i - 1) % 6 + 1)
pale(i) = "#b0" . substr(colour(i), 2, 7)
set multiplot layout $panels,1
set grid lc rgb "#dddddd"
set xlabel "optimizer step"
set xrange [0:*]
set yrange [0:*]
set ylabel "training loss"
plot $losses
END
if [ -n "$accuracies" ]; then
    cat >>"$work/plot" <<END
set yrange [*:100]
set ylabel "test accuracy, %"
set key bottom right
plot $accuracies
END
fi
for format in png svg; do
    terminal="pngcairo size 900,$((panels * 420)) font 'DejaVu Sans,11'"
    [ $format = svg ] && terminal="svg size 900,$((panels * 420)) font 'DejaVu Sans,14' background 'white'"
    # Written elsewhere first: a viewer of the picture never sees half of one.
    gnuplot -e "set terminal $terminal; set output '$work/plot.$format'" "$work/plot" || exit 1
    mv "$work/plot.$format" "$1/plot.$format"
    echo "$1/plot.$format"
done
