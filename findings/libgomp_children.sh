#!/bin/sh
# Tool:  libgomp of GCC 12.2 (Debian 12: libgomp1 12.2.0-14+deb12u1)
# Guess: OMP_PROC_BIND and OMP_PLACES hold OpenMP's threads in place. A program that the process starts is none of them,
#        and has all processors.
# Seen:  the library binds the first thread as it is loaded, and children inherit its one place: compilers, data loaders
#        and ranks that it starts share one processor.
# > no variable: child on all processors
# > OMP_PROC_BIND=true: child on one
# > OMP_PLACES=threads: child on one
# > OMP_PROC_BIND=true, before the first region: child on one
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
[ "$(dpkg-query -W -f '${Version}' libgomp1 2>/dev/null)" = "12.2.0-14+deb12u1" ] || cannot "another libgomp1"
unset OMP_NUM_THREADS OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY
processors=$(nproc)
[ "$processors" -gt 1 ] || cannot "one processor"

cat >"$tmp/child.c" <<'EOF'
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int before, char **arguments)
{
    int threads = 0;
    (void)arguments;
    if (before == 1) {
#pragma omp parallel reduction(+ : threads)
        threads += omp_get_thread_num() >= 0;
    }
    fprintf(stderr, "%d threads\n", threads);
    return system("nproc");
}
EOF
gcc -O1 -fopenmp -o "$tmp/child" "$tmp/child.c"
# child COMMAND...: the processors of the program that COMMAND starts
child() {
    count=$("$@" 2>"$tmp/errors")
    case $count in
        1) echo "child on one" ;;
        "$processors") echo "child on all processors" ;;
        *) echo "child on $count" ;;
    esac
}
{
    echo "no variable: $(child "$tmp/child")"
    echo "OMP_PROC_BIND=true: $(child env OMP_PROC_BIND=true "$tmp/child")"
    echo "OMP_PLACES=threads: $(child env OMP_PLACES=threads "$tmp/child")"
    echo "OMP_PROC_BIND=true, before the first region: $(child env OMP_PROC_BIND=true "$tmp/child" before)"
} | verdict
