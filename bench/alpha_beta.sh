#!/bin/sh
# Usage: bench/alpha_beta.sh [CALLS]      (make scaling runs it, too)
# How long does an all-reduce take on many ranks? Measures it on 2 and 4, from 4 bytes to 16 MiB, over tcp
# and, where it is there, mpi; fits the model "a message takes alpha + bytes x beta"; says how wrong that
# is where it has been measured; and draws it out to 1,024 ranks: build/all_reduce.png and .svg (tcp).
set -eu
cd "$(dirname "$0")/.."
calls=${1:-51}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

for ranks in 2 4; do
    03_torchrun_env/ddprun --nproc-per-node $ranks build/bench/collectives tcp "$calls"
done >"$work/tcp"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for ranks in 2 4; do
    ! command -v mpirun >/dev/null ||
        mpirun --bind-to none --oversubscribe -n $ranks build/bench/collectives mpi "$calls" 2>/dev/null || :
done >"$work/mpi"

# Up to 32 KiB an all-reduce is log2(n) messages of all bytes, and above 2 (n - 1) of an n-th, as in
# chapter 02; what MPI does is its own affair. The fit makes the sum of (model - measured)^2 / (model x
# measured) least: twice too long counts as much as twice too short, whatever the size.
cat >"$work/fit.awk" <<'FIT'
{
    n = $1; steps = log(n) / log(2); bytes = $2 * steps
    if ($2 > 32768) { steps = 2 * (n - 1); bytes = 2 * (n - 1) / n * $2 }
    line[NR] = $0; measured[NR] = $3; messages[NR] = steps; moved[NR] = bytes
}
END {
    for (round = 0; round < 50; round++) {
        aa = ab = bb = ta = tb = 0
        for (i = 1; i <= NR; i++) {
            model = round ? alpha * messages[i] + beta * moved[i] : measured[i]
            weight = 1 / (model * measured[i])
            aa += weight * messages[i] * messages[i]; ab += weight * messages[i] * moved[i]
            bb += weight * moved[i] * moved[i]
            ta += weight * messages[i] * measured[i]; tb += weight * moved[i] * measured[i]
        }
        alpha = (ta * bb - tb * ab) / (aa * bb - ab * ab)
        beta = (tb - alpha * ab) / bb
    }
    print alpha, beta >fitted
    printf "\nall-reduce over %s: alpha %.0f us a message, beta %.2f ns a byte\n", name, 1e6 * alpha, 1e9 * beta
    print "ranks      bytes   measured, ms   model, ms   error"
    for (i = 1; i <= NR; i++) {
        split(line[i], field)
        model = alpha * messages[i] + beta * moved[i]
        error = model / measured[i] - 1
        printf "%5d %10d %14.3f %11.3f %+6.0f%%\n", field[1], field[2], 1e3 * measured[i], 1e3 * model, 100 * error
        sum += error * error
    }
    printf "the model is off by %.0f %% (root of the mean square)\n", 100 * sqrt(sum / NR)
}
FIT
for name in tcp mpi; do
    [ ! -s "$work/$name" ] || awk -v name=$name -v fitted="$work/fit_$name" -f "$work/fit.awk" "$work/$name"
done

read -r alpha beta <"$work/fit_tcp"
mkdir -p build
for format in png svg; do
    terminal="pngcairo size 800,460 font 'DejaVu Sans,10'"
    [ $format = svg ] && terminal="svg size 800,460 font 'DejaVu Sans,13' background 'white'"
    gnuplot <<END
set terminal $terminal
set output 'build/all_reduce.$format'
set termoption noenhanced
set tics nomirror scale 0.5
set border 3
set grid lc rgb '#dddddd'
set key outside top center horizontal maxcols 3 samplen 2
set logscale x 2
set logscale y
set xrange [1.8:1100]
set xtics (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
set xlabel 'ranks'
set ylabel 'milliseconds'
bytes(i) = 65536.0 * 16 ** (i - 1)
size(i) = word('"64 KiB" "1 MiB" "16 MiB"', i)
colour(i) = word('#4477aa #cc6677 #228833', i)
plot for [i = 1:3] 2e3 * (x - 1) * ($alpha + bytes(i) / x * $beta) with lines lw 2.5 lc rgb colour(i) \
        title size(i) . ': the model', \
    for [i = 1:3] 2e3 * (x - 1) / x * bytes(i) * $beta with lines lw 1.5 dt 2 lc rgb colour(i) \
        title size(i) . ': its bytes alone, 2 (n - 1)/n', \
    for [i = 1:3] '$work/tcp' using 1:(\$2 == bytes(i) ? 1e3 * \$3 : NaN) with points pt 7 ps 1.4 lc rgb colour(i) \
        title size(i) . ': measured'
END
    echo "build/all_reduce.$format"
done
