#!/bin/sh
# Usage: bench/alpha_beta.sh [CALLS]      (make scaling runs it, too)
# How long does an all-reduce take on many ranks? Measures it on 2 and 4, from 4 bytes to 16 MiB, over tcp
# and, where it is there, mpi; fits the model "a message takes alpha + bytes x beta"; says how wrong that
# is where it has been measured; and draws it out to 1,024 ranks: build/all_reduce.png and .svg (tcp).
# build/all_reduce.txt gets its alpha, and its beta in the cache and beyond.
set -eu
export LC_ALL=C.UTF-8 # awk and sort take and print 0.5, not 0,5
CDPATH='' cd "$(dirname "$0")/.."
calls=${1:-51}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM

for ranks in 2 4; do
    03_torchrun_env/ddprun --nproc-per-node $ranks build/bench/collectives tcp "$calls"
done >"$work/tcp"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for ranks in 2 4; do
    ! command -v mpirun >/dev/null ||
        mpirun --bind-to none --oversubscribe -n $ranks build/bench/collectives mpi "$calls" 2>/dev/null || :
done >"$work/mpi"

# Up to 32 KiB an all-reduce is log2(n) messages of all bytes, and above 2 (n - 1) of an n-th, as in
# chapter 02; what MPI does is its own affair. A byte has two prices: up to 1 MiB (place 1) the arrays stay
# in the processor's cache, beyond (place 2) they do not. Ranks that share cores have an alpha of their own,
# so each number of ranks is fitted alone. The fit makes the sum of (model - measured)^2 / (model x measured)
# least, one constant after the other until they stay: twice too long counts as much as twice too short.
cat >"$work/fit.awk" <<'FIT'
{
    n = $1; steps = log(n) / log(2); bytes = $2 * steps
    if ($2 > 32768) { steps = 2 * (n - 1); bytes = 2 * (n - 1) / n * $2 }
    size[NR] = $2; measured[NR] = $3; messages[NR] = steps; moved[NR] = bytes; place[NR] = $2 <= 1048576 ? 1 : 2
}
function model(i) { return alpha * messages[i] + beta[place[i]] * moved[i] }
END {
    for (round = 0; round < 500; round++) {
        over = under = 0
        for (i = 1; i <= NR; i++) {
            weight[i] = 1 / (measured[i] * (round ? model(i) : measured[i]))
            over += weight[i] * messages[i] * (measured[i] - beta[place[i]] * moved[i])
            under += weight[i] * messages[i] ^ 2
        }
        alpha = over > 0 ? over / under : 1e-9
        for (p = 1; p <= 2; p++) {
            over = under = 0
            for (i = 1; i <= NR; i++)
                if (place[i] == p) {
                    over += weight[i] * moved[i] * (measured[i] - alpha * messages[i])
                    under += weight[i] * moved[i] ^ 2
                }
            beta[p] = over > 0 ? over / under : 1e-15
        }
    }
    print alpha, beta[1], beta[2] >fitted
    printf "\nall-reduce over %s, %d ranks: alpha %.0f us a message, beta %.2f ns a byte in the cache, %.2f beyond\n",
        name, n, 1e6 * alpha, 1e9 * beta[1], 1e9 * beta[2]
    print "     bytes   measured, ms   model, ms   error"
    for (i = 1; i <= NR; i++) {
        error = model(i) / measured[i] - 1
        printf "%10d %14.3f %11.3f %+6.0f%%\n", size[i], 1e3 * measured[i], 1e3 * model(i), 100 * error
        sum += error * error
    }
    printf "the model is off by %.0f %% (root of the mean square)\n", 100 * sqrt(sum / NR)
}
FIT
for name in tcp mpi; do
    for ranks in 2 4; do
        grep "^$ranks " "$work/$name" >"$work/one" || continue
        awk -v name=$name -v fitted="$work/fit_$name$ranks" -f "$work/fit.awk" "$work/one"
    done
done

mkdir -p build
cp "$work/fit_tcp2" build/all_reduce.txt # of ranks with a core each: for the picture, and step_time.sh
read -r alpha near far <build/all_reduce.txt
for format in png svg; do
    terminal="pngcairo size 900,460 font 'DejaVu Sans,10'"
    [ $format = svg ] && terminal="svg size 900,460 font 'DejaVu Sans,13' background 'white'"
    gnuplot <<END
$(tools/colours.py)
set terminal $terminal
set output 'build/all_reduce.$format'
set grid
set title 'an all-reduce, milliseconds: measured (points), by the model (lines), and its bytes alone (dashes)'
set rmargin 25
set logscale x 2
set logscale y
set xrange [1.8:1100]
set xtics (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
set xlabel 'ranks'
bytes(i) = 65536.0 * 16 ** (i - 1)
size(i) = word('"64 KiB" "1 MiB" "16 MiB"', i)
beta(i) = i < 3 ? $near : $far
model(i, x) = 2e3 * (x - 1) * ($alpha + bytes(i) / x * beta(i))
alone(i, x) = 2e3 * (x - 1) / x * bytes(i) * beta(i)
set label 1 size(1) at 1100, model(1, 1100) left offset 1,0 textcolor rgb text
set label 2 size(2) at 1100, model(2, 1100) left offset 1,0.5 textcolor rgb text
set label 3 size(3) at 1100, model(3, 1100) left offset 1,0 textcolor rgb text
set label 4 size(1) . ', its bytes alone' at 1100, alone(1, 1100) left offset 1,0 textcolor rgb muted
set label 5 size(2) . ', its bytes alone' at 1100, alone(2, 1100) left offset 1,-0.3 textcolor rgb muted
plot for [i = 1:3] model(i, x) with lines lt 1 notitle, \
    for [i = 1:3] alone(i, x) with lines lt 3 notitle, \
    for [i = 1:3] '$work/tcp' using 1:(\$2 == bytes(i) ? 1e3 * \$3 : NaN) with points pt 7 ps 1 lc rgb text notitle
END
    echo "build/all_reduce.$format"
done
