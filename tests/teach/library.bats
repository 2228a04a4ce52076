#!/usr/bin/env bats
# make lab-ring ...: the learner writes a file of the library, which is judged rung by rung, and which programs then use.
# A few of the files that make check-labs tries.
load ../helpers/few_rows

setup_file() {
    few_rows
}

setup() {
    few+=(--batch-size 8)
    export LAB=$BATS_TEST_TMPDIR/lab LAB_SECONDS=600
    export LAB_OURS=$BATS_FILE_TMPDIR/ours # our own programs run once
}

# The solution as the learner's file; judged if there is a second argument.
solve() {
    teach/lab.sh "$1" >/dev/null
    cp "$(sed -n 's/^answer //p' "teach/lab/$1.txt")" "$LAB/$1/$1.c"
}

@test "a library lab begins with a skeleton, which names the rung that is missing" {
    for name in reconfigure reducer ring ring5 sampler snapshot store; do
        run teach/lab.sh $name
        [ "$status" -eq 0 ]
        [[ $output == "$LAB/$name/$name.c is the skeleton of lab-$name"*"Rung 1: "*"How far are you? make check-lab" ]]
        [[ $output != *"hint "* && $output != *"answer "* ]]
        cmp "teach/lab/$name/$name.c" "$LAB/$name/$name.c"
    done
    run teach/lab.sh check ring
    [ "$status" -eq 1 ]
    [[ $output == *"is still the skeleton"* ]]
    echo '// mine' >>"$LAB/ring/ring.c"
    run teach/lab.sh check # the one that was changed last
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == "checking $LAB/ring "*"yes  it compiles"*"no   rung 1 is not written yet"*"0 of 4 rungs are done" ]]
}

@test "an answer begins as its skeleton does: it has all that is given, in this order" {
    for answer in docs/answers/*.c; do
        name=$(basename "$answer" .c)
        # What an answer leaves out: comments, and the bodies that are not written yet.
        lost=$(diff "teach/lab/$name/$name.c" "$answer" | grep '^<' |
            grep -vE '^< (/\*| \*|    \(void\)|    die\(".* is not written yet"\);)' || true)
        [ "$lost" = "" ] || { echo "$answer has not: $lost" && false; }
    done
}

@test "the first wrong files of each library lab are rejected, with the right hint" {
    tests/labs/try_library.py --few
}

@test "our answers are accepted, and make mine trains with them to the same bytes" {
    run teach/mine.sh
    [ "$status" -eq 2 ]
    [[ $output == *"no library lab is done yet"* ]]
    solve sampler
    run teach/lab.sh check sampler
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"yes  rung 5: "*"yes  train with 3 ranks: its files equal ours"*"Done. Compare with common/data/sampler.c"* ]]
    solve ring # as if it had been judged: that is make check-labs
    touch "$LAB/ring/done"
    run teach/mine.sh 2 "${few[@]}" --max-steps 12
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == "Training on 2 ranks: "*"reducer ours, ring yours, ring5 ours, sampler yours"*"cnn_mnist.safetensors equals ours, byte for byte"* ]]
    sed -i 's/reduce_finish(own/(void)(own/; s/(void)(own.data, own.count, type, op, n)/(void)own/' "$LAB/ring/ring.c"
    touch -d '+5 seconds' "$LAB/ring/ring.c"
    run teach/mine.sh 2 "${few[@]}" --max-steps 3
    [ "$status" -eq 0 ]
    [[ $output == *"ring ours (yours has changed since it was judged: make check-lab LAB=ring)"* ]]
    touch -d '+9 seconds' "$LAB/ring/done"
    run teach/mine.sh 2 "${few[@]}" --max-steps 3
    [ "$status" -eq 1 ]
    [[ $output == *"cnn_mnist.safetensors differs from ours"* ]]
}

@test "the capstone begins with a skeleton and images, is judged rung by rung, and stands apart from make mine" {
    grep -qx EXTRAS=0 "${BUILD:-build}/parts" && skip "a build without extras keeps no journals"
    run teach/lab.sh capstone
    [ "$status" -eq 0 ]
    [[ $output == "$LAB/capstone/capstone.c is the skeleton of lab-capstone"*"Rung 6: 05.c"*"How far are you? make check-lab" ]]
    [ "$(stat -c %s "$LAB/capstone/data/train-images-idx3-ubyte")" -eq $((16 + 2000 * 28 * 28)) ]
    echo '// mine' >>"$LAB/capstone/capstone.c"
    run teach/lab.sh check capstone
    [ "$status" -eq 1 ]
    [[ $output == *"dataset_init is not written yet"*"0 of 6 rungs are done" ]]
    cp docs/answers/capstone.c "$LAB/capstone"
    sed -f docs/answers/capstone.sed 01_single_gpu/train.c >"$LAB/capstone/01.c"
    sed -f docs/answers/capstone.sed 02_multi_gpu_spawn/train.c | grep -v 'all_reduce(pg, rows' >"$LAB/capstone/02.c"
    run teach/lab.sh check
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == "checking $LAB/capstone "*"yes  rung 2: 01.c "*"no   it prints \"Worst class: "*"hint: shares of ranks do not average"*"2 of 6 rungs are done" ]]
    make -n -W common/base/args.h MINE="$LAB/capstone/capstone.c" TRIED="$LAB/capstone/01" OF="$LAB/capstone/01" "$LAB/capstone/01" |
        grep -F -- "-c -o ${BUILD:-build}/$LAB/capstone/01.o" # compiled anew with the library's headers
    touch "$LAB/capstone/done"
    run teach/mine.sh
    [[ $output == *"no library lab is done yet"* ]]
}

@test "with a store and snapshots of one's own, make mine trains to the same bytes, though a rank is killed" {
    for name in store snapshot; do
        solve $name # as if they had been judged
        touch "$LAB/$name/done"
    done
    run teach/mine.sh 2 "${few[@]}" --max-steps 12
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"snapshot yours, store yours"*"Rank 1 is killed after step 8"*"cnn_mnist.safetensors equals ours, byte for byte"* ]]
    grep -q 'resumes from .*snapshot_5' "$LAB/mine/mine.log"
    sed -i 's/^        optim->model->step = header.step;//' "$LAB/snapshot/snapshot.c"
    touch -d '+9 seconds' "$LAB/snapshot/done"
    run teach/mine.sh 2 "${few[@]}" --max-steps 12 --optimizer adam
    [ "$status" -eq 1 ]
    [[ $output == *"cnn_mnist.safetensors differs from ours"* ]]
}
