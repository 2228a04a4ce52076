#!/usr/bin/env bats
# The asides of beyond/local_sgd: what they learn, what they send, and when. Beside PyTorch:
# tests/against/torch/local_sgd.py.
load ../helpers/training
load ../helpers/few_rows

setup_file() {
    few_rows
}

setup() {
    scratch=$BATS_TEST_TMPDIR
}

# train NAME PROGRAM OPTIONS...: with files in $scratch/NAME.
train() {
    local name=$1
    shift
    run timeout 300 "$@" --nproc 2 --threads 1 --device cpu --save-every 0 --checkpoint-dir "$scratch/$name"
    [ "$status" -eq 0 ] || { echo "$*: $output" && return 1; }
}

@test "a round after each step, with plain SGD, is DDP within rounding; after eight it is not" {
    options="--max-steps 4 --batch-size 8 --optimizer sgd --momentum 0 --lr 0.05 --dropout off ${few[*]}"
    train ddp 02_multi_gpu_spawn/train $options
    for program in local_sgd diloco streaming; do
        PLAIN=1 train one tools/break.sh beyond/local_sgd/train_$program.c docs/edits/period_1.sed $options
        near "$scratch/one/cnn_mnist.safetensors" "$scratch/ddp/cnn_mnist.safetensors" 1e-5
        train eight beyond/local_sgd/train_$program $options
        ! near "$scratch/eight/cnn_mnist.safetensors" "$scratch/ddp/cnn_mnist.safetensors" 1e-5 || false
    done
}

@test "without an overlap, one fragment is DiLoCo to the last bit" {
    options="--max-steps 20 --batch-size 4 ${few[*]}"
    train diloco beyond/local_sgd/train_diloco $options
    PLAIN=1 train one tools/break.sh beyond/local_sgd/train_streaming.c 's/FRAGMENTS 4/FRAGMENTS 1/; s/OVERLAP 2/OVERLAP 0/' $options
    cmp "$scratch/one/cnn_mnist.safetensors" "$scratch/diloco/cnn_mnist.safetensors"
}

# sent PROGRAM: how many numbers rank 0 averages in each of 24 steps, a line a step; how many steps compute before it waits.
sent() {
    DDP_JOURNAL=$scratch/journal_$1 train "$1" "$2" --max-steps 24 --batch-size 4 --log-interval 1000 "${few[@]}"
    awk '/^step / { print sum + 0, waits; sum = 0; waits = "" }
        /^start .* all_reduce / && !/float64/ { split($4, count, "="); sum += count[2]; begun[$2] = steps }
        /^optim_step/ { steps++ }
        /^wait / && $2 in begun { waits = waits " " steps - begun[$2] }' "$scratch/journal_$1/rank0.txt" >"$scratch/sent"
}

@test "a round of eight steps sends an eighth of DDP's bytes, and four fragments a quarter of that at a time" {
    grep -qx EXTRAS=0 "${BUILD:-build}/parts" && skip "a build without extras keeps no journals"
    for kind in "ddp 02_multi_gpu_spawn/train 1 1" "local beyond/local_sgd/train_local_sgd 8 1" \
        "diloco beyond/local_sgd/train_diloco 8 1" "streaming beyond/local_sgd/train_streaming 8 4"; do
        read -r name program period fragments <<<"$kind"
        sent "$name" "$program"
        awk -v name="$name" -v period="$period" -v fragments="$fragments" '
            { sum += $1; if ($1 > most) most = $1 }
            END {
                print name ": " sum " numbers in " NR " steps, " most " in a step at most"
                exit NR != 24 || sum != 1199882 * NR / period || most > 1199882 / fragments + 1 || most < 1199882 / fragments - 1
            }' "$scratch/sent"
    done
    # the last program's: each fragment is waited for two steps after it has left
    [ "$(awk '{ $1 = ""; print }' "$scratch/sent" | xargs -n 1 | sort -u)" = 2 ]
    [ "$(awk '{ $1 = ""; print }' "$scratch/sent" | xargs -n 1 | wc -l)" -eq 11 ]
}

@test "all three learn" {
    for program in train_local_sgd train_diloco train_streaming; do
        train $program beyond/local_sgd/$program --epochs 2 --num-samples 480 --batch-size 8
        [ "$(sed -n 's/^Test Epoch: 1 .*Accuracy: \([0-9]*\).*/\1/p' <<<"$output")" -ge 70 ]
    done
}

@test "the figures of docs/plots/local_sgd.json: bytes by the formula, no step faster than its bytes, the page's table is theirs" {
    python3 -B - <<'END'
import json
data, parameters = json.load(open("docs/plots/local_sgd.json")), 1199882
for name, kinds in data["epochs"].items():
    for kind, rows in kinds.items():
        steps = rows[0]["steps"]
        rounds = -(-steps // 8)  # an epoch's end is one, too
        models = {"DDP": steps, "DDP, bf16": steps / 2, "local SGD": rounds, "DiLoCo": rounds, "streaming": steps // 2 / 4 + 1}[kind]
        due = 4 * parameters * models  # two ranks: 2 (n - 1) / n = 1
        print(name, kind, rows[0]["bytes"], due)
        assert abs(rows[0]["bytes"] / due - 1) < 0.001
        assert all(10 < row["accuracy"] <= 100 for row in rows)
for kind, times in data["step_ms"].items():
    share = {"DDP": 1, "DDP, bf16": 1 / 2}.get(kind, 1 / 8)
    for rate, (least, median, most) in times.items():
        assert least <= median <= most and median > 4 * parameters * share * 8 / (float(rate) * 1e6), (kind, rate)
        assert median > data["compute_ms"]
END
    tools/docs.py quotes docs/local_sgd.md
    sed 's/"0.1": \[ 396/"0.1": [ 39/; s/397.13/39.713/' docs/plots/local_sgd.json >"$scratch/other.json" # another file, another table
    ! diff <(bench/local_sgd.py --from docs/plots/local_sgd.json) <(bench/local_sgd.py --from "$scratch/other.json") || false
}
