#!/bin/sh
# Usage: tests/simulation/plant.sh FAULT FILE.c      Writes a copy of a source file with this fault to FILE.c.
# Prints the file's source for FILE -, and fails if the edit changes nothing.
set -eu
CDPATH='' cd "$(dirname "$0")/../.."
case $1 in
lost_wakeup) source=common/comm/store/store_service.c edit='s/^        if (only_one)$/        if (true)/' ;;
double_rank) source=launcher/rendezvous.c \
    edit='s/CHECK(store_add(store, node_key(KEY_HEARTBEAT, flags->node_rank).text, 1) == 1,/CHECK(!store_check(store, node_key(KEY_HEARTBEAT, flags->node_rank).text) \&\& store_add(store, node_key(KEY_HEARTBEAT, flags->node_rank).text, 1) > 0,/' ;;
late_message) source=common/comm/store/store.c edit='s/const bool crossed = reply == STORE_STOP_WAITING;.*/const bool crossed = false; reply = STORE_WAIT_CANCELED;/' ;;
stale_attempt) source=launcher/elastic_group.c edit='s/^    if (!store_check(&store, node_key(KEY_ATTEMPT, assignment->restart_count).text)) {/    if (false) {/' ;;
two_groups) source=05_fault_tolerance/reconfigure/agreement.c edit='s/^    store_compare_set(a->store, "generation", record, next, now, sizeof now);/    (void)now, (void)record, store_set(a->store, "generation", next, strlen(next));/' ;;
early_group) source=05_fault_tolerance/reconfigure/agreement.c edit='s/^        if (seat.left == left) {/        if (true) {/; s/^        if (seat.left != left)$/        if (false)/' ;;
*) echo "plant.sh: there is no fault $1" >&2 && exit 2 ;;
esac
sed "$edit" "$source" >"$2"
! cmp -s "$source" "$2"
