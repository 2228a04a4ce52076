#!/bin/sh
# Tool:  zig cc of Zig 0.17.0 (wheel ziglang), which is clang 22
# Guess: with -O2 as clang -O2: assert() checks, and the program is for any x86-64.
# Seen:  -O1 and above define NDEBUG, which removes assert(). The program is for the processor at hand: with FMA,
#        0.1 * 0.1 - 0.01 is rounded once, and not 0. -UNDEBUG and -mcpu=x86_64 give what clang does.
# > zig cc: assert(), -8.32667e-19
# > zig cc -O2: no assert(), -8.32667e-19
# > zig cc -O2 -UNDEBUG -mcpu=x86_64: assert(), 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
grep -qw fma /proc/cpuinfo || cannot "this processor has no FMA, or is none of x86"
install ziglang==0.17.0
export ZIG_GLOBAL_CACHE_DIR="$tmp/cache"

cat >"$tmp/square.c" <<'EOF'
#include <stdio.h>

int main(int tenth, char **arguments)
{
    double x = 0.1 * tenth;
    (void)arguments;
#ifdef NDEBUG
    printf("no ");
#endif
    printf("assert(), %g\n", x * x - 0.1 * 0.1);
}
EOF
# builds FLAG...: what the program says.
builds() {
    python -m ziglang cc "$@" -o "$tmp/square" "$tmp/square.c" 2>"$tmp/errors" || cannot "zig cc $*"
    echo "zig cc${*:+ $*}: $("$tmp/square")"
}
{ builds && builds -O2 && builds -O2 -UNDEBUG -mcpu=x86_64; } >"$tmp/all"
verdict <"$tmp/all"
