#!/bin/sh
# Usage: tests/march/arm64_libraries.sh FOLDER      Unpacks into FOLDER the libraries of an ARM machine
# that the tests are linked with, from Debian's packages. Nothing is installed, and no root is needed.
set -eu
folder=$1
mkdir -p "${folder%/*}"
exec 9>"$folder.lock" && flock 9 # two tests may ask at once
[ ! -e "$folder/usr/include/libdeflate.h" ] || exit 0
if ! command -v apt-get >/dev/null; then
    echo 'no apt-get here' && exit 1
fi
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs"

# apt_get COMMAND...: as on an ARM machine where nothing is installed.
apt_get() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::status=/dev/null \
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User= "$@"
}
apt_get update
(cd "$work/debs" && apt_get download libcmocka0 libcmocka-dev libyaml-0-2 libyaml-dev libjansson4 \
    libjansson-dev libsodium23 libsodium-dev zlib1g zlib1g-dev libdeflate0 libdeflate-dev)
for package in "$work"/debs/*.deb; do
    dpkg-deb -x "$package" "$work/root"
done
rm -rf "$folder" && mv "$work/root" "$folder"
