#!/usr/bin/env bats
# A training whose weights become nan or infinite ends with one line, and no file has such weights.

setup() {
    OUT=$BATS_TEST_TMPDIR
    unset LOCAL_RANK RANK
}

# diverges COMMAND...: it ends with status 1 and reports that, once, on standard error.
diverges() {
    rm -rf "$OUT/c"
    status=0
    timeout 300 "$@" --model linear --lr 1000 --checkpoint-dir "$OUT/c" >"$OUT/out" 2>"$OUT/err" || status=$?
    output=$(cat "$OUT/out") stderr=$(cat "$OUT/err")
    echo "$output $stderr"
    [ "$status" -eq 1 ]
    [ "$(echo "$stderr" | grep -c 'fatal: training diverged: weights are nan or infinite after step [1-9]')" -eq 1 ]
    ! echo "$output" | grep -q 'Loss: -\?nan'
}

# Counts the numbers of a checkpoint's tensors that are not finite.
not_finite() {
    python3 - "$@" <<'END'
import json, struct, sys, math
for path in sys.argv[1:]:
    content = open(path, "rb").read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    for name, tensor in header.items():
        if name != "__metadata__" and tensor["dtype"] == "F32":
            begin, end = tensor["data_offsets"]
            values = struct.unpack(f"<{(end - begin) // 4}f", content[8 + length + begin : 8 + length + end])
            print(*(path for value in values if not math.isfinite(value)), sep="\n", end="")
END
}

@test "one rank, ranks that learn alone, and ranks that learn together" {
    diverges 01_single_gpu/run.sh 2 1
    [ ! -e "$OUT/c" ]
    diverges 01_single_gpu/run.sh 2 1 --dataset-size 512 --log-interval 1000 # seen at the end of the epoch
    [ ! -e "$OUT/c" ]
    diverges 02_multi_gpu_spawn/train_a_spawn 2 1 --nproc 1
    for program in train_b_all_reduce train_c_sampler train; do
        diverges 02_multi_gpu_spawn/$program 2 1 --nproc 3
        [[ "$stderr" == *"and the loss since step "*" on rank"* ]]
    done
    diverges 03_torchrun_env/run.sh 2 2 1
    diverges 04_slurm_multinode/nodes_here.sh 1 2 04_slurm_multinode/train 2 1
}

@test "step 05 does not start such a job again, and its snapshots are good" {
    diverges 05_fault_tolerance/run.sh 2 2 1 --save-every-steps 1 --keep 2
    [[ "$stderr" != *"attempt"* ]]
    [ "$(ls "$OUT/c" | grep -c snapshot)" -eq 2 ]
    [ -z "$(not_finite "$OUT"/c/*.safetensors)" ]
}

@test "--on-nan warn goes on to the end, and saves nothing that is not finite" {
    run 05_fault_tolerance/run.sh 2 2 1 --model linear --lr 1000 --save-every-steps 1 --keep 2 --checkpoint-dir "$OUT/c" --on-nan warn
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(echo "$output" | grep -c 'warning: training diverged')" -eq 1 ]
    [[ "$output" == *"is not written: weights are nan or infinite"* ]]
    [ "$(ls "$OUT/c" | grep -c snapshot)" -eq 2 ]
    [ -z "$(not_finite "$OUT"/c/*.safetensors)" ]
    run 01_single_gpu/run.sh 1 1 --model linear --lr 1000 --on-nan warn --checkpoint-dir "$OUT/d"
    [ "$status" -eq 0 ]
    [[ "$output" == *"d/linear_random.safetensors is not written"* ]]
    [ -z "$(ls "$OUT/d")" ]
}

@test "a resume passes over files that are not finite" {
    options="--model linear --epochs 4 --checkpoint-dir $OUT/c --save-every-steps 16 --keep 9"
    05_fault_tolerance/run.sh 2 $options --max-steps 48
    rm "$OUT/c/linear_random.safetensors"
    newest=$(ls -v "$OUT"/c/snapshot* | tail -n 1)
    python3 - "$newest" <<'END' # a nan, and no checksum
import json, struct, sys
content = open(sys.argv[1], "rb").read()
(length,) = struct.unpack("<Q", content[:8])
header = json.loads(content[8 : 8 + length])
header["__metadata__"].pop("tensors_checksum")
header["__metadata__"].pop("metadata_checksum")
data = bytearray(content[8 + length :])
begin = header["weight"]["data_offsets"][0]
data[begin : begin + 4] = struct.pack("<f", float("nan"))
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + data)
END
    [ "$(not_finite "$newest")" = "$newest" ]
    run 05_fault_tolerance/run.sh 2 $options
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"skipped: $newest: tensor \"weight\" has values that are no numbers"* ]]
    [[ "$output" == *"resumes from $OUT/c/epoch_1.safetensors: epoch 1, step 32"* ]]
}
