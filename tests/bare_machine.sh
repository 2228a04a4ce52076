#!/bin/sh
# Usage: [SUITE=noble MIRROR=http://archive.ubuntu.com/ubuntu] [PARTS='root user offline'] tests/bare_machine.sh      (root)
# The README's commands in a fresh Debian or Ubuntu of its own (as this one, if none is named), as TAP. Three parts: root
# with nothing installed; a user where the packages are there; a user without network, MPI and CUDA. Needs debootstrap
# and a network; leaves only the logs in build/bare.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
refuse() {
    echo "$0: $*" >&2
    exit 1
}

[ "$(id -u)" -eq 0 ] || refuse 'only root can make a machine: sudo tests/bare_machine.sh'

# The second time it is the first process of a pid and mount namespace: with it, all that it has
# started and mounted is gone.
if [ -z "${BARE:-}" ]; then
    BARE=$(mktemp -d /var/tmp/bare-machine-XXXXXX)
    export BARE
    unshare --mount --pid --fork --kill-child "$0" &
    trap 'kill -KILL $! 2>/dev/null || true; rm -rf --one-file-system "$BARE"' EXIT
    trap 'exit 1' INT TERM HUP
    wait $! && exit 0
    exit 1
fi

mount -t proc proc /proc
log=build/bare
rm -rf "$log" && mkdir -p "$log"
train=$(sed -n 's/^    \(\.\/setup\.sh .*run\.sh.*\)/\1/p' README.md)
tests=$(sed -n 's/^    \(\.\/setup\.sh .*make test\)$/\1/p' README.md)
{ [ -n "$train" ] && [ -n "$tests" ]; } || refuse 'the two commands are not in README.md'
number=0 failed=0 network='' parts=" ${PARTS:-root user offline} "
for part in $parts; do
    case $part in root | user | offline) ;; *) refuse "PARTS=$part: it is root, user or offline, or several of these" ;; esac
done

# machine NAME: copies the fresh system and the tree to $BARE/NAME, with what a kernel provides.
machine() {
    cp -a "$BARE/fresh" "$BARE/$1"
    mount --bind "$BARE/$1" "$BARE/$1" # else nothing is mounted at its /, and slow_disk.bats asks for that disk's name
    mount -t proc proc "$BARE/$1/proc"
    mount -t sysfs -o ro sysfs "$BARE/$1/sys"
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$BARE/$1/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$BARE/$1/dev/shm"
    cp /etc/resolv.conf /etc/hosts "$BARE/$1/etc/"
    for home in "$BARE/$1/root" "$BARE/$1/home/student"; do
        mkdir -p "$home/ddp.c"
        git ls-files -z --cached --others --exclude-standard |
            tar --create --null --files-from=- | tar --extract --no-same-owner --directory="$home/ddp.c"
    done
    chroot "$BARE/$1" useradd --shell /bin/sh student
    chroot "$BARE/$1" chown -R student: /home/student
}

# shellcheck disable=SC2317 # it is what $network may stand for
offline() {
    unshare --net sh -c 'ip link set lo up && exec "$@"' sh "$@"
}

# step TITLE MACHINE USER COMMAND: one TAP line; the command's output goes to a log.
step() {
    number=$((number + 1)) started=$(date +%s) result=ok
    home=/root
    [ "$3" = root ] || home=/home/$3
    $network chroot --userspec="$3:$3" "$BARE/$2" env -i HOME="$home" USER="$3" \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin timeout 3600 \
        sh -c "cd ~/ddp.c && $4" </dev/null >"$log/$number.log" 2>&1 || result='not ok' failed=1
    echo "$result $number - $1: $(echo "$4" | tr -s ' \n' ' ') ($(($(date +%s) - started)) s)"
    [ "$result" = ok ] || sed 's/^/# /' "$log/$number.log" | tail -n 30
}

tests/fresh_machine.sh "${SUITE:-}" "$BARE/fresh" "$log/debootstrap.log"

machine first
case $parts in *' root '*)
    step 'root, nothing installed' first root "$train"
    step 'root' first root "$tests" ;;
esac
case $parts in *' user '*)
    step 'root' first root ./setup.sh
    step 'a user, all installed' first student "$train"
    step 'a user, all installed' first student "$tests" ;;
esac

# What it cannot be built without is installed while there is a network; then that is cut off.
case $parts in *' offline '*)
    machine second
    step 'root' second root './setup.sh --minimal'
    network=offline
    step 'no network, no MPI, no CUDA' second student "$train"
    step 'no network, no MPI, no CUDA' second student 'make && ./01_single_gpu/run.sh 1 &&
        for STAGE in a b c ""; do export STAGE && ./02_multi_gpu_spawn/run.sh 2 1 || exit; done &&
        ./03_torchrun_env/run.sh 2 1 && ./04_slurm_multinode/run.sh 2 1 1 && ./05_fault_tolerance/run.sh 2 1' ;;
esac
echo "1..$number"
exit $failed
