#!/bin/sh
# Usage: tests/steps/two_hosts.sh COMMAND0 COMMAND1      Runs two lines of shell on two hosts, alpha and beta.
# Hosts are network namespaces with names of their own; each knows its own name as 127.0.1.1, as Debian
# does. Two cables join them: wire (10.77.0.1 and .2) and fast (10.78.0.1 and .2); blind (10.79.0.1,
# 10.80.0.1) leads nowhere. Ends with the first status but 0, or 77: this machine has no namespaces.
set -eu

# host NUMBER NAME OTHER COMMAND: becomes that host, once its cables are there.
host() {
    until ip link show fast >/dev/null 2>&1; do sleep 0.02; done
    ip link add blind type veth peer name dark
    for link in wire:10.77.0.$(($1 + 1)) fast:10.78.0.$(($1 + 1)) blind:10.$(($1 + 79)).0.1 dark lo; do
        [ "$link" = "${link#*:}" ] || ip address add "${link#*:}/24" dev "${link%:*}"
        ip link set "${link%:*}" up
    done
    printf '127.0.0.1 localhost\n127.0.1.1 %s\n10.77.0.%d %s\n' "$2" $((2 - $1)) "$3" >"$hosts"
    mount --bind "$hosts" /etc/hosts
    hostname "$2"
    exec sh -c "$4"
}

case $1 in
host) hosts=$2 && shift 2 && host "$@" ;;
both) shift ;;
*)
    unshare --user --map-root-user --net sh -c 'ip link add type veth' 2>/dev/null || exit 77
    exec unshare --user --map-root-user --net --mount --uts --pid --fork --kill-child --mount-proc \
        "$0" both "$@"
    ;;
esac

scratch=$(mktemp -d)
touch "$scratch/alpha" "$scratch/beta"
unshare --net --mount --uts "$0" host "$scratch/beta" 1 beta alpha "$2" &
beta=$!
until [ "$(readlink /proc/$beta/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
for cable in wire fast; do ip link add $cable type veth peer name $cable netns $beta; done
unshare --mount --uts "$0" host "$scratch/alpha" 0 alpha beta "$1" &
status=0 beta_status=0
wait $! || status=$?
wait $beta || beta_status=$?
rm -r "$scratch"
[ $status -ne 0 ] || status=$beta_status
exit $status
