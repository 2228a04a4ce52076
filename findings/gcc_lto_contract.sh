#!/bin/sh
# Tool:  gcc 12.2.0 (Debian 12) with -flto, for a processor with FMA
# Guess: a file compiled with -ffp-contract=off has no fused multiply-adds, with -flto as without.
# Seen:  with -flto it has them if another file of the program is compiled without the flag; giving it to the link does
#        not help. 0.1 * 0.1 - 0.01 is then not 0.
# > without -flto: 0
# > -flto: -8.32667e-19
# > -flto, -ffp-contract=off to the link, too: -8.32667e-19
# > -flto, -ffp-contract=off to all files: 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
grep -qsw fma /proc/cpuinfo || cannot "this processor has no FMA, or is none of x86"
[ "$(gcc -dumpfullversion 2>/dev/null)" = 12.2.0 ] || cannot "another gcc"

echo 'double rest(double x, double y) { return x * x - y; }' >"$tmp/rest.c"
cat >"$tmp/main.c" <<'EOF'
#include <stdio.h>

double rest(double x, double y);

int main(int tenth, char **arguments)
{
    (void)arguments;
    printf("%g\n", rest(0.1 * tenth, 0.1 * 0.1));
}
EOF
# program LTO MAIN_FLAG LINK_FLAG: what it says, if rest.c is compiled with -ffp-contract=off
program() {
    # shellcheck disable=SC2086 # each is a flag or nothing
    {
        gcc -O2 -mfma $1 -ffp-contract=off -c -o "$tmp/rest.o" "$tmp/rest.c"
        gcc -O2 -mfma $1 $2 -c -o "$tmp/main.o" "$tmp/main.c"
        gcc -O2 -mfma $1 $3 -o "$tmp/program" "$tmp/rest.o" "$tmp/main.o"
    }
    "$tmp/program"
}
{
    echo "without -flto: $(program "" "" "")"
    echo "-flto: $(program -flto "" "")"
    echo "-flto, -ffp-contract=off to the link, too: $(program -flto "" -ffp-contract=off)"
    echo "-flto, -ffp-contract=off to all files: $(program -flto -ffp-contract=off "")"
} | verdict
