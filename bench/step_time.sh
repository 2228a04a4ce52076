#!/bin/sh
# Usage: bench/step_time.sh [NAME:GBIT:MICROSECONDS[:RANKS_PER_NODE]]...      (make scaling NETWORKS="mine:25:10:4" runs it, too)
# What would a training step take on up to 1,024 ranks? Measures the CNN's step on one rank, takes what
# scaling.sh and alpha_beta.sh have left in build/, and asks step_model.py: for this machine's own alpha and
# beta, and for networks, by their bandwidth and the time of a message.
set -eu
export LC_ALL=C.UTF-8 # awk and sort take and print 0.5, not 0,5
CDPATH='' cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 10Gbit:10:25 400Gbit:400:5 8x400Gbit:400:5:8
if ! [ -s build/scaling.txt ] || ! [ -s build/all_reduce.txt ]; then
    echo 'first: make scaling' >&2 && exit 1
fi
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM

# Forward, backward and the rest of a step in ms; and after what part of the backward pass fc1 is done.
# The loss comes twice in a step, at the end of the forward pass and at the beginning of the backward.
01_single_gpu/run.sh --threads 1 --batch-size 64 --max-steps 60 --epochs 100 --save-every 0 --log-interval 1000 \
    --checkpoint-dir "$work" --trace "$work/trace" >/dev/null
jq -r '[.traceEvents[] | select(.ph == "X" and .tid == 1)] | sort_by(.ts)[] | "\(.name) \(.ts) \(.ts + .dur)"' "$work/trace" |
    awk '
    $1 == "zero_grad" { begin = $2; losses = 0 }
    $1 == "loss" && ++losses == 1 { forward = $3 - begin }
    $1 == "loss" && losses == 2 { turn = $2 }
    $1 == "fc1" && losses == 2 { fc1 = $3 - turn }
    $1 == "conv1" && losses == 2 { backward = $3 - turn }
    $1 == "optim_step" { print ($3 - begin) / 1e3, forward / 1e3, backward / 1e3, fc1 / backward }' |
    sort -n >"$work/steps"
# The step in the middle stands for all.
awk '{ step[NR] = $0 } END { print step[int((NR + 1) / 2)] }' "$work/steps" >"$work/step"
read -r step forward backward ready <"$work/step"

# The default buckets: the tensors of fc1 and fc2, then those of the convolutions.
read -r alpha _ beta <build/all_reduce.txt # beyond the cache, as the large bucket is
networks=$(printf -- ' --network %s' "$@")
# shellcheck disable=SC2086,SC2046 # several words
bench/step_model.py --compute "$forward,$backward,$(awk "BEGIN { print $step - $forward - $backward }")" \
    --buckets "$ready:4724264,1:75264" --loopback "$(awk "BEGIN { print 1e6 * $alpha \",\" 1e9 * $beta }")" \
    --measured "$(awk '$1 == "tcp" { print $2 ":" 64e3 * $2 / $3 }' build/scaling.txt | paste -sd,)" $networks
