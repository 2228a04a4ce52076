#!/usr/bin/env bats
# Injected faults in step 05: which rank detects them, and the diagnosis of tools/ddp_doctor.

bats_require_minimum_version 1.5.0
load ../../helpers/free_port

DDPRUN=03_torchrun_env/ddprun
DOCTOR=tools/ddp_doctor
RUN="05_fault_tolerance/train --model linear --dataset-size 256 --epochs 4 --save-every 0 --threads 1"

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    OUT=$BATS_TEST_TMPDIR
}

# ranks N OPTIONS...: a run on N ranks.
ranks() {
    local n=$1
    shift
    timeout 300 $DDPRUN --nproc-per-node "$n" $RUN --checkpoint-dir "$OUT/c" "$@"
}

# rows STATE...: the table shows these processes, rank by rank.
rows() {
    [ "$(awk '/^RANK/ { table = 1; next } /^$/ { table = 0 } table { print $3 }' <<<"$output" | paste -sd ' ')" = "$*" ]
}

@test "a run that goes well leaves a record that says so" {
    ranks 2 >/dev/null 2>&1
    run -0 --separate-stderr $DOCTOR "$OUT/c"
    rows finished finished
    [[ ${lines[-1]} == "Attempt 0, 2 ranks: All ranks have finished." ]]
    [[ ${lines[1]} =~ barrier\ #[0-9]+.*completed.*\ train\.c:[0-9]+\ \(process_groups\.c:[0-9]+\)$ ]]
    line=$(sed 's/.* train\.c:\([0-9]*\) .*/\1/' <<<"${lines[1]}")
    sed -n "${line}p" 05_fault_tolerance/train.c | grep -q 'process_group_destroy(&pg);'
    [ "$(ls "$OUT/c/flight" | paste -sd ' ')" = "rank0.flight rank1.flight" ]
}

@test "a rank that is not started: the others have records, whoever has the folder first" {
    local port pids=()
    port=$(free_port)
    for rank in 0 1; do # rank 1 finds the folder locked
        RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            $RUN --checkpoint-dir "$OUT/c" --timeout 300 >/dev/null 2>&1 3>&- &
        pids+=($!)
        for _ in {1..1000}; do
            [ ! -e "$OUT/c/flight/rank$rank.flight" ] || break
            sleep 0.1
        done
    done
    for _ in {1..1000}; do
        run $DOCTOR "$OUT/c"
        [[ $output != *"Missing: rank 2: "*"The others wait at the rendezvous"* ]] || break
        sleep 0.1
    done
    kill "${pids[@]}"
    echo "$output"
    [[ $output == *"Missing: rank 2: "*"The others wait at the rendezvous"* ]]
    wait # they end by themselves
}

@test "what a rank said when it gave up, the doctor says again" {
    run -1 ranks 2 --inject exit:1:5
    run -1 --separate-stderr $DOCTOR "$OUT/c"
    [[ $output == *"Rank 1 gave up: --inject exit: this rank gives up after step 5"*"Attempt 0, 2 ranks: "* ]]
    ! grep "Rank 0 gave up: --inject" <<<"$output"
}

@test "a killed rank is named by the others and by the doctor" {
    run -137 ranks 3 --inject kill:1:5
    [[ $output == *"rank 1 is gone: connection closed during "*"; see $DOCTOR $OUT/c"* ]]
    run -1 --separate-stderr $DOCTOR "$OUT/c"
    rows gone gone gone
    [[ $output == *" wait for rank 1. Rank 1 (process "*") is gone; its last call, "* ]] ||
        [[ $output == *" waits for rank"*" 1"*"Rank 1 (process "*") is gone; its last call, "* ]]
}

@test "a stopped rank is named while the others wait, and by them in time" {
    for timeout in 4 20 100; do # more, where the machine is too busy to look meanwhile
        rm -rf "$OUT/c"
        ranks 2 --inject stop:1:3 --timeout $timeout >"$OUT/said" 2>&1 3>&- &
        job=$!
        while kill -0 $job 2>/dev/null; do
            run --separate-stderr $DOCTOR "$OUT/c"
            [[ $output != *"rank 0 waits for rank 1. Rank 1 "*"is stopped: kill -CONT"* ]] || break 2
            sleep 0.05
        done
        wait $job || true
    done
    rows running stopped
    [[ $output == *"rank 0 waits for rank 1. Rank 1 (process "*" is stopped: kill -CONT lets it go on; its last"* ]]
    [ "$status" -eq 1 ]
    wait $job || true
    grep -q "rank 1 is missing in .* after $timeout s" "$OUT/said"
    run -1 --separate-stderr $DOCTOR "$OUT/c"
    [[ $output == *"rank 0 waits for rank 1. Rank 1 "* ]]
}

@test "a rank that gives up, and one that is slow" {
    run -1 ranks 2 --inject exit:1:4
    [[ $output == *"[rank 1/2] fatal: --inject exit: this rank gives up after step 4"* ]]
    for milliseconds in 100 300 1000; do # more, where the others are slow as well
        rm -r "$OUT/c"
        ranks 3 --inject slow:2:1:$milliseconds >/dev/null 2>&1
        run --separate-stderr $DOCTOR "$OUT/c"
        [[ ${lines[-1]} != *"Rank 2 is slow: "* ]] || break
    done
    [ "$status" -eq 1 ]
    rows finished finished finished
    [[ ${lines[-1]} == "Attempt 0, 3 ranks: Rank 2 is slow: "* ]]
}

@test "a flipped bit is found by --check-sync, a wrong gradient is not" {
    run -1 ranks 3 --inject bitflip:1:6 --check-sync 4
    [ "$(grep -c 'fatal: the replicas differ after step 8, first in weight: rank 1 differs from ranks 0 and 2$' <<<"$output")" -eq 3 ]
    run -0 --separate-stderr ranks 2 --inject corrupt-grad:1:6 --check-sync 1
    corrupted=$output
    run -0 --separate-stderr ranks 2 --check-sync 1 --resume none
    [ "$corrupted" != "$output" ]
}

@test "a fault happens in the first attempt only" {
    TORCHELASTIC_RESTART_COUNT=1 RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT=$(free_port) \
        timeout 300 $RUN --inject kill:0:1 --checkpoint-dir "$OUT/c"
    run -0 --separate-stderr $DOCTOR "$OUT/c"
    [[ ${lines[-1]} == "Attempt 1, 1 ranks: All ranks have finished." ]]
}

@test "--torch writes each rank's calls as Python reads them, in PyTorch's form" {
    ranks 2 --checkpoint-dir "$OUT/c" --max-steps 3
    run -0 $DOCTOR --torch "$OUT/torch" "$OUT/c"
    [ "$output" = "$OUT/torch: 2 of 2 ranks" ]
    python3 - "$OUT/torch" <<'END'
import pickle, sys
dumps = [pickle.load(open(f'{sys.argv[1]}/rank_{rank}', 'rb')) for rank in (0, 1)]
for dump in dumps:
    assert dump['version'] == '2.10' and dump['pg_config']['0'] == {'name': '0', 'desc': 'default_pg', 'ranks': '[0, 1]'}
    entries = dump['entries']
    ids = [entry['record_id'] for entry in entries]
    assert ids == sorted(set(ids)) and len(ids) > 3
    for entry in entries:
        assert entry['state'] == 'completed' and entry['retired'] is True and entry['is_p2p'] is False and entry['frames'] == []
        assert entry['time_created_ns'] <= entry['time_discovered_started_ns'] <= entry['time_discovered_completed_ns']
        assert entry['process_group'] == ('0', 'default_pg') and entry['profiling_name'].startswith('nccl:')
    assert [e for e in entries if e['profiling_name'] == 'nccl:all_reduce' and e['input_sizes'] == e['output_sizes'] and e['input_dtypes'] == ['Float']]
name = lambda dump: [(e['collective_seq_id'], e['profiling_name'], e['input_sizes'], e['output_sizes']) for e in dump['entries']]
assert name(dumps[0]) == name(dumps[1])
END
    run -1 $DOCTOR --torch /dev/null "$OUT/c"
    [[ $output == *"/dev/null"*"--torch"* ]]
}

@test "what is asked for wrongly" {
    run -2 ranks 2 --inject kill:1
    [ "$(grep -c 'inject must be up to 16 of KIND:RANK:STEP, KIND one of kill, stop' <<<"$output")" -eq 1 ]
    run -2 $DOCTOR a b
    [[ $output == *"\"b\" has no place here: "*"/ddp_doctor --help explains it" ]]
    run -2 $DOCTOR --verbose
    run -1 $DOCTOR "$OUT/nothing"
    [[ $output == *"fatal: no flight record in $OUT/nothing; "*": name the --checkpoint-dir of a run of step 05" ]]
    run -0 $DOCTOR --help
    [[ $output == "usage: tools/ddp_doctor [--torch OUT] [DIR]"* ]]
    run -1 bash -c "$DOCTOR '$OUT' >/dev/full"
}

@test "--help of the trainer names every option of this step, and step 04's names none of them" {
    for option in save-every-steps keep reduce-order check-sync inject; do
        echo "$option"
        05_fault_tolerance/train --help | grep -q "^  --$option "
        run ! grep -q "^  --$option " <(04_slurm_multinode/train --help)
    done
}

@test "without addr2line, and for a program that was built anew, there are offsets" {
    RUN=${RUN/05_fault_tolerance/$OUT}
    cp 05_fault_tolerance/train "$OUT/train"
    ranks 1 >/dev/null 2>&1
    run -0 --separate-stderr $DOCTOR "$OUT/c"
    [[ ${lines[1]} == *" train.c:"* ]]
    run -0 --separate-stderr env PATH=/nowhere $DOCTOR "$OUT/c"
    [[ ${lines[1]} =~ \ train\+0x[0-9a-f]+$ ]]
    touch "$OUT/train"
    run -0 --separate-stderr $DOCTOR "$OUT/c"
    [[ ${lines[1]} =~ \ train\+0x[0-9a-f]+$ ]]
}
