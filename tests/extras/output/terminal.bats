# Lines on a terminal: colours, whole words, and a fault as one block. In a file or a pipe they stay as they are.

bats_require_minimum_version 1.5.0
load ../../steps/ddprun_helper
load ../../helpers/scaled_timeout

on_terminal() { # COLUMNS COMMAND...: without the bar, and without colours unless COLOURS is set
    timeout 200 python3 -B tests/helpers/on_terminal.py "$@" >"$OUT/shown" || status=$?
    python3 - "$OUT/shown" "${COLOURS:-}" <<'END'
import re, sys
shown = re.sub(r"\r\x1b\[K|\x1b\[\?7l[^\n]*?\x1b\[\?7h", "", open(sys.argv[1], newline="").read())
print(shown if sys.argv[2] else re.sub(r"\x1b\[[\d;]*m", "", shown), end="")
END
    return "${status:-0}"
}

fail_together() { # COLUMNS: rank 2 of 4 is killed, the others say the same
    on_terminal "$1" 05_fault_tolerance/ddprun --nproc-per-node 4 05_fault_tolerance/train 1 0 --max-steps 4 \
        --threads 1 --model linear --checkpoint-dir "$OUT/ck" --inject kill:2:2
}

@test "a tag has its rank's hue, places are dim, a fault is red, resumption is green" {
    COLOURS=1 run -0 on_terminal 80 env MAX_RESTARTS=1 05_fault_tolerance/run.sh 2 1 --max-steps 4 --threads 1 --model linear \
        --checkpoint-dir "$OUT/ck" --save-every-steps 1 --inject kill:1:3
    echo "$output"
    [[ $output == *$'\e[38;5;33m[rank 0/2]\e[0m'* && $output == *$'\e[38;5;94m[rank 1/2]\e[0m'* ]]
    [[ $output == *$'\e[38;5;33m[CPU0]\e[0m Epoch 0'* && $output == *$'\e[2m node 0 (GROUP_RANK) is host'* ]]
    [[ $output == *$'\e[38;5;160m fatal: rank 1 is gone'* && $output == *$'\e[38;5;160m✕ rank 1 was killed by SIGKILL'* ]]
    [[ $output == *$'\e[38;5;29m resumes from'* ]]
}

@test "NO_COLOR and a dumb terminal have no colours, a file gets the lines as they are" {
    NO_COLOR=1 COLOURS=1 run -137 fail_together 80
    [[ $output == *"✕ rank 2 was killed"* && $output != *$'\e['[0-9]* ]]
    rm -r "$OUT/ck"
    run -137 ddprun --nproc-per-node 4 05_fault_tolerance/train 1 0 --max-steps 4 --threads 1 --model linear \
        --checkpoint-dir "$OUT/ck" --inject kill:2:2
    [[ $output == *"Root cause"* && $output != *$'\e'* && $output != *✕* ]]
    [ "$(grep -c 'fatal: rank 2 is gone' <<<"$output")" = 3 ]
}

# Open MPI's ranks write to one, even if mpirun's output goes to a file.
@test "a terminal of no columns is none" {
    local long="$OUT/a_long_name_in_a_line_that_a_terminal_of_80_columns_would_break_into_two"
    COLOURS=1 run -0 on_terminal 0 03_torchrun_env/train 0 --model linear --checkpoint-dir "$long"
    [[ $output != *$'\e'* && $output == *"checkpoint saved at $long/epoch_0.safetensors"* ]]
}

@test "a training that was tested ends with its seconds, its accuracy and how to look at the model; in a file it does not" {
    local said="done in [0-9]+\.[0-9] s, accuracy [0-9.]+%; look at it: make && tools/evaluate $OUT/ck/cnn_digits.safetensors"
    for program in '01_single_gpu/train' '05_fault_tolerance/ddprun --nproc-per-node 2 05_fault_tolerance/train'; do
        rm -rf "$OUT/ck"
        # shellcheck disable=SC2086 # several words
        run -0 on_terminal 400 $program 1 0 --max-steps 2 --checkpoint-dir "$OUT/ck"
        echo "$output"
        [[ ${lines[-1]} =~ ^(train:|\[rank 0/2\])" "$said$ ]]
        [[ ${lines[-2]} == "Epoch 0 | Training checkpoint saved at $OUT/ck/cnn_digits.safetensors" ]]
        accuracy=$(grep -o 'Accuracy: [0-9.]*%' <<<"$output")
        [[ ${lines[-1]} == *" accuracy ${accuracy#* };"* ]]
    done
    run -0 on_terminal 400 01_single_gpu/train 1 0 --model linear --max-steps 2 --checkpoint-dir "$OUT/ck" # has no test
    [[ $output != *" look at it"* ]]
    01_single_gpu/train 1 0 --max-steps 2 --checkpoint-dir "$OUT/ck" >"$OUT/log" 2>&1
    grep -q 'saved at' "$OUT/log"
    ! grep 'look at it' "$OUT/log"
}

@test "no word is broken at 80 or 120 columns" {
    for columns in 80 120; do
        run -137 fail_together $columns
        echo "$output"
        [ "$(awk '{ print length($0) }' <<<"$output" | sort -n | tail -n 1)" -le $columns ]
        one_line=$(tr -s '\n ' ' ' <<<"$output")
        [[ $one_line == *"connection closed during"*"; see tools/ddp_doctor $OUT/ck"* ]]
        [[ $one_line == *"local rank 0 of 4 (LOCAL_RANK), cpu, cores "* ]]
        rm -r "$OUT/ck"
    done
}

@test "a fault is one block, and what several ranks say is said once" {
    run -137 fail_together 80
    echo "$output"
    [ "$(grep -c '^\[rank ./4\] fatal: ' <<<"$output")" = 1 ]
    block=$(sed -n '/^✕/,$p' <<<"$output")
    [[ $(sed -n 1p <<<"$block") == "✕ rank 2 was killed by SIGKILL" ]]
    [[ $(sed -n 2p <<<"$block") == "  who    rank 2 on node 0 ("*"), pid "* ]]
    [[ $(sed -n 3p <<<"$block") =~ ^"  since  "[0-9]{2}:[0-9]{2}:[0-9]{2} ]]
    [[ $(sed -n 4p <<<"$block") == "  others ranks 0, 1, 3 say the same: rank 2 is gone: connection closed"* ]]
    [[ $block == *"  ended  ranks 0, 1, 3: exit status 1, told to end by ddprun"* ]]
    [[ $block == *"  next   the job ends with status 137: not restarted without --max-restarts" ]]
}

@test "after a restart the block says that all ranks start again" {
    run -0 on_terminal 80 05_fault_tolerance/ddprun --nproc-per-node 3 --max-restarts 2 sh -c \
        '[ "$RANK$TORCHELASTIC_RESTART_COUNT" != 10 ] || exit 5; [ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || sleep 100'
    echo "$output"
    [[ $output == *"✕ rank 1 ended with exit status 5"*"  next   all ranks start again: attempt 1 (--max-restarts 2)"* ]]
}

@test "while a rank waits, the bar says for whom and since when, and shows no old estimate" {
    timeout 200 python3 -B tests/helpers/on_terminal.py 80 05_fault_tolerance/ddprun --nproc-per-node 4 05_fault_tolerance/train 1 0 \
        --max-steps 8 --threads 1 --checkpoint-dir "$OUT/ck" --inject stop:2:4 --timeout "$(scaled_timeout 8)" >"$OUT/shown" || true
    tr '\r' '\n' <"$OUT/shown" | grep -aoE '(epoch 0|fatal).*' >"$OUT/lines"
    cat "$OUT/lines"
    grep -qE 'epoch 0, waiting ([3-9]|[1-9][0-9]) s for rank 2 \[=+>? *\] [0-9]+/12' "$OUT/lines"
    ! sed -n '/waiting/,/fatal/p' "$OUT/lines" | grep 'left' || false
}
