#!/bin/sh
# Tool:  gcc 12.2.0 with glibc 2.36 (Debian 12), -O3 -ffast-math
# Guess: -ffast-math may change the last bits of expf(), but equal elements of one array get equal results.
# Seen:  the loop takes four elements at a time with libmvec's expf, and what is left with the ordinary one: equal
#        elements differ by their place, and so would equal logits. -fno-tree-vectorize is one cure.
# > -O3, arrays of 11 equal numbers: results equal
# > -O3 -ffast-math, arrays of 11 equal numbers: results differ
# > -O3 -ffast-math, arrays of 12 equal numbers: results equal
# > -O3 -ffast-math -fno-tree-vectorize, arrays of 11 equal numbers: results equal
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
[ "$(uname -sm)" = "Linux x86_64" ] || cannot "libmvec's expf is that of x86-64"
[ "$(gcc -dumpfullversion 2>/dev/null)" = 12.2.0 ] || cannot "another gcc"
[ "$(getconf GNU_LIBC_VERSION)" = "glibc 2.36" ] || cannot "another glibc"

cat >"$tmp/equal.c" <<'EOF'
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
    int n = atoi(arguments[count - 1]), differ = 0;
    float logits[16], results[16];
    for (int k = 0; k < 1000; k++) {
        for (int i = 0; i < n; i++) logits[i] = -0.01f * (float)k;
        for (int i = 0; i < n; i++) results[i] = expf(logits[i]);
        for (int i = 1; i < n; i++) differ |= results[i] != results[0];
    }
    printf("arrays of %d equal numbers: results %s\n", n, differ ? "differ" : "equal");
}
EOF
# results COUNT FLAG...: what the program says of arrays of COUNT
results() {
    count=$1
    shift
    gcc "$@" -o "$tmp/equal" "$tmp/equal.c" -lm
    echo "$*, $("$tmp/equal" "$count")"
}
{
    results 11 -O3
    results 11 -O3 -ffast-math
    results 12 -O3 -ffast-math
    results 11 -O3 -ffast-math -fno-tree-vectorize
} | verdict
