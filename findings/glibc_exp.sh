#!/bin/sh
# Tool:  glibc of Debian 12 (libc6 2.36-9+deb12u14)
# Guess: a program and its libm.so.6 print the same exp() on every x86-64: the processor matters only to -march.
# Seen:  exp, log and pow have variants with fused multiply-adds, chosen at run time on processors that have these. They
#        round some last bits another way.
# > exp() of 1000000 numbers, a processor with FMA and one without: 698 differ
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
command -v cc >/dev/null || cannot "no cc"
grep -qsw fma /proc/cpuinfo || cannot "this processor has no FMA"
[ "$(dpkg-query -W -f '${Version} ${Architecture}' libc6 2>/dev/null)" = "2.36-9+deb12u14 amd64" ] || cannot "another glibc"

cat >"$tmp/exp.c" <<'EOF'
#include <math.h>
#include <stdint.h>
#include <stdio.h>

int main(void)
{
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < 1000000; i++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17; /* xorshift */
        printf("%a\n", exp(-20 * (double)(bits >> 11) / 9007199254740992.0));
    }
    return 0;
}
EOF
cc -O2 -march=x86-64 -o "$tmp/exp" "$tmp/exp.c" -lm
"$tmp/exp" >"$tmp/with"
GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-FMA4 "$tmp/exp" >"$tmp/without"
echo "exp() of 1000000 numbers, a processor with FMA and one without: $(diff "$tmp/with" "$tmp/without" | grep -c '^<') differ" | verdict
