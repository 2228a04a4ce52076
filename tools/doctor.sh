#!/bin/sh
# Usage: tools/doctor.sh      What this machine has, what a missing part means, and how to get it.
set -eu
cd "$(dirname "$0")/.."
. tools/parts.sh

green='' red='' plain=''
if [ -t 1 ]; then
    green=$(printf '\033[32m') red=$(printf '\033[31m') plain=$(printf '\033[0m')
fi

# row YES_OR_NO NAME TEXT
row() {
    colour=$green
    [ "$1" = yes ] || colour=$red
    printf '%s%-3s%s  %-13s %s\n' "$colour" "$1" "$plain" "$2" "$3"
}

status=0
while IFS='|' read -r kind name probe without packages; do
    if version=$($probe); then
        row yes "$name" "${version:-found}"
        continue
    fi
    case $kind:$packages in
    outside:* | *'by hand'*) ;;
    *#*) packages=./setup.sh ;;
    *) packages="${install:-install} $packages" ;;
    esac
    row no "$name" "$without; to get it: $packages"
    [ "$kind" != required ] || status=1
done <<END
$(parts)
END

# What the build was told to leave out, or did not find.
left_out=$(sed -n "s/^\(EXTRAS\|MPI\|CUDA\|NCCL\|CUDNN\)=0\$/\1=0/p" "${BUILD:-build}/parts" 2>/dev/null | tr '\n' ' ')
[ -z "$left_out" ] || row no 'in this build' "${left_out% }; to build a part in: make, with 1 instead of 0"

if command -v nvcc >/dev/null && ! ls /dev/nvidia0 /dev/dxg >/dev/null 2>&1; then
    row yes 'GPU code' 'for the oldest GPUs; newer ones compile it anew at each start. For all of them: make CUDA_ARCH=all-major'
fi
row yes cores "$(nproc) of $(getconf _NPROCESSORS_ONLN) for this process"
for vectors in avx2 avx512f; do
    if grep -qsw $vectors /proc/cpuinfo; then
        row yes $vectors ''
    else
        row no $vectors 'slower arithmetic'
    fi
done
if ls data/mnist/train-images* >/dev/null 2>&1; then
    row yes MNIST data/mnist
else
    row no MNIST "no --dataset mnist; to get it: data/get_mnist.sh"
fi
exit $status
