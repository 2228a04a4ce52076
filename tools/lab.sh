#!/bin/sh
# Usage: tools/lab.sh 02a|02b|02c|02|03|04|05  (make lab-02a: begin; the second time: check)
#        tools/lab.sh check [STEP]             (make check-lab: how far is it, with hints)
# Puts the program before a step into lab/STEP/, to be turned into the step by the learner.
set -eu
cd "$(dirname "$0")/.."
lab=${LAB:-lab} # the tests have theirs elsewhere
limit=${LAB_SECONDS:-60} # that a program may take
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
trap 'exit 130' INT TERM

# Sets what is known of a step: the program before it, our own of it, and the most lines to change.
step_is() {
    step=$1
    if [ ! -f "tools/lab/$step.txt" ]; then
        echo "$0: '$step' is none of$(printf ' %s' tools/lab/*.txt | sed 's|tools/lab/||g; s|\.txt||g')" >&2
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
    sed '/^need /d; /^hint /d' "tools/lab/$step.txt"
    echo "You may change $most lines; ours changes $changes. How far are you? make check-lab"
}

hint() {
    sed -n "s/^hint $1: /    hint: /p" "tools/lab/$step.txt"
}

# passed TEXT, or failed NAME TEXT: which also gives the hint of that name, and ends.
passed() {
    echo "yes  $1"
}
failed() {
    echo "no   $2"
    [ ! -s "$log/show" ] || head -n 6 "$log/show" | sed 's/^/     /'
    hint "$1"
    exit 1
}

build() {
    ln -sf "$PWD/config.yaml" "${1%/*/*}" # programs look for it above their folder
    make -s TRY="$1" "$1" >"$log/make" 2>&1 && return
    grep 'error:' "$log/make" | sed 's|.*/\(train.c:\)|\1|' >"$log/show" || true
    [ -s "$log/show" ] || tail -n 3 "$log/make" >"$log/show"
    failed build 'it does not compile'
}

# start PROGRAM OPTIONS...: on two ranks, by whatever starts it in this step.
start() {
    program=$1
    shift
    case $step in
    02*) timeout "$limit" "$program" --nproc 2 "$@" ;;
    03) timeout "$limit" 03_torchrun_env/ddprun --nproc-per-node 2 "$program" "$@" ;;
    *) timeout "$limit" 03_torchrun_env/ddprun --nproc-per-node 2 tools/lab/as_mpirun.sh "$program" "$@" ;;
    esac
}

# run PROGRAM FOLDER: a few steps; what is printed, and the losses, go to the folder. Step 05 is to go
# on with a second start where the first ended.
run() {
    program=$1 folder=$2
    mkdir -p "$folder"
    set -- --log-interval 4 --timeout $((limit / 3)) --metrics-dir "$folder" --checkpoint-dir "$folder/checkpoints"
    [ "$step" != 05 ] || set -- "$@" --save-every-steps 5
    [ "$step" != 05 ] || start "$program" "$@" --max-steps 7 >"$folder/out" 2>"$folder/err" || return
    start "$program" "$@" --max-steps 12 >>"$folder/out" 2>>"$folder/err"
}

# RANK STEP LOSS, one a line. (The metrics have a file for each rank.)
losses() {
    for rank in 0 1; do
        [ ! -e "$1/rank$rank.jsonl" ] ||
            sed "s/.*\"step\":\([0-9]*\).*\"loss\":\([^,}]*\).*/$rank \1 \2/" "$1/rank$rank.jsonl"
    done
}

# What was printed, but for numbers and for the order of the ranks' lines.
shape() {
    sed "s|$1|FOLDER|; s/[0-9][0-9.]*/#/g" "$1/out" | sort
}

# How a program ended, from its status.
reason() {
    if [ "$1" -eq 124 ]; then
        echo "it was stopped after $limit s"
    elif [ "$1" -gt 128 ]; then
        echo "killed by SIG$(kill -l $(($1 - 128)))"
    else
        echo "status $1"
    fi
}

check() {
    [ -f "$theirs" ] || { echo "$0: there is no $theirs yet: make lab-$step" >&2 && exit 2; }
    changed=$(diff "$before" "$theirs" | grep -c '^[<>]' || true)
    [ "$changed" -gt 0 ] || failed start "$theirs is still the program before"
    sed -n 's/^need \([^:]*\): /\1|/p' "tools/lab/$step.txt" >"$log/needs"
    while IFS='|' read -r word why; do
        grep -q "$word" "$theirs" && continue
        echo "no   the program does not mention $word yet" && echo "    hint: $why" && exit 1
    done <"$log/needs"
    passed "it has what the step needs"
    build "$lab/$step/train"
    passed "it compiles"
    run "${ours%.c}" "$log/ours" || { cat "$log/ours/err" >&2 && exit 1; }
    status=0
    run "$lab/$step/train" "$log/theirs" || status=$?
    if [ "$status" -ne 0 ]; then
        cat "$log/theirs/err" >"$log/show"
        failed run "it does not run to the end: $(reason "$status")"
    fi
    passed "it runs on two ranks"
    check_losses
    check_lines
    [ "$step" != 05 ] || check_stop
    [ "$step" = 02a ] || check_replicas # 02a's are meant to differ
    [ "$changed" -le "$most" ] || failed budget "$changed lines changed, $most would do"
    passed "$changed lines changed, of $most that may be"
    echo "Done. Compare with ours: diff $theirs $ours"
}

check_losses() {
    losses "$log/ours" >"$log/due"
    losses "$log/theirs" >"$log/got"
    paste "$log/due" "$log/got" | awk '
        $1 != $4 || $2 != $5 || ($3 - $6) ^ 2 > 1e-8 * $3 ^ 2 {
            print "rank " $1 ", step " $2 ": " ($6 == "" ? "nothing" : $6) ", not " $3; exit }' >"$log/show"
    [ ! -s "$log/show" ] || failed losses "other losses than ours"
    passed "the losses of both ranks are ours, step by step"
}

check_lines() {
    shape "$log/ours" >"$log/due"
    shape "$log/theirs" >"$log/got"
    diff "$log/due" "$log/got" | sed -n 's/^< /missing: /p; s/^> /too much: /p' >"$log/show" || true
    [ ! -s "$log/show" ] || failed lines "it prints other lines than ours (numbers are written as #)"
    passed "it prints what ours prints"
}

# Told to stop when both ranks have begun to train.
check_stop() {
    status=0
    timeout --preserve-status "$limit" 03_torchrun_env/ddprun --nproc-per-node 2 "$lab/$step/train" --model linear \
        --epochs 1000000 --save-every 0 --timeout $((limit / 3)) --checkpoint-dir "$log/stopped" >"$log/show" 2>&1 &
    trap 'kill $!; exit 130' INT TERM
    while kill -0 $! 2>/dev/null && [ "$(grep -c '\] Epoch ' "$log/show")" -lt 2 ]; do sleep 0.1; done
    kill $! 2>/dev/null || true
    wait $! || status=$?
    trap 'exit 130' INT TERM
    sed -i '/Epoch/d' "$log/show"
    [ "$status" -eq 75 ] || failed stop "told to stop by SIGTERM, it ends with status $status, not 75"
    passed "told to stop, all ranks leave with 75"
}

check_replicas() {
    mkdir "$log/watched"
    sed -f tools/lab/replicas.sed "$theirs" >"$log/watched/train.c"
    build "$log/watched/train"
    if ! run "$log/watched/train" "$log/watched"; then
        cat "$log/watched/err" >"$log/show"
        failed replicas 'at the end the ranks have other weights'
    fi
    passed "the replicas are the same, bit for bit"
}

case ${1:-} in
check)
    latest=$(find "$lab" -mindepth 2 -name train.c -exec ls -t {} + 2>/dev/null | head -n 1)
    [ -n "${2:-$latest}" ] || { echo "$0: nothing is begun: make lab-02a" >&2 && exit 2; }
    step_is "${2:-$(basename "$(dirname "$latest")")}"
    [ -n "${2:-}" ] || echo "checking $lab/$step (another: tools/lab.sh check STEP)"
    check ;;
'' | -*) sed -n '2,4s/^# //p' "$0" >&2 && exit 2 ;;
*)  step_is "$1"
    if [ -e "$theirs" ]; then check; else begin; fi ;;
esac
