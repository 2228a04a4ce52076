#!/usr/bin/env bats
# Every fuzz target, for its share of FUZZ_SECONDS (180): from the corpus and the seeds on, libFuzzer looks for
# inputs that crash, hang, leak or want too much memory. Run by make check-fuzz.

setup_file() {
    export ENGINE=build/fuzz/engine
    sh -c '. tools/parts.sh; fuzzer' >/dev/null || { rm -f $ENGINE && return 0; }
    local watch='-fno-omit-frame-pointer -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all'
    # Threads of OpenMP would outlive the run that started them.
    make -s -j "$(nproc)" BUILD=build/fuzz CC=clang MPI=0 CUDA=0 OPENMP=-Wno-unknown-pragmas \
        CFLAGS="-O1 -g -w $watch -fsanitize=fuzzer-no-link" LDFLAGS="$watch" $ENGINE
    rm -rf build/fuzz/seeds
    tests/fuzz/seeds.py build/fuzz/seeds
}

setup() {
    [ -x $ENGINE ] || skip "no clang with libFuzzer (./setup.sh --checks installs it)"
}

# fuzz TARGET: what is found goes to build/fuzz/found, and how to see it again is said.
fuzz() {
    local found=build/fuzz/found corpus=build/fuzz/corpus/$1
    local share=$((${FUZZ_SECONDS:-180} / $(grep -c '^@test' "$BATS_TEST_FILENAME")))
    mkdir -p $found "$corpus"
    export FUZZ_TARGET=$1 TMPDIR=$BATS_TEST_TMPDIR ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=8
    run timeout -k 5 $((share + 600)) nice $ENGINE -max_total_time=$share -timeout=60 -malloc_limit_mb=16 \
        -print_funcs=0 -close_fd_mask=1 -artifact_prefix="$found/$1-" "$corpus" "tests/fuzz/corpus/$1" \
        "build/fuzz/seeds/$1" </dev/null
    echo "# $(echo "$output" | sed -n "s/^#\([0-9]*\).*DONE *cov: \([0-9]*\).*/$1: \1 runs, \2 edges/p"), $(
        echo "$output" | grep 'past the first check$')" >&3
    if [ "$status" -ne 0 ]; then
        echo "$output" | grep -E '^fault|ERROR|runtime error|^ +#[0-9]+ .* in .*(common|tests)/' | head -n 20
        local input
        input=$(echo "$output" | sed -n 's/.*Test unit written to //p')
        echo "to see it again: FUZZ_TARGET=$1 $ENGINE $input"
        return 1
    fi
}

@test "fuzz: args" { fuzz args; }
@test "fuzz: config" { fuzz config; }
@test "fuzz: flags" { fuzz flags; }
@test "fuzz: env" { fuzz env; }
@test "fuzz: idx" { fuzz idx; }
@test "fuzz: safetensors" { fuzz safetensors; }
@test "fuzz: checkpoint" { fuzz checkpoint; }
@test "fuzz: metrics" { fuzz metrics; }
@test "fuzz: flight" { fuzz flight; }
@test "fuzz: picture" { fuzz picture; }
@test "fuzz: handshake" { fuzz handshake; }
@test "fuzz: service" { fuzz service; }
@test "fuzz: server" { fuzz server; }
@test "fuzz: store" { fuzz store; }
@test "fuzz: mesh" { fuzz mesh; }
@test "fuzz: exchange" { fuzz exchange; }
@test "fuzz: launch" { fuzz launch; }
