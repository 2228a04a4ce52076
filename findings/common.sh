# shellcheck shell=sh
# What the scripts share: a temp folder that goes at the end, packages from public registries, and the verdict.
# FINDINGS_VENV names a venv to use and to keep for PyTorch, which with its CUDA libraries takes 5.5 GB and minutes.

export PYTHONWARNINGS=ignore TORCH_CPP_LOG_LEVEL=FATAL LC_ALL=C
unset PYTHONUNBUFFERED # with it, ranks print a line in pieces
script=$0
tmp=$(mktemp -d)
export TMPDIR="$tmp" # so that nothing stays behind
launcher= # what a script has started in the background and not waited for
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' HUP TERM

# Leaves neither launcher nor folder behind, also after an interrupt.
end() {
    [ -z "$launcher" ] || { kill -TERM "$launcher" && wait "$launcher"; } 2>/dev/null || true
    rm -rf "$tmp"
}

# Ends a script that cannot be tried on this machine. In a pipe, it would end that part alone.
cannot() {
    echo "not tried: $*" >&2
    exit 2
}

# Installs PACKAGE==VERSION... and puts the venv's programs first.
install() {
    venv=$tmp/venv
    case "$*" in *torch==*) venv=${FINDINGS_VENV:-$venv} ;; esac
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv" || cannot "python3 makes no venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2 || cannot "pip does not install $*"
    PATH=$venv/bin:$PATH
}

# Waits until FILE has COUNT lines "up", two minutes at most.
wait_for() {
    tries=0
    while [ "$(grep -cx up "$2")" -lt "$1" ] && [ $tries -lt 120 ]; do sleep 1 && tries=$((tries + 1)); done
}

# Prints what was seen (standard input) and compares it with the header's lines "# > ".
verdict() {
    cat >"$tmp/seen"
    sed -n 's/^# > //p' "$script" >"$tmp/stated"
    cat "$tmp/seen"
    diff "$tmp/stated" "$tmp/seen" >"$tmp/diff" && echo "as stated" && return
    echo "changed: stated (<), seen (>)" && cat "$tmp/diff"
    [ ! -s "$tmp/errors" ] || tail -n 5 "$tmp/errors" >&2
    return 1
}
