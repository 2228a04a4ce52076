#!/bin/sh
# Usage: teach/lab.sh 02a|02b|02c|02|03|04|05|zero1|...|zero5|localsgd|diloco|tensor_parallel|ring|...|capstone  (make lab-02a: begin; the second time: check)
#        teach/lab.sh check [STEP]             (make check-lab: how far is it, with hints; make check-lab LAB=02b)
#        teach/lab.sh list                     (make lab: all of them: done, begun or open)
# Puts the program before a step into lab/STEP/, to be turned into the step by the learner; of a library lab (ring, sampler,
# reducer, store, snapshot, reconfigure) the skeleton of a file, which the programs then use; of the capstone also its images.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
lab=${LAB:-lab} chosen='' # the tests have theirs elsewhere
for name in "$lab" "0$lab"; do # make check-lab LAB=02b, or LAB=2b
    [ ! -f "teach/lab/$name.txt" ] || lab=lab chosen=$name
done
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
trap 'exit 130' HUP INT TERM

# Labs in the order of the walk: those of the steps, of the asides, and of the library.
names() {
    for path in teach/lab/0*.txt teach/lab/zero*.txt teach/lab/localsgd.txt teach/lab/diloco.txt teach/lab/tensor*.txt teach/lab/[!c]*/ teach/lab/capstone/; do
        name=${path%/} name=${name##*/} name=${name%.txt}
        [ ! -f "teach/lab/$name.txt" ] || echo "$name"
    done
}

# In a students' tree (teach/class): is this source one that the learner writes?
is_given_compiled() {
    grep -qs '^/\* Given as compiled code: ' "$1"
}

# Sets the variables of a step: the program before it, our version of it, and the most lines to change.
step_is() {
    step=$1
    [ ! -f "teach/lab/0$step.txt" ] || step=0$step
    if [ ! -f "teach/lab/$step.txt" ]; then
        echo "$0: '$step' is none of$(names | sed 's/^/ /' | tr -d '\n')" >&2
        exit 2
    fi
    if [ -d "teach/lab/$step" ]; then # a library lab
        before=teach/lab/$step/$step.c theirs=$lab/$step/$step.c most=''
        ours=$(sed -n 's/^answer //p' "teach/lab/$step.txt")
        return
    fi
    # shellcheck disable=SC2046 # NAME: BEFORE OURS COUNT of MOST
    set -- $(tools/stepdiff.sh --count "$step")
    before=$2 ours=$3 changes=$4 most=$6 theirs=$lab/$step/train.c
    ! is_given_compiled "$before" || from_previous
}

# The lab begins with what the learner wrote in the lab before, and changes are counted from there.
from_previous() {
    previous=$(tools/stepdiff.sh --pairs | while read -r name _ program _; do
        if [ "$program" = "$before" ] && [ -f "teach/lab/${name%:}.txt" ]; then echo "${name%:}"; fi
    done)
    before=$lab/$previous/train.c
    [ ! -f "$lab/$step/before" ] || before=$lab/$step/before
    [ -f "$before" ] || { echo "$0: lab-$step begins with your $before, which is not there yet: make lab-$previous" >&2 && exit 2; }
}

begin() {
    mkdir -p "$lab/$step"
    cp "$before" "$theirs"
    [ -z "${previous:-}" ] || cp "$before" "$lab/$step/before"
    if [ -z "$most" ]; then
        [ "$step" != capstone ] || python3 teach/lab/judge_capstone.py --data "$lab/capstone/data"
        header=$(find "teach/lab/$step" -name "$step.h") # others implement a header of the library
        echo "$theirs is the skeleton of lab-$step${header:+; $header is its header}."
        sed '/^hint /d; /^chapter /d; /^answer /d; s/^rung /  Rung /' "teach/lab/$step.txt"
        echo "How far are you? make check-lab"
        return
    fi
    echo "$theirs is $before. Turn it into step $step:"
    sed '/^hint /d; /^chapter /d; /^judge /d' "teach/lab/$step.txt"
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
    unknown=$(sed -n "s/.*implicit declaration of function [^A-Za-z_]*\([A-Za-z0-9_]*\).*/\1/p" "$log/make" | head -n 1)
    if [ -n "$unknown" ]; then # which header has it?
        header=$(grep -lE "^[A-Za-z].*[ *]$unknown\(" common/*/*.h common/*/*/*.h launcher/*.h 0?_*/*.h 05_*/*/*.h beyond/*/*.h 2>/dev/null | head -n 1)
        echo "     hint: $unknown is declared in a header that is not included: ${header:-"\"man $unknown\" names it (of atoi and getenv it is stdlib.h)"}"
        exit 1
    fi
    clash=$(sed -n "s/.*conflicting types for [^A-Za-z_]*\([A-Za-z0-9_]*\).*/\1/p" "$log/make" | head -n 1)
    [ -z "$clash" ] || { echo "     hint: a header that is included declares another $clash: give yours another name, or the same arguments" && exit 1; }
    hint build
    exit 1
}

compare() {
    if is_given_compiled "$ours" || [ ! -f "${ours%% *}" ]; then echo "Done. $theirs is what you hand in"; else echo "Done. Compare with $1"; fi
}

check() {
    [ -f "$theirs" ] || { echo "$0: there is no $theirs yet: make lab-$step" >&2 && exit 2; }
    command -v python3 >/dev/null || { echo "$0: what your program does is judged by a program in Python: install python3" >&2 && exit 2; }
    rm -f "$lab/$step/done" # for make progress
    ! is_given_compiled "$theirs" || { echo "no   $theirs is our compiled code, and not your program" && exit 1; }
    changed=$(diff "$before" "$theirs" | grep -c '^[<>]' || true)
    if [ -z "$most" ]; then
        [ "$changed" -gt 0 ] || { echo "no   $theirs is still the skeleton: begin with rung 1" && exit 1; }
        ln -sf "$PWD/config.yaml" "$lab"
        case $step in capstone) judge=judge_capstone.py more='' ;; reconfigure) judge="library.py $step" more='' ;; *) judge="library.py $step" more='. make mine trains with all that you have written' ;; esac
        # shellcheck disable=SC2086 # the judge, and the lab
        python3 teach/lab/$judge "$theirs" "$log" || exit
        touch "$lab/$step/done"
        compare "$ours$more"
        return
    fi
    [ "$changed" -gt 0 ] || failed start "$theirs is still the program before"
    build "$lab/$step/train"
    echo "yes  it compiles"
    judge=$(sed -n 's/^judge //p' "teach/lab/$step.txt") # of an aside; the steps have one together
    python3 "teach/lab/${judge:-judge}.py" "$step" "$lab/$step/train" "${ours%.c}" "$log" || exit
    if [ "$changed" -le "$most" ]; then
        echo "yes  $changed lines are changed, and up to $most are allowed"
    else
        echo "     $changed lines are changed, and $most are enough: $(hint budget | sed 's/ *hint: //')"
    fi
    touch "$lab/$step/done"
    compare "ours: diff $theirs $ours"
}

list() {
    for name in $(names); do
        state=open
        [ ! -e "$lab/$name/train.c" ] && [ ! -e "$lab/$name/$name.c" ] || state=begun
        [ ! -e "$lab/$name/done" ] || [ -n "$(find "$lab/$name" -name '*.c' -newer "$lab/$name/done")" ] || state='done'
        text=$(grep '^  ' "teach/lab/$name.txt" | tr -s ' \n' ' ')
        printf '%-15s  %-5s  %s.\n' "$name" "$state" "$(echo "${text%%. *}" | sed 's/^ //; s/[. ]*$//')"
    done
}

case ${1:-} in
list) list ;;
check)
    set -- check "${2:-$chosen}"
    latest=$(find "$lab" -mindepth 2 -maxdepth 2 -name '*.c' ! -path "$lab/trap_*" -exec ls -t {} + 2>/dev/null | head -n 1)
    [ -n "${2:-$latest}" ] || { echo "$0: nothing is begun: make lab-02a" >&2 && exit 2; }
    step_is "${2:-$(basename "$(dirname "$latest")")}"
    [ -n "${2:-}" ] || echo "checking $lab/$step (to check another one: teach/lab.sh check STEP)"
    check ;;
'' | -*) sed -n '2,6s/^# //p' "$0" >&2 && exit 2 ;;
*)  step_is "$1"
    if [ -e "$theirs" ]; then check; else begin; fi ;;
esac
