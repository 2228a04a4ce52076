#!/bin/sh
# Usage: [PREFIX=/usr/local] [DESTDIR=] tools/install.sh install|uninstall      What make install and make uninstall run.
# Installs step 05's launcher as ddprun and the tools as ddp_NAME, each with a manual page made from its --help.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
bin=${DESTDIR:-}${PREFIX:-/usr/local}/bin
man=${DESTDIR:-}${PREFIX:-/usr/local}/share/man/man1
pages=yes
command -v help2man >/dev/null || pages=no

# each COMMAND: COMMAND PROGRAM NAME WHAT for every program.
each() {
    "$1" 05_fault_tolerance/ddprun ddprun 'starts the ranks of a training, and restarts them when one fails'
    "$1" tools/ddp_doctor ddp_doctor 'says which rank of a training hangs, is missing or is slow'
    "$1" tools/evaluate ddp_evaluate 'tests a trained model'
    "$1" tools/export ddp_export 'hands on a trained model, with what it needs'
    "$1" tools/predict ddp_predict 'says what a picture shows'
    "$1" tools/serve ddp_serve 'answers with what a picture shows, over HTTP'
    "$1" tools/shards ddp_shards 'prints the rows of a data set that a rank gets'
    "$1" tools/watch ddp_watch 'shows a running training in a browser'
}

put() {
    [ -x "$1" ] || { echo "left out: $2 ($1 is not built)" && return; }
    install -m 755 "$1" "$bin/$2"
    [ $pages = no ] || help2man --no-info --no-discard-stderr --name="$3" --output="$man/$2.1" "$1"
}

drop() {
    rm -f "$bin/$2" "$man/$2.1"
}

case ${1:-} in
install)
    mkdir -p "$bin" "$man"
    each put
    [ $pages = yes ] || echo 'no manual pages: help2man is missing'
    echo "installed in $bin: ddprun, and the tools as ddp_*"
    ;;
uninstall)
    each drop
    echo "removed from $bin: ddprun, and the tools ddp_*"
    ;;
*) echo 'usage: [PREFIX=/usr/local] [DESTDIR=] tools/install.sh install|uninstall' >&2 && exit 2 ;;
esac
