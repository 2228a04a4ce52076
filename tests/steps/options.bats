#!/usr/bin/env bats
# Invalid values for every option that a program's own --help lists: one line, status 2, before any work.
# (tests/common/base/test_options.c feeds far more to the tables behind.)

SOME="01_single_gpu/train 02_multi_gpu_spawn/train 05_fault_tolerance/train"
OTHERS="02_multi_gpu_spawn/train_a_spawn 02_multi_gpu_spawn/train_b_all_reduce 02_multi_gpu_spawn/train_c_sampler
    03_torchrun_env/train 04_slurm_multinode/train"

setup() {
    unset LOCAL_RANK RANK
}

# Runs the Python on standard input after that of nonsense.py, which documents options() and
# refused().
check() { # PROGRAM
    { cat "$BATS_TEST_DIRNAME/nonsense.py" && cat; } | python3 - "$1"
}

each_option() { # PROGRAM...
    for program in "$@"; do
        check $program <<'END'
names = options()
assert len(names) >= 24, names
for name, kind in names:
    refused(f"--{name} needs a value", f"--{name}")
    refused(f"--{name} needs a value", f"--{name}", "--seed", "1")
    place = "configuration file" if name == "config" else f"--{name}"
    refused(place, f"--{name}=")
    refused(place, f"--{name.replace('-', '_')}", "")
    if kind not in ("DIR", "FILE"):
        for value in "abc", "-1", "1e999", "9" * 20 + "x", "%s%n\n\033[2J":
            refused(place, f"--{name}", value)
END
    done
}

# shellcheck disable=SC2086 # several programs
@test "train of steps 01, 02 and 05: each option" {
    each_option $SOME
}

# bats test_tags=slow
# shellcheck disable=SC2086 # several programs
@test "train of the other steps: each option" {
    each_option $OTHERS
}

@test "train of every step: the two numbers, and what does not go together" {
    for program in $SOME $OTHERS; do
        check $program <<'END'
for value in "abc", "-1", "", " 1", "nan":
    refused("has no place here", value)
    refused("has no place here", "3", value)
for value in "1e9", "1.5", "2147483648", "9" * 20, "0x1":
    refused("--epochs", value)
    refused("--save-every", "3", value)
refused("two numbers go without a name", "1", "2", "3")
for option in "-lr", "-epochs=3", "-x":
    refused(f'"{option}" has no place here: options begin with two dashes', option, "1")
refused("--zzz is no option", "--zzz")
if ("config", "FILE") in options(): # else extras/comfort is not there
    refused("/dev is not a regular file", "--config", "/dev")
refused("--dataset does not go with", "--model", "linear", "--dataset", "mnist")
refused("--momentum does not go with", "--optimizer", "adamw", "--momentum", "0.9")
refused("--global-batch-size does not go", "--batch-size", "1", "--global-batch-size", "2")
refused("--init-from does not go with", "--resume", "x", "--init-from", "y")
END
    done
}

@test "ddprun: each flag" {
    for ddprun in 03_torchrun_env/ddprun 05_fault_tolerance/ddprun; do
        check $ddprun <<'END'
numbers = 0
for name, kind in options():
    refused(f"--{name} needs a value", f"--{name}")
    if kind in ("N", "R", "S", "PORT", "SPEC", "R,..."):
        numbers += 1
        for value in "", "abc", "-1", "nan", "inf", "1e999", "9" * 20, "1x", "0x10":
            refused(f"--{name}", f"--{name}={value}", "true")
            refused(f"--{name}", f"--{name.replace('-', '_')}", value, "true")
assert numbers >= 6, numbers # some are of extras/watch
END
    done
}

@test "shards: each option" {
    check tools/shards <<'END'
names = options()
assert len(names) == 5, names
for name, kind in names:
    refused(f"--{name} needs a value", f"--{name}")
    for value in "", "abc", "-1", "nan", "1e9", "1.5", "9" * 20, "1x", " 1", "0x10":
        refused(f"--{name}", f"--{name}={value}")
        refused(f"--{name}", f"--{name.replace('-', '_')}", value)
END
}

@test "collectives has no options, and says so" {
    run 02_multi_gpu_spawn/collectives --nproc 3
    [ "$status" -eq 2 ]
    [[ $output == *'"--nproc" has no place here: '*' --help explains it' ]]
    run 02_multi_gpu_spawn/collectives --help
    [ "$status" -eq 0 ]
    [[ $output == "Usage: 02_multi_gpu_spawn/collectives"* ]]
}

@test "a reader that has seen enough ends collectives without a message" {
    02_multi_gpu_spawn/collectives 2>"$BATS_TEST_TMPDIR/errors" | head -c 1 >"$BATS_TEST_TMPDIR/seen"
    ! grep -v '4 ranks, connected by tcp' "$BATS_TEST_TMPDIR/errors" || false
    [ "$(cat "$BATS_TEST_TMPDIR/seen")" = b ]
}
