#!/bin/sh
# Usage: data/get_mnist.sh [DIR]      Gets the four files of MNIST into DIR (default: data/mnist).
# MNIST_URL names other mirrors, MNIST_SHA256SUMS a file with the checksums of what they serve.
# A file appears in DIR only when it is whole and its checksum is right.
set -eu

case $#${1:-} in
1-h | 1--help) exec sed -n '2,/^set/s/^# //p' "$0" ;;
1-* | [!01]*) echo "get_mnist.sh: $*: it takes the name of one folder; --help says more" >&2 && exit 2 ;;
esac
dir=${1:-$(CDPATH='' cd "$(dirname "$0")" && pwd)/mnist}
mirrors=${MNIST_URL:-https://ossci-datasets.s3.amazonaws.com/mnist
    https://storage.googleapis.com/cvdf-datasets/mnist}
sums='0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971  train-images-idx3-ubyte.gz
1787548bbe0bff1ec2ecdc0ef292b02df999e2d1a6002d27500982c652b17203  train-labels-idx1-ubyte.gz
1a1a05eab793c14bb050b398624a11b0ffd1a2953baed553b1b9bd079e2a20be  t10k-images-idx3-ubyte.gz
b91679a0acfe4ba0e50a2437a903084cba1f5f92592b016a25a7dfd00455798b  t10k-labels-idx1-ubyte.gz'
[ -z "${MNIST_SHA256SUMS:-}" ] || sums=$(cat "$MNIST_SHA256SUMS")

valid() { # FOLDER SUMS
    (cd "$1" && echo "$2" | sha256sum -c --status) 2>/dev/null
}

# A mirror that is silent for half a minute is given up.
download() { # URL FILE
    if command -v curl >/dev/null; then
        curl -fsSL --connect-timeout 30 --speed-time 30 --speed-limit 1 -o "$2" "$1"
    else
        wget -nv --timeout=30 --tries=1 -O "$2" "$1"
    fi
}

get() { # SUM FILE
    for mirror in $mirrors; do
        echo "getting ${mirror%/}/$2"
        reason=$(download "${mirror%/}/$2" "$new/$2" 2>&1) || continue
        if valid "$new" "$1  $2"; then
            mv "$new/$2" "$dir/$2"
            return
        fi
        reason='its checksum is wrong'
    done
    reason=$(echo "$reason" | tr '\n' ' ')
    echo "get_mnist.sh: cannot get $2 from ${mirror%/} ($reason): try again, or another MNIST_URL" >&2
    exit 1
}

if valid "$dir" "$sums"; then
    echo "$dir is complete"
    exit
fi
new=
made= # the folder, if it was not there: a run that gets nothing takes it along
trap '[ -z "$new" ] || rm -rf "$new"; [ -z "$made" ] || rmdir "$made" 2>/dev/null || true' EXIT
trap 'exit 1' HUP INT TERM

# One run at a time, or each would download everything; the lock goes with its holder. Where the
# file system has no locks, renaming alone keeps the runs apart. Returns 1 if another run has removed
# the folder meanwhile, or if the folder cannot be made.
lock() {
    mkdir -p "$(dirname "$dir")" || exit 1
    mkdir "$dir" 2>/dev/null && made=$dir # of several runs at once, one makes it
    [ -d "$dir" ] || return 1
    { command exec 9<"$dir"; } 2>/dev/null || { [ -d "$dir" ] && return; return 1; }
    flock -w 600 9 2>/dev/null || return 0
    # shellcheck disable=SC3013 # not in POSIX, but in every sh that comes with Linux
    [ "$dir" -ef /dev/fd/9 ] || return 1
    rm -rf "$dir"/.new.* # of runs that were killed
}
tries=0
until lock; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { mkdir "$dir" || exit 1; made=$dir tries=0; }
done
new=$(mktemp -d "$dir/.new.XXXXXX")

echo "$sums" | while read -r sum file; do
    valid "$dir" "$sum  $file" || get "$sum" "$file"
done
echo "$dir is complete"
