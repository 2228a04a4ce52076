#!/usr/bin/env bats
# data/get_mnist.sh against a mirror of four small files, by file: and by http.

FILES="train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte.gz
    t10k-labels-idx1-ubyte.gz"

setup() {
    tmp=$(mktemp -d)
    dir=$tmp/some/mnist
    mkdir "$tmp/mirror"
    for file in $FILES; do
        echo "this is $file" | gzip -n >"$tmp/mirror/$file"
    done
    (cd "$tmp/mirror" && sha256sum $FILES) >"$tmp/sums"
    export MNIST_URL=file://$tmp/mirror MNIST_SHA256SUMS=$tmp/sums
}

teardown() {
    [ -z "${server:-}" ] || kill "$server"
    rm -r "$tmp"
}

get_mnist() {
    timeout 200 data/get_mnist.sh "$@" 3>&- # bats waits for each process that holds its descriptor
}

# The four files as the mirror has them, and nothing else, hidden or not.
complete() {
    diff -r "$tmp/mirror" "$dir"
}

fails_saying() { # WORDS: no success, and one line of error
    run bash -c 'timeout 200 data/get_mnist.sh "$0" 2>&1 >/dev/null' "$dir"
    echo "$output"
    [ "$status" -ne 0 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"$1"* ]]
}

@test "gets all files, and the second time has nothing to do" {
    run get_mnist "$dir"
    [ "$status" -eq 0 ]
    [ "$(grep -c ^getting <<<"$output")" -eq 4 ]
    complete
    MNIST_URL=file:///nowhere run get_mnist "$dir"
    [ "$status" -eq 0 ]
    [ "$output" = "$dir is complete" ]
}

@test "replaces a damaged file and gets a missing one" {
    get_mnist "$dir"
    echo more >>"$dir/train-images-idx3-ubyte.gz"
    rm "$dir/t10k-labels-idx1-ubyte.gz"
    run get_mnist "$dir"
    [ "$status" -eq 0 ]
    [ "$(grep -c ^getting <<<"$output")" -eq 2 ]
    complete
}

@test "a mirror with other content is passed over" {
    cp -r "$tmp/mirror" "$tmp/other"
    for file in $FILES; do
        echo damaged >>"$tmp/other/$file"
    done
    MNIST_URL="file://$tmp/other file:///nowhere $MNIST_URL" get_mnist "$dir"
    complete
    rm -r "$dir"
    MNIST_URL=file://$tmp/other fails_saying "its checksum is wrong"
    [ ! -e "$dir" ] # nothing came, so there is no folder to hold it
    mkdir "$dir"
    MNIST_URL=file://$tmp/other fails_saying "its checksum is wrong"
    [ -d "$dir" ] # ours
}

@test "a mirror without the files: one line, and nothing is left" {
    rm "$tmp/mirror/t10k-images-idx3-ubyte.gz"
    fails_saying "cannot get t10k-images-idx3-ubyte.gz from $MNIST_URL"
    [ "$(ls -A "$dir")" = "$(printf 'train-images-idx3-ubyte.gz\ntrain-labels-idx1-ubyte.gz')" ]
}

@test "nobody listens there: one line, with curl and with wget" {
    MNIST_URL=http://127.0.0.1:1 fails_saying "http://127.0.0.1:1"
    without_curl
    MNIST_URL=http://127.0.0.1:1 PATH=$tmp/bin fails_saying "http://127.0.0.1:1"
}

@test "a folder that cannot be made: one line" {
    touch "$tmp/some"
    fails_saying "$tmp/some"
}

@test "--help; anything but the name of one folder" {
    run get_mnist --help
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == "Usage: data/get_mnist.sh [DIR] "* && $output == *MNIST_URL* ]]
    for arguments in --dir -x "$dir more" "-h -h"; do
        run get_mnist $arguments
        [ "$status" -eq 2 ]
        [ "${#lines[@]}" -eq 1 ]
    done
    [ ! -e "$dir" ]
}

@test "twenty runs, some at once and some as others end, that get nothing leave nothing" {
    for i in $(seq 20); do
        MNIST_URL=file:///nowhere get_mnist "$dir" >"$tmp/log.$i" 2>&1 &
        pids="${pids:-} $!"
        sleep 0.0$((RANDOM % 6))
    done
    for pid in $pids; do
        ! wait "$pid" || false
    done
    [ "$(cat "$tmp"/log.* | grep -c 'cannot get train-images')" -eq 20 ]
    [ ! -e "$dir" ]
}

@test "four runs at once download once" {
    for i in 1 2 3 4; do
        get_mnist "$dir" >"$tmp/log.$i" 2>&1 &
        pids="${pids:-} $!"
    done
    for pid in $pids; do
        wait "$pid"
    done
    [ "$(cat "$tmp"/log.* | grep -c ^getting)" -eq 4 ]
    complete
}

# A PATH with what the script needs except curl, which is $1, if given.
without_curl() {
    mkdir "$tmp/bin"
    for command in bash sh dirname sha256sum wget mktemp mkdir mv rm flock tr cat timeout sleep; do
        ln -s "$(command -v $command)" "$tmp/bin"
    done
}

@test "by http, with curl and with wget" {
    coproc python3 -u - "$tmp/mirror" 2>/dev/null 3>&- <<'END'
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.HTTPServer(("127.0.0.1", 0), handler)
print(server.server_port)
server.serve_forever()
END
    server=$COPROC_PID
    read -r -t 100 port <&"${COPROC[0]}"
    export MNIST_URL=http://127.0.0.1:$port/
    get_mnist "$dir"
    complete
    rm -r "$dir"
    without_curl
    PATH=$tmp/bin get_mnist "$dir"
    complete
}

# Starts a run whose curl hangs in the middle of the first file; waits until it does.
start_hanging_run() {
    without_curl
    printf '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\nprintf half >"$2"\nexec sleep 1000\n' \
        >"$tmp/bin/curl"
    chmod +x "$tmp/bin/curl"
    setsid env PATH="$tmp/bin" data/get_mnist.sh "$dir" >/dev/null 2>&1 3>&- &
    hanging=$!
    for i in $(seq 2000); do
        ! grep -qs half "$dir"/.new.*/* || return 0
        sleep 0.05
    done
    return 1
}

@test "stopped half way: nothing is left" {
    start_hanging_run
    [ -z "$(ls "$dir")" ] # nothing visible while it runs
    kill -TERM -- "-$hanging"
    wait "$hanging" || true
    [ -z "$(ls -A "$dir")" ]
}

@test "killed half way: the next run tidies up and goes on" {
    start_hanging_run
    kill -KILL -- "-$hanging"
    wait "$hanging" || true
    [ -n "$(ls -A "$dir")" ]
    get_mnist "$dir"
    complete
}

@test "the checksums are those of the real MNIST" {
    unset MNIST_SHA256SUMS
    for mnist in data/mnist ../shared/data/mnist; do
        [ ! -e $mnist/train-images-idx3-ubyte.gz ] || real=$PWD/$mnist
    done
    [ -n "${real:-}" ] || skip "no MNIST here; run data/get_mnist.sh"
    MNIST_URL=file://$real get_mnist "$dir"
    [ "$(ls "$dir" | wc -l)" -eq 4 ]
}
