#!/usr/bin/env bats
# setup.sh and doctor on a simulated machine: its PATH holds the parts we want it to have, its
# apt-get notes what it is asked for and brings back what was hidden.

programs='bats prove python3 pgrep aspell ctags gnuplot jq ip curl wget mpicc mpirun clang g++ qemu-aarch64 aarch64-linux-gnu-gcc'

setup_file() {
    bin=$BATS_FILE_TMPDIR/bin
    mkdir "$bin"
    # ccache's cc looks for the compiler in PATH, so the compiler itself is taken. It is asked the same again and again.
    compiler=$(type -aP cc | while read -r path; do [[ $(realpath "$path") == *ccache ]] || echo "$path"; done | head -n 1)
    # shellcheck disable=SC2016 # the script's variables, not ours
    script cc 'text=$(cat) kept='"$BATS_FILE_TMPDIR"'/$(echo "$* $text" | tr -c A-Za-z0-9. _)
[ -e "$kept.status" ] || { echo "$text" | '"$compiler"' "$@" >"$kept" 2>/dev/null && echo 0 || echo 1; } >"$kept.status"
cat "$kept"; read -r status <"$kept.status"; exit "$status"'
    for program in make sh env dirname sed grep head tail tr id find wc cat mv nproc getconf ls mktemp rm readlink sort fold stty timeout; do
        ln -s "$(command -v $program)" "$bin/$program"
    done
    for program in $programs; do
        script $program "echo '$program version 1.10.0'"
    done
    script sudo 'exec "$@"'
    # shellcheck disable=SC2016 # the script's variables, not ours
    script no-zlib 'text=$(cat); case $text in *zlib.h*) exit 1 ;; esac; echo "$text" | exec cc "$@"'
}

setup() {
    bin=$BATS_TEST_TMPDIR/bin asked=$BATS_TEST_TMPDIR/asked
    unset TYPE
    cp -a "$BATS_FILE_TMPDIR/bin" "$bin"
    export OS_RELEASE=$BATS_TEST_TMPDIR/os-release
    echo ID=debian >"$OS_RELEASE"
    script apt-get "echo \"\$*\" >>$asked; [ \$1 != install ] || mv $bin/hidden-\$3 $bin/\$3"
}

# script NAME TEXT: a program of the simulated machine. It replaces a link, and never writes through it.
script() {
    rm -f "$bin/$1"
    printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"
    chmod +x "$bin/$1"
}

# there STATUS COMMAND...: what the command prints, and with which status it ends, on that machine.
there() {
    expected=$1
    shift
    run env PATH="$bin" "$@"
    echo "$output"
    [ "$status" -eq "$expected" ]
}

hide() {
    mv "$bin/$1" "$bin/hidden-$1"
}

@test "where all is there, setup says so and installs nothing" {
    there 0 ./setup.sh
    [ "$output" = "setup: everything is there; now type make" ]
    [ ! -e "$asked" ]
}

@test "what is missing is named and installed" {
    hide jq
    there 0 ./setup.sh
    [ "${lines[0]}" = "setup: jq is missing (tests): without it, no 'make test', and not all of chapter 01: it reads JSON" ]
    [ "${lines[2]}" = "setup: everything is there; now type make" ]
    [ "$(cat "$asked")" = "$(printf 'update\ninstall -y jq')" ]
}

# on_terminal COLUMNS STATUS COMMAND...: like there, on a terminal on which $TYPE is typed.
on_terminal() {
    columns=$1 expected=$2
    shift 2
    run timeout 60 python3 -B tests/helpers/on_terminal.py "$columns" env PATH="$bin" "$@"
    echo "$output"
    [ "$status" -eq "$expected" ]
}

@test "on a terminal setup names the packages, and asks before it installs them; where nothing is missing it does not" {
    on_terminal 80 0 ./setup.sh
    [ "$output" = "setup: everything is there; now type make" ]
    hide jq
    hide gnuplot
    for answer in $'n\n' $'what?\n' $'\4'; do # the last is Ctrl-D
        TYPE=$answer on_terminal 200 1 ./setup.sh --checks
        [[ $output == *$'\nsetup: apt-get install -y bubblewrap gnuplot-nox jq spin uidmap\nsetup: go ahead? [Y/n; Y after 60 s] '* ]]
        [ "${lines[-1]#*\[Y/n; Y after 60 s] }" = "setup: nothing is installed; missing: jq, gnuplot, bubblewrap, uidmap, Spin. './setup.sh --checks --check' says what for, './setup.sh --checks -y' gets it" ]
    done
    [ ! -e "$asked" ]
    mv "$bin/hidden-gnuplot" "$bin/gnuplot"
    for answer in $'\n' $'y\n' $'Yes\n'; do
        TYPE=$answer on_terminal 80 0 ./setup.sh
        [ "${lines[-1]}" = "setup: everything is there; now type make" ]
        [ "$(cat "$asked")" = "$(printf 'update\ninstall -y jq')" ]
        hide jq
        rm "$asked"
    done
    script timeout 'exit 124' # a minute without an answer
    on_terminal 80 0 ./setup.sh
    [ "$(cat "$asked")" = "$(printf 'update\ninstall -y jq')" ]
}

@test "with -y, before or after the kind, and where no terminal can answer, setup does not ask" {
    for options in '-y --checks' '--checks -y'; do
        # shellcheck disable=SC2086 # several words
        on_terminal 80 0 ./setup.sh $options
        [[ $output != *"go ahead"* ]]
        [ "$(cat "$asked")" = "$(printf 'update\ninstall -y bubblewrap uidmap spin')" ]
        rm "$asked"
    done
    hide jq
    for redirected in '</dev/null' '| cat'; do
        on_terminal 80 0 sh -c "./setup.sh $redirected"
        [[ $output != *"go ahead"* ]]
        [ "$(cat "$asked")" = "$(printf 'update\ninstall -y jq')" ]
        hide jq
        rm "$asked"
    done
}

@test "setup --check only reports, and fails where a required part is missing" {
    hide jq
    there 0 ./setup.sh --check
    [[ $output == *"jq is missing (tests)"* ]]
    there 1 CC=no-zlib ./setup.sh --check
    [[ $output == *"zlib is missing (required)"* ]]
    [ ! -e "$asked" ]
}

@test "setup --minimal asks for what is required only" {
    hide jq
    there 1 CC=no-zlib ./setup.sh --minimal # our apt-get has no zlib
    [ "$(cat "$asked")" = "$(printf 'update\ninstall -y zlib1g-dev')" ]
    [[ $output != *jq* ]]
}

@test "setup --checks adds what the slower checks need, and nothing else does" {
    hide clang # bubblewrap, uidmap and Spin are not there either
    there 0 ./setup.sh
    [ ! -e "$asked" ]
    there 0 ./setup.sh --checks
    [ "$(cat "$asked")" = "$(printf 'update\ninstall -y clang bubblewrap uidmap spin')" ]
}

@test "setup --slurm installs Slurm, whose daemons neither run then nor start with the machine" {
    export SBIN=/nowhere
    script slurmctld ''
    hide slurmctld
    script systemctl "[ \$1 = cat ] || echo \"systemctl \$*\" >>$asked; [ \$2 = munge ]" # it runs for others
    there 0 ./setup.sh
    [ ! -e "$asked" ]
    there 0 ./setup.sh --slurm
    [ "$(cat "$asked")" = "update
install -y slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge
systemctl disable --now slurmctld slurmd" ]
}

@test "setup --browser adds what looks at the page of tools/serve" {
    script chromium ''
    script firefox-esr ''
    hide chromium
    there 0 ./setup.sh
    [ ! -e "$asked" ]
    there 0 ./setup.sh --browser
    [ "$(cat "$asked")" = "$(printf 'update\ninstall -y chromium')" ]
    hide firefox-esr
    there 0 ./setup.sh --browser
    [[ $(cat "$asked") == *"install -y firefox-esr" ]]
}

@test "setup --play adds what compiles the programs for a browser" {
    script wasm-ld ''
    script wasm-opt 'echo version 108'
    there 0 ./setup.sh --play --check
    hide clang
    there 0 ./setup.sh --play
    [ "$(cat "$asked")" = "$(printf 'update\ninstall -y clang wasi-libc libclang-rt-dev-wasm32')" ]
}

@test "Ubuntu's snap of Chromium is not installed: setup and doctor say what to get" {
    printf 'ID=ubuntu\nUBUNTU_CODENAME=noble\n' >"$OS_RELEASE"
    script firefox ''
    script chromium-browser 'echo "requires the chromium snap to be installed"; exit 1'
    there 0 ./setup.sh --browser
    [[ $output == "setup: Chromium is missing (browser): without it, no 'make check-browser'; to get it by hand: google.com/chrome (Ubuntu has Chromium only as a snap)"* ]]
    [ "${#lines[@]}" -eq 1 ]
    [ ! -e "$asked" ]
    there 0 tools/doctor.sh --all
    [[ $output == *"no 'make check-browser'; to get it: by hand: google.com/chrome (Ubuntu has Chromium only as a snap)"* ]]
}

@test "where bats is too old and stays so, as in Ubuntu 22.04, setup gets another, and checks it" {
    printf 'ID=ubuntu\nUBUNTU_CODENAME=jammy\n' >"$OS_RELEASE"
    script bats 'echo Bats 1.2.1'
    script apt-get "echo \"\$*\" >>$asked; [ \$1 != install ] || . \$3"
    script apt-helper "echo \"\$1 \$2 \$4\" >>$asked; echo 'mv $bin/new-bats $bin/bats' >\$3"
    script new-bats 'echo Bats 1.10.0'
    there 0 tools/doctor.sh --all
    echo "$output" | grep -qE "^no   bats +no 'make test'.*; to get it: ./setup.sh$"
    there 0 ./setup.sh
    [[ $output == *"everything is there"* ]]
    pool=http://archive.ubuntu.com/ubuntu/pool/universe/b/bats
    sed -n 2p "$asked" | grep -qx "download-file $pool/bats_1.10.0-1_all.deb SHA256:[0-9a-f]\{64\}"
    file=$(sed -n 's/^install -y //p' "$asked")
    [[ $file == */bats_1.10.0-1_all.deb ]] && [ ! -e "$file" ]
}

@test "offline, setup says what failed and does not try again" {
    script apt-get "echo \"\$*\" >>$asked; echo 'no route to host'; exit 100"
    there 1 CC=no-zlib ./setup.sh
    [[ $output == *"no route to host"*"is this machine online?"* ]]
    [ "$(cat "$asked")" = update ]
}

@test "without a package manager setup says what to install by hand" {
    rm "$bin/apt-get"
    hide jq
    there 0 ./setup.sh
    [[ $output == *"jq is missing"*"install it by hand"* ]]
}

@test "musl, as on Alpine: setup says in one line that it is not supported, and installs nothing" {
    script ldd 'echo "	/lib/ld-musl-x86_64.so.1 (0x7f0000000000)"'
    hide jq
    there 1 ./setup.sh
    [ "$output" = "setup: this machine's C library is musl, which is not supported: build in the Debian of the Dockerfile" ]
    [ ! -e "$asked" ]
}

@test "a compiler without glibc: make says so in one line, before it compiles anything" {
    compiler=$(command -v musl-gcc) || {
        compiler=$bin/musl-gcc
        script musl-gcc cat # its stdio.h defines no __GLIBC__
    }
    run make -s BUILD="$BATS_TEST_TMPDIR/build" CC="$compiler" MPI=0 CUDA=0 01
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == Makefile:*": *** $compiler has no glibc, and other C libraries (musl, macOS) are not supported: build in the Debian of the Dockerfile.  Stop." ]]
    [ "${#lines[@]}" -eq 1 ]
}

@test "setup refuses options it does not know" {
    there 2 ./setup.sh --all
    [[ $output == *"--all: it is -y, --check, --minimal, --checks, --slurm, --browser, --play or nothing" ]]
    there 0 ./setup.sh --help
    [[ $output == "Usage: ./setup.sh"* ]]
}

@test "doctor shows what the chapters use, names what else is missing, and ends with a verdict" {
    hide gnuplot
    there 0 tools/doctor.sh
    for part in 'C compiler' OpenMP make zlib libyaml libsodium jansson python3 jq MPI 'GPU driver' 'NVIDIA GPU' cores; do
        [ "$(echo "$output" | grep -cE "^(yes|no )  $part +")" -eq 1 ]
    done
    [ "${#lines[@]}" -eq 15 ]
    [[ $output != *$'\e'* ]]
    [[ ${lines[-2]} == "also missing: gnuplot, "*"; all parts: make doctor ARGS=--all" ]]
    [ "${lines[-1]}" = "all that chapters 00 to 05 need is here" ]
    hide jq
    hide python3
    there 0 tools/doctor.sh
    [ "${lines[-1]}" = "chapters 02 to 05 lack python3; chapter 01 lacks jq: type ./setup.sh" ]
    there 1 CC=no-zlib tools/doctor.sh
    [[ ${lines[-1]} == "chapters 00 to 05 lack zlib; "* ]]
    there 2 tools/doctor.sh --check
    [ "$output" = "tools/doctor.sh: --check: it is --all or nothing" ]
}

@test "on a terminal doctor prints at most 20 lines, whatever is missing, and breaks lines at words" {
    for program in cc sudo $programs; do
        rm "$bin/$program"
    done
    on_terminal 80 1 tools/doctor.sh
    [ "${#lines[@]}" -le 20 ]
    [ -z "$(sed $'s/\e\[[0-9]*m//g' <<<"$output" | awk 'length > 80')" ]
    unwrapped=$(tr '\n' ' ' <<<"$output")
    [[ $unwrapped == *"chapters 00 to 05 lack C compiler, OpenMP, zlib, libyaml, libsodium, jansson; chapters 02 to 05 lack python3; chapter 01 lacks jq: type ./setup.sh "* ]]
    on_terminal 60 1 tools/doctor.sh --all
    [[ $output == *" no 'make test', and no 'make check-lab':"$'\n'"                   it judges the labs; to get it: apt-get"$'\n'* ]]
}

@test "doctor --all has a line for every part, and the remedy for what is missing" {
    hide jq
    there 0 tools/doctor.sh --all
    for part in 'C compiler' OpenMP make zlib libyaml libsodium jansson cmocka bats prove python3 pgrep aspell gnuplot jq ip curl wget libFuzzer 'g\+\+' QEMU aarch64-gcc MPI libpng \
        libmicrohttpd libdeflate CUDA cuBLAS NCCL 'GPU driver' 'NVIDIA GPU' Slurm Chromium torchrun clang-format shellcheck help2man cores avx2 avx512f MNIST; do
        [ "$(echo "$output" | grep -cE "^(yes|no )  $part +")" -eq 1 ]
    done
    echo "$output" | grep -q "^yes  python3       1.10.0$"
    echo "$output" | grep -qE "^no   jq +no 'make test'.*; to get it: .*apt-get install -y jq$"
    [[ $output != *$'\033'* ]] # no colours but on a terminal
    there 1 CC=no-zlib tools/doctor.sh --all
    [ "${lines[-1]}" = "chapters 00 to 05 lack zlib; chapter 01 lacks jq: type ./setup.sh" ]
}
