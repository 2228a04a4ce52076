# shellcheck shell=sh
# What the scripts share: a temp folder that goes at the end, packages from public registries, and the verdict.
# FINDINGS_VENV names a venv to use and to keep: PyTorch with its CUDA libraries takes 5.5 GB and minutes.

export PYTHONWARNINGS=ignore TORCH_CPP_LOG_LEVEL=FATAL LC_ALL=C
script=$0
tmp=$(mktemp -d)
export TMPDIR="$tmp" # so that nothing stays behind
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Ends a script that cannot be tried on this machine.
cannot() {
    echo "not tried: $*"
    exit 2
}

# Installs PACKAGE==VERSION... and puts the venv's programs first.
install() {
    venv=${FINDINGS_VENV:-$tmp/venv}
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv" || cannot "python3 makes no venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2 || cannot "pip does not install $*"
    PATH=$venv/bin:$PATH
}

# Prints what was seen (standard input) and compares it with the header's lines "# > ".
verdict() {
    cat >"$tmp/seen"
    sed -n 's/^# > //p' "$script" >"$tmp/stated"
    cat "$tmp/seen"
    diff "$tmp/stated" "$tmp/seen" >"$tmp/diff" && echo "as stated" && return
    echo "changed: stated (<), seen (>)" && cat "$tmp/diff"
    return 1
}
