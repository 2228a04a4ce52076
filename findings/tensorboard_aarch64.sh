#!/bin/sh
# Tool:  tensorboard-data-server 0.7.2
# Guess: pip on Linux for 64-bit ARM gets a data server, as on x86-64.
# Seen:  it gets a wheel for "any" machine, in which there is no server.
# > x86_64: tensorboard_data_server/bin/server
# > aarch64: none
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"

for machine in x86_64 aarch64; do
    mkdir "$tmp/$machine"
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$tmp/$machine" \
        --platform manylinux2014_$machine --platform manylinux_2_31_$machine --platform any \
        tensorboard-data-server==0.7.2 >&2 || cannot "pip does not download tensorboard-data-server"
    server=$(python3 -m zipfile -l "$tmp/$machine"/*.whl | awk '$1 ~ /bin\/server$/ { print $1 }')
    echo "$machine: ${server:-none}"
done >"$tmp/all"
verdict <"$tmp/all"
