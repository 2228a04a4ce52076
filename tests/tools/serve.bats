#!/usr/bin/env bats
# tools/serve as its clients see it: good requests, bad ones, slow ones, too many. (What people see,
# the page, is make check-browser's.)

setup_file() {
    export RUN=$BATS_FILE_TMPDIR
    01_single_gpu/run.sh 2 0 --checkpoint-dir "$RUN" >/dev/null
}

setup() {
    [ -x tools/serve ] || skip "tools/serve is not built: no libmicrohttpd (./setup.sh installs it)"
}

serve() {
    run timeout 600 python3 -B tests/tools/serve.py "$RUN/cnn_digits.safetensors" "$1"
    echo "$output"
    [ "$status" -eq 0 ]
}

refused() { # STATUS WORDS OPTIONS...: one line with these words
    local expected=$1 words=$2
    shift 2
    run timeout 200 tools/serve "$@"
    echo "$output"
    [ "$status" -eq "$expected" ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"$words"* ]]
}

@test "serve answers JSON, PGM and PNG alike, and shows its page" {
    serve answers
}

@test "bad requests get a status and a sentence, and harm nobody" {
    serve refusals
}

@test "clients that are late are hung up on, those that keep asking are not" {
    serve late
}

@test "more clients than there are places wait for one" {
    serve crowd
}

@test "SIGTERM and Ctrl+C end it cleanly; a port in use is one line" {
    serve ends
}

@test "it listens on loopback, warns elsewhere, and refuses what is no address or model" {
    tools/serve "$RUN/cnn_digits.safetensors" --port 0 --bind 0.0.0.0 >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    for _ in $(seq 1000); do
        ! grep -q Serving "$BATS_TEST_TMPDIR/out" || break
        sleep 0.1
    done
    kill $!
    wait $!
    grep -q 'warning: --bind 0.0.0.0: whoever reaches this machine' "$BATS_TEST_TMPDIR/out"
    refused 1 "cannot listen on 203.0.113.1" "$RUN/cnn_digits.safetensors" --bind 203.0.113.1
    refused 2 "; it is an address of this machine" "$RUN/cnn_digits.safetensors" --bind "no such name"
    refused 2 "--port must be a whole number from 0 to 65535" "$RUN/cnn_digits.safetensors" --port 65536
    refused 1 "README.md" README.md
}
