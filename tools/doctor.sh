#!/bin/sh
# Usage: tools/doctor.sh [--all]      What this machine has of what the chapters need, and what it lacks.
# --all: every part, what a missing one means, and how to get it.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
. tools/parts.sh

case ${1:-} in '') all=no ;; --all) all=yes ;; *) echo "$0: $1: it is --all or nothing" >&2 && exit 2 ;; esac
green='' red='' plain=''
if [ -t 1 ]; then
    green=$(printf '\033[32m') red=$(printf '\033[31m') plain=$(printf '\033[0m')
fi

# row YES_OR_NO NAME TEXT
row() {
    colour=$green
    [ "$1" = yes ] || colour=$red
    printf '%s%-3s%s  %-13s ' "$colour" "$1" "$plain" "$2"
    echo "$3" | wrap 19
}

# other YES_OR_NO NAME TEXT: a row with --all alone; without, the name of what is missing.
other() {
    [ "$all" = no ] || row "$@"
    [ "$1" = yes ] || others="$others${others:+, }$2"
}

status=0 lacks='' last='' others=''
while IFS='|' read -r kind name probe without packages; do
    chapters='' show=row
    case $kind:$name in
    required:*) chapters='chapters 00 to 05 lack' ;;
    tests:python3) chapters='chapters 02 to 05 lack' ;; # their labs
    tests:jq) chapters='chapter 01 lacks' ;;
    optional:MPI | outside:*GPU*) ;;
    *) show=other ;;
    esac
    if version=$($probe); then
        $show yes "$name" "${version:-found}"
        continue
    fi
    case $kind:$packages in
    outside:* | *'by hand'*) ;;
    *#*) packages=./setup.sh ;;
    *) packages="${install:-install} $packages" ;;
    esac
    [ "$all" = no ] || without="$without; to get it: $packages"
    $show no "$name" "$without"
    [ "$kind" != required ] || status=1
    [ -n "$chapters" ] || continue
    [ "$chapters" = "$last" ] || lacks="$lacks${lacks:+; }$chapters" sign=' '
    lacks="$lacks$sign$name" last=$chapters sign=', '
done <<END
$(parts)
END

# What the build was told to leave out, or did not find.
left_out=$(sed -n "s/^\(EXTRAS\|MPI\|CUDA\|NCCL\|CUDNN\)=0\$/\1=0/p" "${BUILD:-build}/parts" 2>/dev/null | tr '\n' ' ')
[ "$all" = no ] || [ -z "$left_out" ] || row no 'in this build' "${left_out% }; to build a part in: make, with 1 instead of 0"

if command -v nvcc >/dev/null && ! ls /dev/nvidia0 /dev/dxg >/dev/null 2>&1; then
    other yes 'GPU code' 'for the oldest GPUs; newer ones compile it anew at each start, if their driver knows this CUDA. For all: make CUDA_ARCH=all-major'
fi
row yes cores "$(nproc) of $(getconf _NPROCESSORS_ONLN) for this process"
for vectors in avx2 avx512f; do
    if grep -qsw $vectors /proc/cpuinfo; then
        other yes $vectors ''
    else
        other no $vectors 'slower arithmetic'
    fi
done
if ls data/mnist/train-images* >/dev/null 2>&1; then
    other yes MNIST data/mnist
else
    other no MNIST "no --dataset mnist; to get it: data/get_mnist.sh"
fi
[ "$all" = yes ] || echo "${others:+also missing: $others; }all parts: make doctor ARGS=--all" | wrap 0
echo "${lacks:-all that chapters 00 to 05 need is here}${lacks:+: type ./setup.sh}" | wrap 0
exit $status
