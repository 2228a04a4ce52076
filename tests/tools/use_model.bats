#!/usr/bin/env bats
# tools/evaluate, export and predict: their output for a model that has just been trained, and for
# invalid models, folders and pictures.

load ../helpers/free_port

setup_file() {
    export RUN=$BATS_FILE_TMPDIR/run
    export FILE=$RUN/cnn_digits.safetensors
    01_single_gpu/run.sh 2 0 --checkpoint-dir "$RUN" >"$BATS_FILE_TMPDIR/trained"
}

setup() {
    scratch=$BATS_TEST_TMPDIR
    unset RANK LOCAL_RANK WORLD_SIZE
}

refused() { # STATUS WORDS COMMAND...: one line with these words
    local expected=$1 words=$2
    shift 2
    run timeout 300 "$@"
    echo "$output"
    [ "$status" -eq "$expected" ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"$words"* ]]
}

# picture NAME PYTHON: writes a file; `rows` is the first of the digits' test images, a 0.
picture() {
    PYTHONPATH=tests/tools python3 -Bc "import pictures as p
label, rows = next(p.digits())
open('$scratch/$1', 'wb').write($2)"
}

@test "evaluate says of the test images what the training said" {
    tools/evaluate "$FILE" >"$scratch/told"
    trained=$(sed -n 's/^Test Epoch: 1 //p' "$BATS_FILE_TMPDIR/trained")
    [ "$(head -n 1 "$scratch/told")" = "digits: $trained" ]
}

@test "evaluate's tables add up: rows to the images of a class, the diagonal to what is correct" {
    tools/evaluate "$FILE" | PYTHONPATH=tests/tools python3 -c '
import collections, re, sys, pictures
lines = sys.stdin.read().splitlines()
correct, size = map(int, re.search(r"\((\d+)/(\d+)\)", lines[0]).groups())
there = collections.Counter(label for label, _ in pictures.digits())
rows = [line.replace(".", "0").split() for line in lines[4:14]]
assert [row[0] for row in rows] == list("0123456789")
matrix = [list(map(int, row[1:])) for row in rows]
assert [sum(row) for row in matrix] == [there[c] for c in range(10)]
assert sum(matrix[c][c] for c in range(10)) == correct and sum(there.values()) == size == 360
for line in lines[16:26]:
    c, images, recall, precision, accuracy = line.split()
    c, chosen = int(c), sum(row[int(c)] for row in matrix)
    hits = matrix[c][c]
    assert int(images) == there[c] and recall == "%.2f" % (100 * hits / there[c])
    assert precision == ("%.2f" % (100 * hits / chosen) if chosen else "-")
    assert accuracy == "%.2f" % (100 * (size - there[c] - chosen + 2 * hits) / size)
assert len(lines) == 26'
}

@test "evaluate is exact for any number of ranks, under any launcher" {
    tools/evaluate "$FILE" >"$scratch/alone"
    for ranks in 1 3 7; do
        timeout 300 03_torchrun_env/ddprun --nproc-per-node $ranks tools/evaluate "$FILE" --batch-size 50 >"$scratch/ranks"
        cmp "$scratch/alone" "$scratch/ranks"
    done
    command -v mpirun >/dev/null || skip "no mpirun"
    MASTER_PORT=$(free_port)
    export MASTER_PORT
    timeout 300 03_torchrun_env/mpirun.sh 2 tools/evaluate "$FILE" >"$scratch/ranks"
    cmp "$scratch/alone" "$scratch/ranks"
}

@test "evaluate refuses what it cannot test, in one line" {
    01_single_gpu/run.sh 1 0 --model linear --checkpoint-dir "$scratch" >/dev/null
    refused 1 "linear, which gives a number and no class" tools/evaluate "$scratch/linear_random.safetensors"
    refused 1 "No such file" tools/evaluate "$scratch/none"
    refused 1 "no safetensors file" tools/evaluate README.md
    refused 1 "model.safetensors" tools/evaluate docs
    head -c 100000 "$FILE" >"$scratch/cut"
    refused 1 "is damaged" tools/evaluate "$scratch/cut"
    refused 2 "usage: tools/evaluate FILE [options], see --help" tools/evaluate
    refused 2 "has no place here" tools/evaluate "$FILE" more
    refused 2 "must be one of auto|digits|mnist" tools/evaluate "$FILE" --dataset random
    refused 2 "--lr is no option" tools/evaluate "$FILE" --lr 1
    refused 2 "--split needs a value" tools/evaluate "$FILE" --split
    refused 2 "is missing" tools/evaluate "$FILE" --dataset mnist --data_dir="$scratch"
}

# with_metadata FILE KEY VALUE: a copy of the model with this metadata changed.
with_metadata() {
    python3 -c '
import json, struct, sys
source, target, key, value = sys.argv[1:]
data = open(source, "rb").read()
size, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + size])
header["__metadata__"].pop("metadata_checksum") # of the metadata as they were
header["__metadata__"][key] = value
if value == "-":
    del header["__metadata__"]
if key.startswith("only "):
    header["__metadata__"] = {key[5:]: value}
text = json.dumps(header).encode()
open(target, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])' "$FILE" "$@"
}

@test "normalisation and labels are the file's; without metadata they are MNIST's, and a line says so" {
    with_metadata "$scratch/none" model -
    run tools/evaluate "$scratch/none" --dataset digits
    [[ ${lines[0]} == *"does not say what it is: taken for a CNN trained on MNIST"* ]]
    [ "${lines[1]}" = "$(tools/evaluate "$FILE" | head -n 1)" ]
    with_metadata "$scratch/others" "only model" cnn # of another program
    run tools/evaluate "$scratch/others" --dataset digits
    [[ ${lines[0]} == *"does not say what it is: taken for a CNN trained on MNIST"* ]]
    with_metadata "$scratch/mean" mean 0.5
    [ "$(tools/evaluate "$scratch/mean" | head -n 1)" != "$(tools/evaluate "$FILE" | head -n 1)" ]
    with_metadata "$scratch/labels" class_labels zero,one,two,three,four,five,six,seven,eight,nine
    tools/predict "$scratch/labels" digits:7 | grep -q "^It is five, .*; the label says five$"
    with_metadata "$scratch/bad" std 0
    refused 1 '"std" in its metadata is "0"' tools/evaluate "$scratch/bad"
    with_metadata "$scratch/bad" mean nan
    refused 1 '"mean" in its metadata is "nan"' tools/evaluate "$scratch/bad"
    with_metadata "$scratch/bad" class_labels 0,1
    refused 1 "knows 2 classes" tools/evaluate "$scratch/bad"
    with_metadata "$scratch/bad" class_labels 0,,2
    refused 1 '"class_labels"' tools/evaluate "$scratch/bad"
    with_metadata "$scratch/bad" class_labels $'\e[2J,1,2,3,4,5,6,7,8,9'
    refused 1 "no plain text" tools/evaluate "$scratch/bad"
    with_metadata "$scratch/bad" class_labels $'\xc2\x9b2J,1,2,3,4,5,6,7,8,9'
    refused 1 "no plain text" tools/evaluate "$scratch/bad"
    with_metadata "$scratch/bad" model transformer
    refused 1 "is of model transformer" tools/evaluate "$scratch/bad"
}

@test "an export says what it is, and is a model like the checkpoint" {
    tools/export "$FILE" "$scratch/model/" | grep -q "model cnn, 1199882 parameters"
    [ "$(ls "$scratch/model" | tr '\n' ' ')" = "config.json load_in_pytorch.py model.safetensors " ]
    [ "$(ls "$scratch")" = model ]
    jq -e '.model == "cnn" and .input_shape == [1, 28, 28] and .mean == 0.1307 and .std == 0.3081 and
        .class_labels == ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] and .parameters == 1199882 and
        .training.epoch == 2 and .training.optimizer == "sgd" and .training.lr == 0.01' "$scratch/model/config.json"
    cmp <(tools/evaluate "$FILE") <(tools/evaluate "$scratch/model")
    tools/export "$scratch/model" "$scratch/again" >/dev/null
    cmp "$scratch/model/model.safetensors" "$scratch/again/model.safetensors"
    run 01_single_gpu/train --resume "$scratch/model/model.safetensors"
    [[ $output == *"has weights, but not the state of a run; use --init-from"* ]]
    01_single_gpu/train 1 --init-from "$scratch/model/model.safetensors" --max-steps 1 --checkpoint-dir "$scratch/on" >/dev/null
    printf '\1' | dd of="$scratch/model/model.safetensors" bs=1 seek=200000 conv=notrunc 2>/dev/null
    refused 1 "do not have the checksum" tools/evaluate "$scratch/model"
}

@test "an export replaces an export, and nothing else" {
    tools/export "$FILE" "$scratch/model" >/dev/null
    tools/export "$FILE" "$scratch/model" >/dev/null # again
    [ "$(ls "$scratch")" = model ]
    mkdir "$scratch/empty" "$scratch/diary"
    tools/export "$FILE" "$scratch/empty" >/dev/null
    echo 'Dear diary' >"$scratch/diary/monday"
    refused 1 "is no export: name another folder" tools/export "$FILE" "$scratch/diary"
    [ "$(cat "$scratch/diary/monday")" = "Dear diary" ]
    tools/export "$FILE" "$scratch/diary" --force >/dev/null 2>&1
    [ -e "$scratch/diary/config.json" ]
    [ "$(cat "$scratch"/diary.*.old/monday)" = "Dear diary" ]
    echo mine >"$scratch/model/notes" # kept, too
    tools/export "$FILE" "$scratch/model" >/dev/null 2>&1
    [ "$(cat "$scratch"/model.*.old/notes)" = mine ]
    refused 1 "cannot create a folder beside /proc/none: No such file or directory: name one elsewhere" \
        tools/export "$FILE" /proc/none
    refused 1 "is no export" tools/export "$FILE" README.md
    refused 2 "--force takes no value" tools/export "$FILE" "$scratch/x" --force=yes
    [ ! -e "$scratch/x" ]
}

@test "an export that fails leaves nothing behind" {
    mkdir "$scratch/full" "$scratch/busy"
    refused 1 "cannot write" bash -c "ulimit -f 100; exec tools/export '$FILE' '$scratch/full/model'"
    [ -z "$(ls -A "$scratch/full")" ]
    cd "$scratch/busy"
    refused 1 "cannot write .: " "$OLDPWD/tools/export" "$FILE" . --force
    [ -z "$(ls -A)" ]
}

@test "predict knows a number of a data set, and a picture of it, whatever its size and shade" {
    run tools/predict "$FILE" digits:0
    [ "$status" -eq 0 ]
    [[ $output == *">0 "*"It is 0, with a probability of "*"; the label says 0" ]]
    [[ $output != *$'\e'* ]] # plain ASCII in a pipe
    ! LC_ALL=C grep -q '[^ -~]' <<<"$output" || false
    picture paper.pgm 'p.pgm(p.on_paper(p.enlarge(rows, 10), 30))'
    picture night.pgm 'p.pgm(p.enlarge([[0] * 10] + [[0] + row + [0] for row in rows] + [[0] * 10], 10))'
    cmp <(tools/predict "$FILE" "$scratch/paper.pgm") <(tools/predict "$FILE" "$scratch/night.pgm")
    tools/predict "$FILE" "$scratch/paper.pgm" | grep -q '^It is 0, '
    refused 2 "digits has test images 0 to 359" tools/predict "$FILE" digits:360
    refused 2 "digits has test images" tools/predict "$FILE" digits:-1
    refused 1 "cannot read letters:7: No such file or directory: name a PGM or PNG file" tools/predict "$FILE" letters:7
}

@test "predict draws in colours on a terminal that has them, unless NO_COLOR is set" {
    on_terminal() { # VARIABLE=VALUE...
        env TERM=xterm-256color LC_ALL=C.UTF-8 "$@" python3 -c '
import pty, sys
sys.exit(pty.spawn(["tools/predict", sys.argv[1], "digits:0"]))' "$FILE" </dev/null
    }
    [[ $(on_terminal NO_COLOR=) == *$'\e[38;5;'* ]]
    [[ $(on_terminal NO_COLOR=1) != *$'\e'* ]]
    [[ $(on_terminal TERM=dumb) != *$'\e'* ]]
}

@test "pixels are normalised like rows: a test image as a file has the probability that it has as a number" {
    PYTHONPATH=tests/tools python3 -Bc '
import re, subprocess, sys, pictures
for n, (label, rows) in zip(range(5), pictures.digits()):
    path = sys.argv[2] + "/digit.pgm"
    with open(path, "wb") as file:
        file.write(pictures.pgm(pictures.as_mnist(rows)))
    said = [subprocess.check_output(["tools/predict", sys.argv[1], what], text=True) for what in ("digits:%d" % n, path)]
    found = [re.search(r"It is (\d), with a probability of ([\d.]+)%", text).groups() for text in said]
    print(label, found)
    assert found[0][0] == found[1][0] and abs(float(found[0][1]) - float(found[1][1])) < 0.5
' "$FILE" "$scratch"
}

@test "predict reads PNG of any kind" {
    picture paper.pgm 'p.pgm(p.on_paper(p.enlarge(rows, 10), 30))'
    tools/predict "$FILE" "$scratch/paper.pgm" >"$scratch/told"
    picture grey.png 'p.png(p.on_paper(p.enlarge(rows, 10), 30))'
    run tools/predict "$FILE" "$scratch/grey.png"
    [[ $output != *"made without libpng"* ]] || skip "built without libpng"
    picture colour.png 'p.png([[v for v in row for _ in "rgb"] for row in p.on_paper(p.enlarge(rows, 10), 30)], 2)'
    picture clear.png 'p.png([[b for v in row for b in (0, 0, 0, 255 - v)] for row in p.on_paper(p.enlarge(rows, 10), 30)], 6)'
    for name in grey colour clear; do
        cmp "$scratch/told" <(tools/predict "$FILE" "$scratch/$name.png")
    done
}

@test "predict refuses what is no picture of a digit, in one line" {
    picture white.pgm 'p.pgm([[255] * 50] * 50)'
    refused 1 "shows nothing" tools/predict "$FILE" "$scratch/white.pgm"
    refused 1 "neither PGM nor PNG" tools/predict "$FILE" README.md
    refused 1 "no regular file" tools/predict "$FILE" docs
    mkfifo "$scratch/pipe"
    refused 1 "no regular file" tools/predict "$FILE" "$scratch/pipe"
    truncate -s 33M "$scratch/large"
    refused 1 "larger than 32 MiB" tools/predict "$FILE" "$scratch/large"
    picture cut.png 'p.png(p.enlarge(rows, 10))[:-30]'
    refused 1 PNG tools/predict "$FILE" "$scratch/cut.png"
    picture huge.png 'p.png(rows)[:16] + bytes([0, 1, 0, 0, 0, 1, 0, 0]) + p.png(rows)[24:]'
    refused 1 PNG tools/predict "$FILE" "$scratch/huge.png"
    picture high.png 'p.png([[0] * 2] * 5000)'
    refused 1 PNG tools/predict "$FILE" "$scratch/high.png" ||
        refused 1 "2 x 5000 pixels, the sides must not exceed 4096" tools/predict "$FILE" "$scratch/high.png"
    picture wide.png 'p.png([[0] * 5000] * 2)'
    refused 1 PNG tools/predict "$FILE" "$scratch/wide.png" ||
        refused 1 "5000 x 2 pixels, the sides must not exceed 4096" tools/predict "$FILE" "$scratch/wide.png"
}

@test "a full disk is an error" {
    refused 1 "cannot write to standard output" bash -c "tools/predict '$FILE' digits:0 >/dev/full"
    refused 1 "cannot write to standard output" bash -c "tools/evaluate '$FILE' >/dev/full"
}
