#!/bin/sh
# Usage: tools/site/site.sh      Makes the book as a web site: build/site/index.html (make site).
# Sphinx lies in a venv of its own, made once; SITE_VENV names its folder. From then on no network is needed.
set -eu
CDPATH='' cd "$(dirname "$0")/../.."
venv=${SITE_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp.c/site-venv}
build=${BUILD:-build}
pins=tools/site/requirements.txt
mkdir -p "$venv" "$build"

# Two runs at once must not write into one folder: the second waits for the first.
exec 9>"$venv/.lock"
flock -w 600 9 || { echo "site: $venv is locked: another make site is at work" >&2 && exit 1; }
if ! cmp -s $pins "$venv/requirements.txt"; then
    echo "site: installing Sphinx into $venv (half a minute, 100 MB)" >&2
    if ! python3 -m venv "$venv" >"$build/site.log" 2>&1 || ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --timeout 10 --retries 0 --requirement $pins >>"$build/site.log" 2>&1; then
        echo "site: cannot install Sphinx: is this machine online? ($build/site.log has the reason)" >&2
        exit 1
    fi
    cp $pins "$venv/requirements.txt"
fi
exec 9>&-

mkdir -p "$build/site.pages"
rm -rf "$build/site" # all pages are written again: each has the titles of the others in its side bar
"$venv/bin/python" -B -m sphinx -a -q -W --keep-going -c tools/site -d "$build/site.doctrees" "$build/site.pages" "$build/site" >&2
echo "site: open $build/site/index.html in a browser"
