#!/bin/sh
# Usage: 04_slurm_multinode/submit.sh [options of sbatch] SCRIPT [arguments]
# Like sbatch, but it waits: it shows the job's output and exits with its status; Ctrl-C cancels the job.
set -eu
case " $* " in *" --array"* | *" -a"*) echo "$0: a job array is several jobs: submit it with sbatch, and see squeue" >&2 && exit 2 ;; esac
job=$(sbatch --parsable "$@")
job=${job%%;*} # the rest names the cluster

# cancel SIGNAL STATUS
# shellcheck disable=SC2317 # traps call it
cancel() {
    trap '' INT TERM HUP
    echo "job $job: $1 cancels it" >&2
    timeout 20 scancel "$job" || :
    exit "$2"
}
trap 'cancel SIGINT 130' INT
trap 'cancel SIGTERM 143' TERM
trap 'cancel SIGHUP 129' HUP
echo "job $job: '${SLURM_CONF:+SLURM_CONF=$SLURM_CONF }squeue -j $job' shows it, Ctrl-C cancels it" >&2

# field NAME: a field of Slurm's description of the job.
field() {
    echo "$said" | sed -n "s/^\\(.* \\)\\{0,1\\}$1=//p" | sed 's/ [A-Za-z]*=.*//'
}

# show_new FILE SIZE: prints the file from that size on, and sets size to its present size.
show_new() {
    size=$2
    [ ! -e "$1" ] || size=$(wc -c <"$1")
    [ "$size" -eq "$2" ] || tail -c +$(($2 + 1)) "$1" | head -c $((size - $2))
}

out=0 err=0 failures=0 told=''
while :; do
    if said=$(scontrol show job "$job" 2>&1); then
        state=$(field JobState)
        show_new "$(field StdOut)" "$out" && out=$size
        [ "$(field StdErr)" != "$(field StdOut)" ] && show_new "$(field StdErr)" "$err" >&2 && err=$size
        reason=$(field Reason)
        case $state/$reason in
        PENDING/None | PENDING/Priority | PENDING/"$told") ;;
        PENDING/*) echo "job $job waits: $reason" >&2 && told=$reason ;;
        esac
        case $state in
        PENDING | CONFIGURING | RUNNING | SUSPENDED) ;;
        # The job is over except for cleanup, which a lost node can delay for minutes.
        COMPLETING) [ "$(field Reason)" = None ] || break ;;
        *) break ;;
        esac
    elif [ $((failures += 1)) -eq 60 ]; then
        echo "$0: job $job: $said" >&2
        exit 1
    fi
    sleep 1
done

# Slurm writes STATUS:SIGNAL; a signal gives 128 + SIGNAL, as in the shell.
exit_code=$(field ExitCode)
status=${exit_code%:*} signal=${exit_code#*:}
[ "$signal" -eq 0 ] || status=$((128 + signal))
[ "$state" = COMPLETED ] && exit 0
echo "job $job: $state ($(field Reason))" >&2
[ "$status" -ne 0 ] || status=1
exit "$status"
