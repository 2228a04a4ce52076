#!/bin/sh
# Usage: [SUITES='trixie forky'] [MIRROR=URL] [ROOTS=DIR] tests/march/machines.sh      (root)  The compilers of newer Debians,
# in machines of their own: gcc and clang, and gcc for ARM, whose programs are emulated. Each builds everything without a
# warning; then the tests of all arithmetic, and PyTorch's losses in steps 01 to 03 (compiler.sh). As TAP; leaves
# build/machines/*.log, and in ROOTS the machines, which the next call takes. Needs debootstrap and a network.
set -eu
CDPATH='' cd "$(dirname "$0")/../.."
refuse() {
    echo "$0: $*" >&2
    exit 1
}
[ "$(id -u)" -eq 0 ] || refuse 'only root can make a machine: sudo make check-machines'
command -v debootstrap >/dev/null || refuse 'needs debootstrap: apt-get install debootstrap'

# The second time it is the first process of a pid and mount namespace: all that it starts and mounts ends with it.
if [ -z "${MACHINES:-}" ]; then
    MACHINES=${ROOTS:-$(mktemp -d /var/tmp/machines-XXXXXX)}
    export MACHINES
    unshare --mount --pid --fork --kill-child "$0" &
    trap 'kill -KILL $! 2>/dev/null || true; [ -n "${ROOTS:-}" ] || rm -rf --one-file-system "$MACHINES"' EXIT
    trap 'exit 1' INT TERM HUP
    wait $! && exit 0
    exit 1
fi

packages='gcc clang libomp-dev libgomp1:arm64 make python3-minimal qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross'
for library in zlib1g libdeflate libyaml libsodium libjansson libcmocka; do
    packages="$packages $library-dev $library-dev:arm64"
done
logs=$PWD/build/machines number=0 failed=0
mkdir -p "$logs"

# inside SUITE COMMAND: in this machine, with nothing of this one's environment.
inside() {
    chroot "$MACHINES/$1" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
        timeout "${LIMIT:-5400}" sh -c "$2" </dev/null
}

# machine SUITE: makes it, unless it is there.
machine() {
    root=$MACHINES/$1 script=''
    [ -e "/usr/share/debootstrap/scripts/$1" ] || script=sid # those of Debian are all made alike
    # shellcheck disable=SC2086 # $script may be no word at all
    [ -e "$root/etc/debian_version" ] ||
        debootstrap --variant=minbase "$1" "$root" "${MIRROR:-http://deb.debian.org/debian}" $script
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    inside "$1" "dpkg --add-architecture arm64 && apt-get update && apt-get install -y --no-install-recommends $packages"
    rm -rf "$root/ddp.c" && mkdir "$root/ddp.c"
    git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar -x -C "$root/ddp.c"
}

# step SUITE CC MARCH [EMULATOR]
step() {
    number=$((number + 1)) started=$(date +%s) result=ok
    version=$(inside "$1" "$2 --version | head -n 1")
    inside "$1" "cd /ddp.c && EMULATOR='${4:-}' tests/march/compiler.sh $2 $3" >"$logs/$1-$2.log" 2>&1 || result='not ok' failed=1
    echo "$result $number - $1: $version, $3${4:+, under $4} ($(($(date +%s) - started)) s)"
    [ "$result" = ok ] || tail -n 30 "$logs/$1-$2.log" | sed 's/^/# /'
}

mount -t proc proc /proc
suites=${SUITES:-trixie forky}
echo "1..$(($(echo "$suites" | wc -w) * 3))"
for suite in $suites; do
    machine "$suite" >"$logs/$suite.log" 2>&1 || refuse "no machine: $(tail -n 1 "$logs/$suite.log")"
    step "$suite" gcc native
    step "$suite" clang native
    step "$suite" aarch64-linux-gnu-gcc armv8-a qemu-aarch64
done
exit $failed
