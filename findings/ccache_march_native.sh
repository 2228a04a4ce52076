#!/bin/sh
# Tool:  ccache 4.7.5 with gcc 12.2.0 and -march=native (Debian 12)
# Guess: two machines that share a cache compile for their own processor each: ccache knows what "native" stands for.
# Seen:  it takes the flag by its letters. The older machine, here qemu-user's Nehalem, gets an object with fused
#        multiply-adds, which it cannot run. (ccache 4.14.2 compiles anew.)
# > gcc on Haswell: FMA, on Nehalem: no FMA
# > ccache on Haswell: FMA, then on Nehalem: FMA
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
[ "$(uname -sm)" = "Linux x86_64" ] || cannot "the processors are those of x86-64"
[ "$(gcc -dumpfullversion 2>/dev/null)" = 12.2.0 ] || cannot "another gcc"
command -v qemu-x86_64 >/dev/null || cannot "no qemu-x86_64 (Debian: qemu-user)"
/usr/bin/ccache --version 2>/dev/null | grep -q '^ccache version 4\.7\.5$' || cannot "another ccache"
export CCACHE_DIR="$tmp/ccache"

cat >"$tmp/machine-cc" <<'EOF'
#!/bin/sh
exec qemu-x86_64 -cpu "$PROCESSOR" /usr/bin/gcc "$@" # only gcc itself asks for the processor
EOF
chmod +x "$tmp/machine-cc"
echo 'double f(double a, double b, double c) { return a * b + c; }' >"$tmp/f.c"
# on PROCESSOR COMPILER...: whether the object holds a fused multiply-add
on() {
    processor=$1
    shift
    PROCESSOR=$processor "$@" "$tmp/machine-cc" -O2 -march=native -c "$tmp/f.c" -o "$tmp/f.o" 2>"$tmp/errors"
    objdump -d "$tmp/f.o" | grep -q vfmadd || printf 'no '
    echo FMA
}
{
    echo "gcc on Haswell: $(on Haswell env), on Nehalem: $(on Nehalem env)"
    echo "ccache on Haswell: $(on Haswell /usr/bin/ccache), then on Nehalem: $(on Nehalem /usr/bin/ccache)"
} | verdict
