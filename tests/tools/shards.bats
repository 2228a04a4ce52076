#!/usr/bin/env bats
# tools/shards: the whole lists of torch's DistributedSampler, and its errors for bad input.

shards() {
    tools/shards "$@"
}

refused() { # WORDS OPTIONS...: status 2 and one line with these words
    local words=$1
    shift
    run shards "$@"
    echo "$output"
    [ "$status" -eq 2 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"$words"* ]]
}

@test "the lists are DistributedSampler's, by their SHA-256 as 64-bit integers" {
    python3 - <<'END'
import array, hashlib, json, subprocess

checked = 0
for line in open("tests/golden/sampler.jsonl"):
    want = json.loads(line)
    command = ["tools/shards", "--size", str(want["n"]), "--world-size", str(want["world"]),
               "--rank", str(want["rank"]), "--seed", str(want["seed"]),
               "--epoch", str(want["epoch"])]
    command += [] if want["shuffle"] else ["--no-shuffle"]
    command += ["--drop-last"] if want["drop_last"] else []
    rows = array.array("q", map(int, subprocess.check_output(command).split()))
    assert len(rows) == want["len"], command
    assert hashlib.sha256(rows.tobytes()).hexdigest() == want["sha256_le_int64"], command
    checked += 1
assert checked == 201
END
}

@test "underscores, = and no rows" {
    [ "$(shards --size=10 --world_size=2 --rank=1 --no_shuffle | tr '\n' ' ')" = "1 3 5 7 9 " ]
    [ "$(shards --size 5 --world-size 2 --rank 1 --no-shuffle --drop_last)" = "$(printf '1\n3')" ]
    run shards --size 0 --world-size 2 --rank 1
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "--help lists every option" {
    run shards --help
    [ "$status" -eq 0 ]
    for option in size world-size rank seed epoch no-shuffle drop-last; do
        [[ $output == *"--$option"* ]]
    done
}

@test "more ranks than rows: the last ones get nothing where none are repeated" {
    run tools/shards --size 1 --world-size 1000000 --rank 999999 --drop-last
    [ "$status" -eq 0 ]
    [ "$output" = "" ]
}

@test "bad input is refused in one line that names it" {
    refused "are needed"
    refused "are needed" --size 10 --rank 0
    refused "are needed" --size 10 --world-size 3
    refused "--size ten" --size ten
    refused "--size -1" --size=-1
    refused "--size 10x" --size 10x
    refused "--world-size 1_0" --world_size=1_0
    refused "--size :" --size=
    refused "--size 214748364" --size 214748364
    refused "--seed 18446744073709551616" --seed 18446744073709551616
    refused "--epoch 2147483648" --epoch 2147483648
    refused "--world-size 0" --world-size 0
    refused "--rank 3: of 3 ranks the last is 2" --size 10 --world-size 3 --rank 3
    refused "--size needs a value" --size
    refused "--ranks" --ranks 3
    refused "--drop-last=yes" --drop_last=yes
    refused "-xy" -xy
    refused "rows" --size 10 rows
}

@test "a full disk is an error" {
    run bash -c 'tools/shards --size 10 --world-size 1 --rank 0 2>&1 >/dev/full'
    [ "$status" -eq 1 ]
    [[ $output == *"cannot write"* ]]
}
