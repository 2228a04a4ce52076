#!/bin/sh
# Usage: tests/container.sh      (root)  What the Dockerfile does, without Docker and without a registry: its COPY, RUN,
# USER and WORKDIR lines, in order, in a fresh Debian of its own; then, as its user, make room-check. Needs debootstrap
# and a network for the packages; leaves build/container.log.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
[ "$(id -u)" -eq 0 ] || { echo "$0: only root can make a machine: sudo tests/container.sh" >&2 && exit 1; }
command -v debootstrap >/dev/null || { echo "$0: needs debootstrap: apt-get install debootstrap" >&2 && exit 1; }
suite=$(sed -n 's/^FROM debian:\([a-z]*\).*/\1/p' Dockerfile)

# The second time it is the first process of a pid and mount namespace: all that it starts and mounts ends with it.
if [ -z "${BARE:-}" ]; then
    BARE=$(mktemp -d /var/tmp/container-XXXXXX)
    export BARE
    unshare --mount --pid --fork --kill-child "$0" &
    trap 'kill -KILL $! 2>/dev/null || true; rm -rf --one-file-system "$BARE"' EXIT
    trap 'exit 1' INT TERM HUP
    wait $! && exit 0
    exit 1
fi

mkdir -p build
log=build/container.log user=root folder=/
chmod 755 "$BARE" # mktemp made it for root alone
debootstrap --variant=minbase "$suite" "$BARE" "${MIRROR:-http://deb.debian.org/debian}" >$log 2>&1
mount -t proc proc /proc
mount -t proc proc "$BARE/proc"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$BARE/dev/pts"
mount -t tmpfs -o mode=1777,size=1g tmpfs "$BARE/dev/shm"
cp /etc/resolv.conf /etc/hosts "$BARE/etc/"

# step COMMAND: as the user, in the folder; prints its result in one line.
step() {
    started=$(date +%s) result=ok home=/root
    [ "$user" = root ] || home=/home/$user
    chroot --userspec="$user:$user" "$BARE" env -i HOME="$home" USER="$user" PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        timeout 3600 sh -c "cd $folder && $1" </dev/null >>$log 2>&1 || result='not ok'
    echo "$result - $user: $1 ($(($(date +%s) - started)) s)"
    [ "$result" = ok ] || { tail -n 30 $log | sed 's/^/# /' && exit 1; }
}

# The files that COPY names, but for those that .dockerignore does.
copy() {
    owner=root
    case $1 in --chown=*) owner=${1#--chown=} && shift ;; esac
    for target; do :; done
    case $target in /*) ;; *) target=$folder/$target ;; esac
    mkdir -p "$BARE/$target"
    while [ $# -gt 1 ]; do
        if [ "$1" = . ]; then
            git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract --directory="$BARE/$target"
        else
            cp "$1" "$BARE/$target/"
        fi
        shift
    done
    chroot "$BARE" chown -R "$owner" "$target"
}

# shellcheck disable=SC2086 # COPY has several words
while read -r instruction words; do
    case $instruction in
    RUN) step "$words" ;;
    USER) user=$words ;;
    WORKDIR) folder=$words && mkdir -p "$BARE/$folder" ;;
    COPY) copy $words ;;
    FROM | CMD | '' | '#'*) ;;
    *) echo "$0: Dockerfile: $instruction: teach this script what it does" >&2 && exit 1 ;;
    esac
done <Dockerfile
step '[ ! -w / ] && make room-check' # that it is not root
tail -n 1 $log
