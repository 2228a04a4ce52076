#!/bin/sh
# Usage: teach/lab.sh 02a|02b|02c|02|03|04|05|zero1|zero2|zero3  (make lab-02a: begin; the second time: check)
#        teach/lab.sh check [STEP]             (make check-lab: how far is it, with hints; make check-lab LAB=02b)
#        teach/lab.sh list                     (make lab: all of them: done, begun or open)
# Puts the program before a step into lab/STEP/, to be turned into the step by the learner.
set -eu
cd "$(dirname "$0")/.."
lab=${LAB:-lab} chosen='' # the tests have theirs elsewhere
for name in "$lab" "0$lab"; do # make check-lab LAB=02b, or LAB=2b
    [ ! -f "teach/lab/$name.txt" ] || lab=lab chosen=$name
done
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
trap 'exit 130' INT TERM

# Sets the variables of a step: the program before it, our version of it, and the most lines to change.
step_is() {
    step=$1
    [ ! -f "teach/lab/0$step.txt" ] || step=0$step
    if [ ! -f "teach/lab/$step.txt" ]; then
        echo "$0: '$step' is none of$(printf ' %s' teach/lab/0*.txt teach/lab/zero*.txt | sed 's|teach/lab/||g; s|\.txt||g')" >&2
        exit 2
    fi
    # shellcheck disable=SC2046 # NAME: BEFORE OURS COUNT of MOST
    set -- $(tools/stepdiff.sh --count | grep "^$step: ")
    before=$2 ours=$3 changes=$4 most=$6 theirs=$lab/$step/train.c
}

begin() {
    mkdir -p "$lab/$step"
    cp "$before" "$theirs"
    echo "$theirs is $before. Turn it into step $step:"
    sed '/^hint /d' "teach/lab/$step.txt"
    echo "$most lines are enough; ours changes $changes. How far are you? make check-lab"
}

hint() {
    sed -n "s/^hint $1: /     hint: /p" "teach/lab/$step.txt"
}

# failed NAME TEXT: also gives the hint of that name, and ends.
failed() {
    echo "no   $2"
    hint "$1"
    exit 1
}

build() {
    ln -sf "$PWD/config.yaml" "${1%/*/*}" # programs look for it above their folder
    make -s TRY="$1" "$1" >"$log/make" 2>&1 && return
    echo "no   it does not compile"
    grep 'error:' "$log/make" | sed 's|.*/\(train.c:\)|     \1|' | head -n 6
    hint build
    exit 1
}

check() {
    [ -f "$theirs" ] || { echo "$0: there is no $theirs yet: make lab-$step" >&2 && exit 2; }
    command -v python3 >/dev/null || { echo "$0: what your program does is judged by a program in Python: install python3" >&2 && exit 2; }
    rm -f "$lab/$step/done" # for make progress
    changed=$(diff "$before" "$theirs" | grep -c '^[<>]' || true)
    [ "$changed" -gt 0 ] || failed start "$theirs is still the program before"
    build "$lab/$step/train"
    echo "yes  it compiles"
    case $step in zero*) judge=judge_zero.py ;; *) judge=judge.py ;; esac
    python3 teach/lab/$judge "$step" "$lab/$step/train" "${ours%.c}" "$log" || exit
    if [ "$changed" -le "$most" ]; then
        echo "yes  $changed lines are changed, and up to $most are allowed"
    else
        echo "     $changed lines are changed, and $most are enough: $(hint budget | sed 's/ *hint: //')"
    fi
    touch "$lab/$step/done"
    echo "Done. Compare with ours: diff $theirs $ours"
}

list() {
    for text in teach/lab/0*.txt teach/lab/zero*.txt; do
        name=${text##*/} name=${name%.txt} state=open
        [ ! -e "$lab/$name/train.c" ] || state=begun
        [ ! -e "$lab/$name/done" ] || state='done'
        printf '%-6s %-6s %s\n' "$name" "$state" "$(sed -n '1s/^ *//p' "$text")"
    done
}

case ${1:-} in
list) list ;;
check)
    set -- check "${2:-$chosen}"
    latest=$(find "$lab" -mindepth 2 -maxdepth 2 -name train.c ! -path "$lab/trap_*" -exec ls -t {} + 2>/dev/null | head -n 1)
    [ -n "${2:-$latest}" ] || { echo "$0: nothing is begun: make lab-02a" >&2 && exit 2; }
    step_is "${2:-$(basename "$(dirname "$latest")")}"
    [ -n "${2:-}" ] || echo "checking $lab/$step (to check another one: teach/lab.sh check STEP)"
    check ;;
'' | -*) sed -n '2,5s/^# //p' "$0" >&2 && exit 2 ;;
*)  step_is "$1"
    if [ -e "$theirs" ]; then check; else begin; fi ;;
esac
