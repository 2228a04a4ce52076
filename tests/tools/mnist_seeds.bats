#!/usr/bin/env bats
# bench/mnist_seeds.py: its table, from runs that are there already. (The runs themselves take hours.)

bats_require_minimum_version 1.5.0

@test "the mean and the spread over the seeds, for each number of ranks; what is there is not run again" {
    out=$BATS_TEST_TMPDIR/out.jsonl
    python3 - "$out" <<'END'
import json, sys
with open(sys.argv[1], "w") as file:
    for ranks, seed, first, last in (1, 0, 98.0, 99.1), (1, 1, 98.2, 99.2), (2, 0, 97.5, 99.0), (2, 1, 97.5, 99.0):
        print(json.dumps({"who": "ddp.c", "ranks": ranks, "seed": seed, "accuracy": [first, last],
                          "loss": [0.05, 0.02 + 0.01 * seed], "cpu": 100 + 2 * seed}), file=file)
END
    cp "$out" "$out.before"
    run -0 bench/mnist_seeds.py --who ddp.c --ranks 1,2 --seeds 2 --out "$out"
    [[ $output == *"| 1 | ddp.c | 2 | 98.10 ± 0.14 | 99.15 ± 0.07 | 99.10, 99.20 | 0.0250 | 101 |"* ]]
    [[ $output == *"| 2 | ddp.c | 2 | 97.50 ± 0.00 | 99.00 ± 0.00 | 99.00, 99.00 | 0.0250 | 101 |"* ]]
    cmp "$out" "$out.before"
}

@test "a PyTorch that is missing is named" {
    run -1 env -u TORCH_BIN bench/mnist_seeds.py --who PyTorch --ranks 1 --seeds 1 --out "$BATS_TEST_TMPDIR/none.jsonl"
    [[ $output == *"no PyTorch here: tests/against/torch/venv.sh gets it"* ]]
}
