#!/usr/bin/env bats
# Survivors on two nodes, behind a link that is cut, and in larger groups: the final file is that of an
# undisturbed run.

load ../../faults/faults_helper
load ../../helpers/scaled_timeout

options=(--model linear --num-samples 512 --epochs 3 --threads 1 --momentum 0.9 --device cpu --save-every 0)

# quiet RANKS: an undisturbed run, in $OUT/quietN.
quiet() {
    MAX_RESTARTS=0 run -0 timeout 200 $RUN "$1" "${options[@]}" --checkpoint-dir "$OUT/quiet$1"
}

# same RANKS DIR: that run's file has the same bytes.
same() {
    cmp "$OUT/quiet$1/linear_random.safetensors" "$OUT/$2/linear_random.safetensors"
}

# node NUMBER DIR OPTIONS...: one of two launchers, of two ranks each.
node() {
    DDP_RECONFIGURE=1 timeout 300 05_fault_tolerance/ddprun --nnodes 2 --node-rank "$1" --master-port "$port" --nproc-per-node 2 \
        --max-restarts 5 05_fault_tolerance/reconfigure/train_reconfigure "${options[@]}" --checkpoint-dir "$OUT/$2" "${@:3}" >"$OUT/node_$1" 2>&1 3>&-
}

@test "two launchers: each replaces its own ranks, one after the other and at once" {
    quiet 4
    for kills in kill:3:5,kill:0:8 kill:1:6,kill:2:6; do
        port=$(free_port)
        rm -rf "$OUT/nodes"
        node 1 nodes --inject "$kills" &
        job=$!
        node 0 nodes --inject "$kills" || { cat "$OUT"/node_* && false; }
        wait $job
        cat "$OUT"/node_*
        same 4 nodes
        # A rank that loses its group in the step after which it was to be killed may survive.
        [ "$(cat "$OUT"/node_? | grep -c "^ddprun: rank .: killed by SIGKILL; a new process takes its seat (. of 5)")" -ge 1 ]
        [ "$kills" = kill:1:6,kill:2:6 ] || { grep -q "rank 0: killed" "$OUT/node_0" && grep -q "rank 3: killed" "$OUT/node_1"; }
    done
}

# A library before libc: a connection of rank 1's first process breaks at the message $CUT_AT that it sends. silent: all
# that it sends on this connection from then on is lost; again: so do the connections of the next eight messages; always: of
# all later ones.
cutter() {
    ! grep -qa '__[at]san_init' 05_fault_tolerance/reconfigure/train_reconfigure || skip "a sanitizer has functions of its own in the place of these"
    cat >"$OUT/cut.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int left = -1, cut = -1; /* messages until the link is cut, and its descriptor */
static int again; /* messages since */

__attribute__((constructor)) static void begin(void)
{
    const char *rank = getenv("RANK"), *life = getenv("DDP_INCARNATION");
    if (rank && life && !strcmp(rank, "1") && !strcmp(life, "0"))
        left = atoi(getenv("CUT_AT"));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    size_t bytes = 0;
    if (left > 0 && __sync_sub_and_fetch(&left, 1) == 0) {
        cut = fd;
        if (!strcmp(getenv("CUT"), "reset"))
            shutdown(fd, SHUT_RDWR);
    }
    if (cut >= 0 && (!strcmp(getenv("CUT"), "always") || (!strcmp(getenv("CUT"), "again") && __sync_fetch_and_add(&again, 1) < 8)))
        shutdown(fd, SHUT_RDWR);
    for (size_t i = 0; i < message->msg_iovlen; i++)
        bytes += message->msg_iov[i].iov_len;
    if (fd == cut && !strcmp(getenv("CUT"), "silent"))
        return (ssize_t)bytes; /* it is lost, without an error */
    return ((ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg"))(fd, message, flags);
}

int close(int fd)
{
    if (fd == cut && strncmp(getenv("CUT"), "a", 1) != 0)
        cut = -1; /* the next connection with this number is another one */
    return ((int (*)(int))dlsym(RTLD_NEXT, "close"))(fd);
}
END
    cc -shared -fPIC -o "$OUT/cut.so" "$OUT/cut.c" -ldl
}

@test "a connection is reset, and nobody is dead: the same processes form the next group" {
    quiet 3
    cutter
    for CUT_AT in 10 17; do
        RECONFIGURE=1 MAX_RESTARTS=0 CUT=reset CUT_AT=$CUT_AT DDP_SHM_DISABLE=1 LD_PRELOAD=$OUT/cut.so run -0 timeout 200 \
            $RUN 3 "${options[@]}" --checkpoint-dir "$OUT/reset$CUT_AT"
        echo "$output"
        same 3 "reset$CUT_AT"
        [[ $output == *"generation 2 goes on after step"* && $output != *"takes its seat"* ]]
    done
}

@test "a connection loses all messages without a word: after --timeout the next group has a new one" {
    quiet 3
    cutter
    RECONFIGURE=1 MAX_RESTARTS=3 CUT=silent CUT_AT=10 DDP_SHM_DISABLE=1 LD_PRELOAD=$OUT/cut.so run -0 timeout 200 \
        $RUN 3 "${options[@]}" --timeout "$(scaled_timeout 2)" --checkpoint-dir "$OUT/silent"
    echo "$output"
    same 3 silent
    [[ $output == *"did not end within "*"this rank leaves the group"*" goes on after step"* || $output == *"keeps the others waiting"* ]]
}

@test "a link that stays cut for some groups: nobody is suspected, and once it is back they go on" {
    quiet 3
    cutter
    RECONFIGURE=1 MAX_RESTARTS=0 CUT=again CUT_AT=10 DDP_SHM_DISABLE=1 LD_PRELOAD=$OUT/cut.so run -0 timeout 200 \
        $RUN 3 "${options[@]}" --checkpoint-dir "$OUT/again"
    echo "$output"
    same 3 again
    [ "$(grep -c "^\[rank 1/3\] .*: this rank leaves the group" <<<"$output")" -ge 3 ]
    [[ $output != *"keeps the others waiting"* && $output != *"takes its seat"* ]]
}

# bats test_tags=slow
@test "a link that stays cut: after 100 groups the job ends with the reason, and nobody was suspected (2 minutes)" {
    cutter
    RECONFIGURE=1 MAX_RESTARTS=3 CUT=always CUT_AT=20 DDP_SHM_DISABLE=1 LD_PRELOAD=$OUT/cut.so run -1 timeout 900 \
        $RUN 2 "${options[@]}" --checkpoint-dir "$OUT/always"
    echo "$output"
    [[ $output == *"train_reconfigure FAILED: no step was done in 100 groups, one after the other"* ]]
    [ "$(grep -c "^\[rank 1/2\] .*: this rank leaves the group" <<<"$output")" -ge 100 ]
    [[ $output != *"keeps the others waiting"* && $output != *"takes its seat"* ]]
}

@test "groups of 5 and 8 ranks" {
    export MAX_RESTARTS=9
    quiet 5
    RECONFIGURE=1 run -0 timeout 300 $RUN 5 "${options[@]}" --inject kill:4:3,kill:0:6,kill:2:9 --checkpoint-dir "$OUT/five"
    same 5 five
    [ "$(grep -c "takes its seat" <<<"$output")" -eq 3 ]
    quiet 8
    RECONFIGURE=1 run -0 timeout 300 $RUN 8 "${options[@]}" --inject kill:7:1,kill:3:3,kill:0:5 --checkpoint-dir "$OUT/eight"
    same 8 eight
    [ "$(grep -c "takes its seat" <<<"$output")" -eq 3 ]
}
