#!/bin/sh
# Tool:  gcc 12.2.0 (Debian 12), _Float16 on a processor that has its arithmetic (AVX512-FP16)
# Guess: _Float16 rounds each operation to 16 bits, and -march only makes it faster.
# Seen:  without -march a whole expression is computed in 32 bits and rounded once; with it, each operation rounds: a
#        mean that was right becomes inf. -fexcess-precision=16 rounds so on every processor.
# > gcc -O2: 2048 + 1 + 1 = 2050, (60000 + 60000) / 2 = 60000
# > gcc -O2 -march=sapphirerapids: 2048 + 1 + 1 = 2048, (60000 + 60000) / 2 = inf
# > gcc -O2 -fexcess-precision=16: 2048 + 1 + 1 = 2048, (60000 + 60000) / 2 = inf
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
grep -qsw avx512_fp16 /proc/cpuinfo || cannot "this processor has no AVX512-FP16"
[ "$(gcc -dumpfullversion 2>/dev/null)" = 12.2.0 ] || cannot "another gcc"

cat >"$tmp/half.c" <<'EOF'
#include <stdio.h>

int main(int one, char **arguments)
{
    _Float16 unit = one, large = 2048 * one, larger = 60000 * one;
    (void)arguments;
    _Float16 sum = large + unit + unit, mean = (larger + larger) / (unit + unit);
    printf("2048 + 1 + 1 = %g, (60000 + 60000) / 2 = %g\n", (double)sum, (double)mean);
}
EOF
# builds FLAG...: what the program says
builds() {
    gcc "$@" -o "$tmp/half" "$tmp/half.c"
    echo "gcc $*: $("$tmp/half")"
}
{ builds -O2 && builds -O2 -march=sapphirerapids && builds -O2 -fexcess-precision=16; } | verdict
