#!/usr/bin/env bats
# ddprun --print-completion: a script by which a shell completes ddprun's flags.

bats_require_minimum_version 1.5.0

setup() {
    unset LOCAL_RANK RANK
    ddprun=03_torchrun_env/ddprun
}

# completed WORD...: what bash offers for the last word of a command line.
completed() {
    bash --norc -c 'eval "$('$ddprun' --print-completion bash)"
        complete -p ddprun >/dev/null || exit 1
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _ddprun && echo ${COMPREPLY[*]}' bash ddprun "$@"
}

@test "bash completes flags in front of the program, and nothing behind it" {
    [ "$(completed --nn)" = "--nnodes" ]
    [ "$(completed --nnodes 2 --numa)" = "--numa-binding" ]
    [ "$(completed --nnodes = 2 --standalone --pr)" = "--print-commands --print-completion" ]
    [ "$(completed -t 3 --redir)" = "--redirects" ]
    [ -z "$(completed --nnodes --numa)" ] # the value of --nnodes
    [ -z "$(completed --nnodes 2 train --nn)" ] # the program's
    [ -z "$(completed t)" ]
    [ -z "$(completed --virtual)" ]
    ddprun=05_fault_tolerance/ddprun
    [ "$(completed --virtual)" = "--virtual-local-rank" ]
}

@test "every flag of --help is in the script of each shell; other shells are refused in a line" {
    for shell in bash zsh tcsh; do
        run -0 $ddprun --print_completion $shell
        script=$output
        for flag in $($ddprun --help | sed -n 's/^  \(-., \)\?--\([a-z-]*\) .*/\2/p'); do
            [[ $script == *"$flag"* ]] || { echo "$shell: --$flag" && false; }
        done
        [ "$(wc -l <<<"$script")" -ge 2 ]
        if command -v $shell >/dev/null; then
            $shell -n <<<"$script"
        fi
    done
    run -2 $ddprun --print-completion fish
    [ "$output" = "ddprun: --print-completion fish: it must be bash, zsh or tcsh" ]
}
