#!/usr/bin/env bats
# make student-tree: the tree as students get it. The solutions are looked for by their own lines, not by the script's list.

setup_file() {
    export STUDENTS=$BATS_FILE_TMPDIR/students
    [ -n "$(git ls-files)" ] || return 0
    PROCESSORS=$(uname -m) make -s student-tree OUT="$STUDENTS" LABS="02b ring"
}

setup() {
    [ -d "$STUDENTS" ] || skip "git lists no files of this copy of the tree"
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
}

# What only who has solved the labs has written: the line, and a source of ours in which it is.
solutions() {
    cat <<'END'
02_multi_gpu_spawn/train_b_all_reduce.c all_reduce(pg, model->grads, model->numel, FLOAT32, REDUCE_MEAN);
02_multi_gpu_spawn/train_b_all_reduce.c broadcast(&pg, model.params, model.numel, FLOAT32, 0);
02_multi_gpu_spawn/train_b_all_reduce.c process_group_init(&pg, args, "localhost", master_port, rank, world_size, device.place);
02_multi_gpu_spawn/train_b_all_reduce.c train(int rank, int world_size, int master_port, const Args *args)
02_multi_gpu_spawn/train.c reducer_init(&reducer, args, &pg, model.grads
docs/answers/ring.c pass_on(pg, sum, count, arrived, count, type);
docs/answers/ring.c const int next = (rank + 2 * n - step - 2) % n;
common/comm/tcp/tcp_algorithms.c go_round(mesh, count, rank - 1, true, data, data);
END
}

# What becomes of a lab that comes into the tree is said for the grader and for the students' tree.
@test "each lab has points, ten, the capstone twenty, and a solution that is hidden" {
    for file in teach/lab/*.txt; do
        lab=$(basename "$file" .txt)
        [ "$lab" != hints ] || continue
        sum=$(awk -v lab="$lab" '$1 == lab { sum += $2 } END { print sum + 0 }' teach/class/points.txt)
        due=10
        [ "$lab" != capstone ] || due=20
        [ "$sum" = "$due" ] || { echo "lab $lab has $sum points, not $due: teach/class/points.txt says what its checks are worth" && false; }
    done
    python3 - <<'END'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, "teach/class")
import student_tree
import submission
for lab in submission.known_labs():
    plan = student_tree.Plan([lab])
    own = [path for path, why in {**plan.own, **plan.answers}.items() if why == lab]
    assert own, f"nothing of lab {lab} would be hidden: name its sources and its answer in teach/class/hidden.txt"
END
}

@test "no line of the solutions is in the students' tree, and what is given is" {
    solutions | while read -r source line; do
        grep -qF -- "$line" "$source" || { echo "$source no longer has: $line" && return 1; }
        ! grep -rnF -- "$line" "$STUDENTS" || return 1
    done
    [ ! -e "$STUDENTS/docs/answers/ring.c" ]
    cmp 02_multi_gpu_spawn/train_a_spawn.c "$STUDENTS/02_multi_gpu_spawn/train_a_spawn.c"
    cmp docs/01_single_gpu.md "$STUDENTS/docs/01_single_gpu.md"
    grep -q 'left out here: you write it in lab-02b' "$STUDENTS/docs/02_multi_gpu_spawn.md"
    grep -q '^given as compiled code: beyond/zero/train_zero1.c: it goes on from what you write in lab-02b$' "$STUDENTS/LEFT_OUT.txt"
}

@test "what the tests load is there, and what make builds for them" {
    for file in $(find "$STUDENTS/tests" -name '*.bats'); do
        sed -n 's/^load //p' "$file" | while read -r helper; do
            ls "$(dirname "$file")/$helper"* >/dev/null || { echo "$file loads $helper" && return 1; }
        done
    done
    make -s -n -C "$STUDENTS" check-proved MPI=0 CUDA=0 >/dev/null
}

@test "a solution that comes into the tree later is found, with its file and line" {
    mkdir "$BATS_TEST_TMPDIR/later"
    cp -r "$STUDENTS"/*.md "$STUDENTS/docs" "$STUDENTS/02_multi_gpu_spawn" "$BATS_TEST_TMPDIR/later"
    teach/class/student_tree.py --check "$BATS_TEST_TMPDIR/later" 02b ring
    printf 'One\n    $  all_reduce(pg,model-&gt;grads, model-&gt;numel, FLOAT32, REDUCE_MEAN); // so\n' >"$BATS_TEST_TMPDIR/later/docs/new.html"
    run teach/class/student_tree.py --check "$BATS_TEST_TMPDIR/later" 02b ring
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"docs/new.html:2: has a line of 02_multi_gpu_spawn/train_b_all_reduce.c: "* ]]
}

@test "a folder that is not empty, and a lab that is not there, are refused" {
    run make -s student-tree OUT="$STUDENTS" LABS=02b
    [[ $status -ne 0 && $output == *"is there and not empty: name a folder that is not there yet"* ]]
    run make -s student-tree OUT="$BATS_TEST_TMPDIR/new" LABS="02b 07"
    [[ $status -ne 0 && $output == *"'07' is none of "*"02b"* ]]
    [ ! -e "$BATS_TEST_TMPDIR/new" ]
    run make -s student-tree
    [[ $status -ne 0 && $output == *"say where to: make student-tree OUT=DIR"* ]]
}

@test "a lab begins with the student's program before it; what needs a source says that it is not there" {
    cd "$STUDENTS"
    export LAB=$BATS_TEST_TMPDIR/lab
    run teach/lab.sh 02c
    echo "$output"
    [[ $status -eq 2 && $output == *"lab-02c begins with your $LAB/02b/train.c, which is not there yet: make lab-02b" ]]
    run teach/lab.sh 02b
    [[ $status -eq 0 && $output == *"is 02_multi_gpu_spawn/train_a_spawn.c. Turn it"*"ours changes 31."* ]]
    echo '// mine' >>"$LAB/02b/train.c"
    run teach/lab.sh 02c
    [[ $status -eq 0 && $output == *"$LAB/02c/train.c is $LAB/02b/train.c. Turn it"*"ours changes 31."* ]]
    grep -q '^// mine' "$LAB/02c/train.c"
    cp 02_multi_gpu_spawn/train_b_all_reduce.c "$LAB/02b/train.c"
    run teach/lab.sh check 02b
    [[ $status -eq 1 && $output == *"is our compiled code, and not your program"* ]]
    run tools/stepdiff.sh 02b
    [[ $status -eq 2 && $output == *"train_b_all_reduce.c is given as compiled code: you write it in lab-02b."* ]]
    run tools/break.sh 02 's/x/y/'
    [[ $status -eq 2 && $output == *"train.c is given as compiled code: it goes on from what you write in lab-02b."* ]]
}

# bats test_tags=slow
@test "the students' tree builds, trains to our bytes, and judges what a student writes" {
    export LAB_SECONDS=600
    unset LAB MAKEFLAGS
    cp "${BUILD:-build}/parts" "$BATS_TEST_TMPDIR"
    cd "$STUDENTS"
    # shellcheck disable=SC2046 # choices of the build, a word each
    make -s $(grep -E '^(EXTRAS|MPI|CUDA|NCCL|CUDNN|MARCH)=' "$BATS_TEST_TMPDIR/parts") 02 03
    for tree in "$OLDPWD" "$STUDENTS"; do
        "$tree/02_multi_gpu_spawn/train" --nproc 2 --max-steps 12 --device cpu --threads 1 --checkpoint-dir "$BATS_TEST_TMPDIR/$(basename "$tree")"
    done
    diff -r "$BATS_TEST_TMPDIR/$(basename "$OLDPWD")" "$BATS_TEST_TMPDIR/students"
    teach/lab.sh 02b >/dev/null
    cp "$OLDPWD/02_multi_gpu_spawn/train_b_all_reduce.c" lab/02b/train.c
    run teach/lab.sh check 02b
    echo "$output"
    grep -qx EXTRAS=0 "$BATS_TEST_TMPDIR/parts" || [[ $status -eq 0 && $output == *"Done. lab/02b/train.c is what you hand in" ]]
    teach/lab.sh ring >/dev/null
    cp "$OLDPWD/docs/answers/ring.c" lab/ring/ring.c
    run teach/lab.sh check ring
    echo "$output"
    [[ $status -eq 0 && $output == *"its files equal ours, byte for byte"*"Done. lab/ring/ring.c is what you hand in" ]]
}
