#!/bin/sh
# Tool:  gcc 12.2.0 and clang 14.0.6 (Debian 12), for a processor with FMA
# Guess: -std=c11 takes names and extensions away from -std=gnu11, the default: numbers stay.
# Seen:  with it gcc joins no product and sum in a fused multiply-add, which rounds once: 0.1 * 0.1 - 0.01 is 0 and not
#        what was rounded off. Other bits, and slower loops. clang does not look at -std.
# > gcc -mfma: -8.32667e-19
# > gcc -mfma -std=gnu11: -8.32667e-19
# > gcc -mfma -std=c11: 0
# > gcc -mfma -std=c11 -ffp-contract=fast: -8.32667e-19
# > clang -mfma -std=gnu11: -8.32667e-19
# > clang -mfma -std=c11: -8.32667e-19
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
grep -qsw fma /proc/cpuinfo || cannot "this processor has no FMA, or is none of x86"
[ "$(gcc -dumpfullversion 2>/dev/null)" = 12.2.0 ] || cannot "another gcc"
clang --version 2>/dev/null | grep -q 'version 14\.0\.6$' || cannot "another clang"

cat >"$tmp/square.c" <<'EOF'
#include <stdio.h>

int main(int tenth, char **arguments)
{
    double x = 0.1 * tenth;
    (void)arguments;
    printf("%g\n", x * x - 0.1 * 0.1);
}
EOF
# builds COMPILER FLAG...: what the program says
builds() {
    "$@" -O2 -o "$tmp/square" "$tmp/square.c"
    echo "$*: $("$tmp/square")"
}
{
    builds gcc -mfma
    builds gcc -mfma -std=gnu11
    builds gcc -mfma -std=c11
    builds gcc -mfma -std=c11 -ffp-contract=fast
    builds clang -mfma -std=gnu11
    builds clang -mfma -std=c11
} | verdict
