#!/usr/bin/env bats
# make trap-..., make check-trap, make hint: broken programs, to be understood and fixed.

setup() {
    export LAB=$BATS_TEST_TMPDIR/lab LAB_SECONDS=600 # as many as a busy machine may want
}

# Fixes are judged by the journals of extras/watch.
needs_journals() {
    ! grep -qx EXTRAS=0 "${BUILD:-build}/parts" || skip "this build keeps no journals"
}

@test "a trap has a story, is run, judged, and solved" {
    teach/trap.py 03 >"$BATS_TEST_TMPDIR/said"
    grep -q 'story\|"My sampler' "$BATS_TEST_TMPDIR/said"
    run sh "$LAB/trap_03/run.sh" --epochs 1
    [ "$status" -eq 0 ]
    [[ $output == *"Train Epoch: 0 [64/96]"* && $output != *"Train Epoch: 1"* ]]
    needs_journals
    run teach/trap.py check
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"no   answer.txt has no rank yet"*"no   answer.txt has no cause yet"*"train.c is as it was"* ]]
    [[ $output == *"no   answer.txt has no symptom yet"* ]]
    shown=$(grep -m 1 '^Train Epoch: 0 .64/96' "$LAB/trap_03/output.txt")
    for given in "symptom: $shown" 'rank: 1' 'line: model_zero_grad(model);' 'cause: order'; do
        sed -i "s|^${given%%:*}:.*|$given|" "$LAB/trap_03/answer.txt"
    done
    run teach/trap.py check
    echo "$output" # how each of them is wrong
    [[ $output == *"no   no output so far shows the symptom: sh $LAB/trap_03/run.sh without options"* ]]
    [[ $output == *"no   rank 1 is not the only one"*"no   the line is the same in the right program"* ]]
    [[ $output == *"no   the cause order means that a rank makes the same collectives as the others, but in another order: "* ]]
    sh "$LAB/trap_03/run.sh" >/dev/null
    run teach/trap.py check
    [[ $output == *"yes  the symptom"*"no   rank 1 is not the only one"* ]]
    sed -i '/^[rlc][a-z]*:/s/:.*/:/' "$LAB/trap_03/answer.txt"
    sed -i 's/^rank:/rank: all/; s/^cause:/cause: same_order/; s/^line:/line: sampler_set_epoch(\&sampler, 0);/' "$LAB/trap_03/answer.txt"
    cp 02_multi_gpu_spawn/train_c_sampler.c "$LAB/trap_03/train.c"
    [ "$(teach/trap.py list | grep -c 'begun$')" -eq 1 ]
    run teach/trap.py check
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == "yes  the symptom"*"yes  the rank"*"yes  the fix"*"Solved."* ]]
    teach/trap.py list | grep -qx '03  solved'
    sed -i 's/Sampler sampler;/Sampler sampler/' "$LAB/trap_03/train.c"
    run teach/trap.py check 03
    [ "$status" -eq 1 ]
    [[ $output == *"no   it does not compile"* ]]
}

@test "no trap is solved by searching its source: whoever has not run it has no symptom" {
    python3 -B - <<'END'
import sys
from pathlib import Path
sys.path.insert(0, "teach")
import trap, trap_answer
for name in trap.names():
    one = trap.Trap(name)
    lines = {line for text in (one.broken(), one.ours()) for line in trap_answer.lines_of(text)}
    for output in None, "\n".join(lines):  # not run yet, or the source itself
        one.folder.mkdir(parents=True, exist_ok=True)
        if output:
            (one.folder / "output.txt").write_text(output)
        for line in lines:
            assert trap_answer.fault_of_symptom(one, line), (name, line)
END
}

# bats test_tags=slow
@test "two traps, by chance: the symptom, right and wrong answers, right and wrong fixes" {
    needs_journals
    tests/labs/try_traps.py --sample "$SEED" # all of them: make check-labs
}

@test "a hint is followed by a plainer one" {
    teach/trap.py 01 >/dev/null
    for i in 1 2 3 3; do
        teach/trap.py hint >"$BATS_TEST_TMPDIR/hint"
        [[ $(cat "$BATS_TEST_TMPDIR/hint") == "$i of 3: "* ]]
    done
}

@test "a trap is begun once, and one that is none is named" {
    teach/trap.py 01 >/dev/null
    run teach/trap.py 01
    [ "$status" -eq 2 ]
    [[ $output == *"trap_01 is there already"* ]]
    run teach/trap.py 99
    [ "$status" -eq 2 ]
    [[ $output == *"'99' is none of 01 02 "* ]]
    run teach/trap.py check 02
    [ "$status" -eq 2 ]
    [[ $output == *"trap 02 is not begun: make trap-02"* ]]
    rm -r "$LAB"
    run teach/trap.py check
    [[ $output == *"nothing is begun"* ]]
}

@test "each trap is one file of at most 40 lines, with three hints and a page; the script has at most 200 lines" {
    [ "$(wc -l <teach/trap.py)" -le 200 ]
    for file in teach/traps/*.txt; do
        name=$(basename "$file" .txt)
        echo "$name"
        [ "$(wc -l <"$file")" -le 40 ]
        [ "$(grep -c '^hint ' "$file")" -eq 3 ]
        [ "$(grep -c '^story ' "$file")" -ge 2 ]
        grep -q "^## $name: " docs/traps.md
        grep -q "](answers/traps.md#$name-" docs/traps.md
        grep -q "^## $name: " docs/answers/traps.md
        grep -q "trap.py $name " docs/answers/traps.md # the answer shows its symptom
    done
    [ "$(grep -c '^## ' docs/traps.md)" -eq "$(ls teach/traps/*.txt | wc -l)" ]
}

@test "the traps of the clinic are there, and those from 21 on have twins in PyTorch" {
    ls teach/traps/*.txt | sed 's|.*/\([0-9]*\).*|\1|' | sort -u >"$BATS_TEST_TMPDIR/numbers"
    seq -w 25 | diff - "$BATS_TEST_TMPDIR/numbers"
    for name in 21 22 23 24 25; do
        grep -q '^twin_fix ' "teach/traps/$name.txt"
        grep -q "trap_twin.py $name" docs/answers/traps.md      # its output is on the page
        grep -q "traps.py $name" tests/against/torch/traps.bats
    done
}
