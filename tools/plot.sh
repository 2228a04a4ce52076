#!/bin/sh
# Usage: tools/plot.sh DIR...      (or: make plot RUN=DIR,DIR)
# Draws the loss, and the accuracy on the test set, of runs that had --metrics-dir DIR, one curve for
# each: DIR/plot.png and DIR/plot.svg, in the first of the folders. Each rank writes its own loss; the
# curve is their mean, which is the loss of the group's batch; where one of them is nan, there is a gap. Pale:
# step by step; thick: smoothed, with the run's name at its end. For the linear model there is also the smallest loss that any weights can
# reach (tools/optimum).
set -eu
export LC_ALL=C.UTF-8 # awk and sort take and print 0.5, not 0,5
[ $# -gt 0 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)
for program in gnuplot jq python3; do
    command -v $program >/dev/null || { echo "$0: no $program here: see 'make doctor'" >&2 && exit 1; }
done
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
"$here/colours.py" >"$work/style"

# lines FILE FILTER...: what jq prints for the file's whole lines; a line that a kill has cut off is skipped.
lines() {
    file=$1 && shift
    jq -Rr "fromjson? | $1" "$file"
}

number=0 losses='' means='' accuracies=''
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
    losses="$losses${losses:+, }'$work/loss$number' using 1:2 with lines lw 0.7 lc rgb line_ notitle"
    means="$means, '$work/loss$number' using 1:3 with lines lt $number notitle"
    tail -n 1 "$work/loss$number" | awk -v name="$name" 'NF == 3 { print $1, $3, name }' >>"$work/loss_ends"
    if [ -s "$dir/test.jsonl" ]; then # "NAME": at the end of its line
        lines "$dir/test.jsonl" 'select(.accuracy) | "\(.step) \(100 * .accuracy)"' >"$work/test$number"
        accuracies="$accuracies${accuracies:+, }'$work/test$number' with linespoints lt $number notitle"
        tail -n 1 "$work/test$number" | awk -v name="$name" '{ print $0, name }' >>"$work/test_ends"
    fi
    if [ -s "$dir/run.json" ] && jq -e '.model == "linear"' "$dir/run.json" >/dev/null; then
        optimum=$(jq -r '"--seed=\(.seed) --dataset-size=\(.dataset_size) --num-samples=\(.num_samples)"' \
            "$dir/run.json" | xargs "$here/optimum")
        means="$means, $optimum with lines lt $number lw 1 title 'least squares: $optimum'"
    fi
done

# ends FILE: "X Y NAME" of each line's end, moved apart where two names would overlap, for gnuplot.
ends() {
    sort -g -k 2 "$1" | awk '
        { x[NR] = $1; y[NR] = $2; sub(/^[^ ]+ [^ ]+ /, ""); name[NR] = $0; if (y[NR] > top) top = y[NR] }
        END {
            for (i = 1; i <= NR; i++) {
                at = i == 1 || y[i] > at + 0.07 * top ? y[i] : at + 0.07 * top
                printf "set label \"%s\" at %s,%s left offset 1,0 textcolor rgb text\n", name[i], x[i], at
            }
        }'
}

panels=1 && [ -n "$accuracies" ] && panels=2
cat >"$work/plot" <<END
load '$work/style'
set multiplot layout $panels,1
set grid
set rmargin 18
set xlabel "optimizer step"
set xrange [0:*]
set yrange [0:*]
set title "training loss"
$(ends "$work/loss_ends")
plot $losses$means
unset label
END
if [ -n "$accuracies" ]; then
    cat >>"$work/plot" <<END
set yrange [*:100]
set title "test accuracy, %"
$(ends "$work/test_ends")
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
