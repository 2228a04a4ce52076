#!/bin/sh
# Usage: tools/prove.sh [steps] [options of train]     (make prove)
# Trains both models with --reduce-order fixed on 1, 2, 4 and 8 ranks, with more threads, and in a
# group that shrinks on the way, and compares all bits of the results: the weights and the optimizer's state.
# Exit status 1 if any differ. For contrast, the same with --reduce-order any.
set -eu
root=$(CDPATH='' cd "$(dirname "$0")/.." && pwd)
steps=46 # two epochs
case ${1:-} in '' | *[!0-9]*) ;; *) steps=$1 && shift ;; esac
case ${1:---} in
--help | [!-]* | -[!-]*) sed -n '2,5s/^# //p' "$0" >&2 && exit 2 ;;
esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' HUP INT TERM

# train DIR RANKS OPTIONS...: sets file to the run's checkpoint; if an option is given twice, the last counts.
# With this number of samples, any number of ranks trains on the same ones, in either order.
train() {
    dir=$scratch/$1 ranks=$2
    shift 2
    "$root/05_fault_tolerance/run.sh" "$ranks" --model "$model" --device cpu --backend tcp \
        --num-samples 1432 --global-batch-size 64 --lr 0.1 --epochs 1000 --max-steps "$steps" \
        --save-every 0 --resume none --checkpoint-dir "$dir" "$@" >"$scratch/log" 2>&1 ||
        { cat "$scratch/log" >&2 && exit 1; }
    file=$(echo "$dir"/*.safetensors)
}

# show ORDER RUN: a line of the table. The file is the length of a header in 8 bytes, the header,
# which names the number of ranks among other things, and the tensors.
show() {
    header=$(od -A n -t u8 -N 8 "$file" | tr -d ' ')
    hash=$(tail -c "+$((header + 9))" "$file" | sha256sum | cut -c 1-32)
    printf '%-7s %-6s %-22s %s\n' "$model" "$1" "$2" "$hash" | tee -a "$scratch/table"
}

# results ORDER: how many distinct results the model's runs have.
results() {
    awk -v model="$model" -v order="$1" '$1 == model && $2 == order && !seen[$NF]++' \
        "$scratch/table" | wc -l
}

printf '%-7s %-6s %-22s %s\n' model order ranks 'sha256 of weights and optimizer, first half'
status=0
for model in linear cnn; do
    for order in fixed any; do
        for ranks in 1 2 4 8; do
            train "$model.$order.$ranks" "$ranks" --reduce-order "$order" "$@"
            show "$order" "$ranks"
        done
        [ "$order" = fixed ] || continue
        train "$model.threads" 2 --reduce-order fixed "$@" --threads 3 --bucket-cap-mb 0.1
        show fixed '2, 3 threads each'
        train "$model.8" 8 --reduce-order fixed "$@" --max-steps $((steps / 3))
        train "$model.2" 2 --reduce-order fixed "$@" --max-steps $((steps * 2 / 3)) --resume "$file"
        train "$model.1" 1 --reduce-order fixed "$@" --resume "$file"
        show fixed '8, then 2, then 1'
    done
    echo "$model: distinct results: $(results fixed) in 6 runs with fixed," \
        "$(results any) in 4 runs with any"
    [ "$(results fixed)" -eq 1 ] || status=1
done
[ $status -eq 0 ] || echo 'prove: the runs with --reduce-order fixed should be identical' >&2
[ $status -ne 0 ] || echo 'all runs of a model with fixed are identical'
exit $status
