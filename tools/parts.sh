# parts.sh - the parts of a machine that the project uses: how to find each, and how to get it.
# Sourced by setup.sh, which installs what is missing, and by doctor.sh, which shows everything.
# shellcheck shell=sh

# Prints a line for every part: KIND|NAME|PROBE|WITHOUT|PACKAGES. KIND: required to build, tests (to
# run them), checks (to run the slower ones), optional, slurm, browser and play (setup.sh --slurm ...), extra (setup.sh does
# not install it), or outside (no package, but advice).
# PROBE: a command that succeeds where the part is, and prints its version.
# PACKAGES: names; URL#SHA256 for a package that the distribution does not have; or 'by hand: ADVICE'.
parts() {
    part required 'C compiler' 'header stdio.h __VERSION__' 'nothing can be built' \
        'gcc libc6-dev' gcc gcc 'gcc musl-dev' gcc
    part required OpenMP 'header omp.h _OPENMP -fopenmp' "only 'make OPENMP=' builds, unthreaded" \
        gcc gcc gcc gcc gcc
    part required make 'program make' 'nothing can be built' make make make make make
    part required zlib 'header zlib.h ZLIB_VERSION' 'no data set can be unpacked' \
        zlib1g-dev zlib-devel zlib zlib-dev zlib-devel
    part required libyaml 'header yaml.h' 'no config.yaml can be read' \
        libyaml-dev libyaml-devel libyaml yaml-dev libyaml-devel
    part required libsodium 'header sodium.h' "only 'make EXTRAS=0' builds: no job can have a secret" \
        libsodium-dev libsodium-devel libsodium libsodium-dev libsodium-devel
    part required jansson 'header jansson.h JANSSON_VERSION' 'no checkpoint can be written' \
        libjansson-dev jansson-devel jansson jansson-dev libjansson-devel

    part tests cmocka 'header cmocka.h' "no 'make test': the C programs among the tests use it" \
        libcmocka-dev libcmocka-devel cmocka cmocka-dev libcmocka-devel
    bats=bats chromium=chromium firefox=firefox-esr
    # shellcheck source=/dev/null
    system=$(. "${OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${ID:-} ${UBUNTU_CODENAME:-}") || system=''
    case $system in *' jammy') # has bats 1.2, and runs that of 24.04
        bats=http://archive.ubuntu.com/ubuntu/pool/universe/b/bats/bats_1.10.0-1_all.deb
        bats=$bats#11304638193dddce946021d665a275a6c80a0c7188eb5ba38d82661ded1e8f18 ;;
    esac
    case $system in 'ubuntu '*) # has it only as a snap
        chromium='by hand: google.com/chrome (Ubuntu has Chromium only as a snap)'
        firefox='by hand: mozilla.org/firefox (Ubuntu has Firefox only as a snap)' ;;
    esac

    part tests bats recent_bats "no 'make test': it runs the command lines" \
        "$bats" bats bash-bats bats bats
    part tests prove 'program prove' "no 'make test': it runs and counts all the tests" \
        perl perl-Test-Harness perl perl-utils perl
    part tests python3 python_venv "no 'make test', and no 'make check-lab': it judges the labs" \
        'python3 python3-venv' python3 python python3 python3
    part tests ip 'location ip' "no tests with two hosts" iproute2 iproute iproute2 iproute2 iproute2
    part tests pgrep 'program pgrep' "no 'make test': it looks which processes are left" \
        procps procps-ng procps-ng procps procps
    part tests aspell 'location aspell' "no 'make test': it reads the documents" \
        'aspell aspell-en' 'aspell aspell-en' 'aspell aspell-en' 'aspell aspell-en' 'aspell aspell-en'
    part tests jq 'program jq' "no 'make test', and not all of chapter 01: it reads JSON" jq jq jq jq jq
    part tests gnuplot 'program gnuplot' "no 'make plot'" gnuplot-nox gnuplot gnuplot gnuplot gnuplot
    part tests curl 'program curl' "no 'make test': it gets files as data/get_mnist.sh does" \
        curl curl curl curl curl
    part tests wget 'program wget' "no 'make test': nor does it get them the other way" \
        wget wget wget wget wget

    part checks libFuzzer fuzzer "no 'make check-fuzz'" \
        clang 'clang compiler-rt' 'clang compiler-rt' 'clang compiler-rt' clang

    part checks bubblewrap 'program bwrap' "no 'make check-class', and no grades: it is the fence around submissions" \
        bubblewrap bubblewrap bubblewrap bubblewrap bubblewrap
    part checks uidmap 'location newuidmap' "only root can grade submissions" \
        uidmap shadow-utils shadow shadow-uidmap shadow

    part checks g++ 'program g++' "no 'make check-cuda', and nvcc needs it" \
        g++ gcc-c++ gcc g++ gcc-c++

    [ "$manager" -ne 0 ] || # apt; other systems get it only from https://spinroot.com
        part checks Spin 'location spin' "no 'make check-proved'" spin

    part checks QEMU 'program qemu-aarch64' "no 'make check-march' for other processors than this" \
        qemu-user qemu-user qemu-user 'qemu-aarch64 qemu-x86_64' qemu-linux-user
    [ "$manager" -ne 0 ] || # apt, whose packages for ARM the tests link with
        part checks aarch64-gcc 'program aarch64-linux-gnu-gcc' "no 'make check-march' for ARM" \
            'gcc-aarch64-linux-gnu libc6-dev-arm64-cross'

    part optional MPI mpi 'no --backend mpi, no LAUNCHER=mpirun' \
        'libopenmpi-dev openmpi-bin' openmpi-devel openmpi 'openmpi openmpi-dev' openmpi-devel
    part optional libpng 'header png.h PNG_LIBPNG_VER_STRING' 'tools/predict and tools/serve read PGM only' \
        libpng-dev libpng-devel libpng libpng-dev libpng16-devel
    part optional libmicrohttpd 'header microhttpd.h' 'no tools/serve and no tools/watch' \
        libmicrohttpd-dev libmicrohttpd-devel libmicrohttpd libmicrohttpd-dev libmicrohttpd-devel
    part optional libdeflate 'header libdeflate.h LIBDEFLATE_VERSION_STRING' 'zlib computes the checksums of checkpoints, in ten times the time' \
        libdeflate-dev libdeflate-devel libdeflate libdeflate-dev libdeflate-devel
    part optional ctags 'program ctags' "the site's pages of sources have no outline, and their names no links" \
        universal-ctags ctags ctags ctags ctags

    cuda=${CUDA_HOME:-$(tools/cuda_home.sh)}
    part outside CUDA "program $cuda/bin/nvcc" 'no --device cuda' 'docs/on_a_gpu.md has one line of pip, or developer.nvidia.com/cuda-downloads'
    part outside cuBLAS "header cublas_v2.h CUBLAS_VER_MAJOR.CUBLAS_VER_MINOR -I$cuda/include" \
        'CUDA=0 is needed to build' 'it comes with CUDA, unless deselected (libcublas-dev)'
    part outside NCCL "header nccl.h NCCL_MAJOR.NCCL_MINOR -I$(tools/cuda_home.sh nccl "$cuda")/include -I$cuda/include" 'no --backend nccl' \
        'pip install nvidia-nccl-cu13, or developer.nvidia.com/nccl'
    part outside cuDNN "header cudnn.h CUDNN_MAJOR.CUDNN_MINOR -I$(tools/cuda_home.sh cudnn "$cuda")/include -I$cuda/include" 'no --conv cudnn' \
        'pip install nvidia-cudnn-cu13, or developer.nvidia.com/cudnn'
    part outside 'GPU driver' driver 'ranks train on CPUs' 'nvidia.com/drivers, or your administrator'
    part outside 'NVIDIA GPU' gpus 'ranks train on CPUs' 'a machine that has one'
    part slurm Slurm 'daemon slurmctld' '04 pretends its nodes, unless this is a cluster' \
        'slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge' \
        'slurm-slurmctld slurm-slurmd slurm munge' slurm-llnl 'slurm munge' 'slurm slurm-node munge'
    part browser Chromium browser "no 'make check-browser'" "$chromium" chromium chromium chromium chromium
    [ "$manager" -ne 0 ] || { # apt, whose packages are known to work together
        part browser Firefox mozilla "play.html is tested in Chromium alone" "$firefox"
        part play clang 'program clang' "no 'make play'" clang
        part play lld 'location wasm-ld' "no 'make play'" lld
        part play wasi-libc wasi "no 'make play'" 'wasi-libc libclang-rt-dev-wasm32'
        part play binaryen 'program wasm-opt' "no 'make play'" binaryen
    }
    part outside torchrun 'location torchrun' 'no LAUNCHER=torchrun' 'pip install torch'
    part extra tc 'location tc' 'no bench/two_nodes.sh' iproute2 iproute-tc iproute2 iproute2 iproute2
    part extra clang-format 'program clang-format' "no 'make format'" \
        clang-format clang-tools-extra clang clang-extra-tools clang-tools
    part extra shellcheck 'program shellcheck' 'scripts are not checked' \
        shellcheck ShellCheck shellcheck shellcheck ShellCheck
    part extra ruff 'program ruff' 'Python files are not checked' 'by hand: pip install ruff'
    part extra help2man 'program help2man' "'make install' makes no manual pages" \
        help2man help2man help2man help2man help2man
}

# wrap COLUMN: on a terminal, breaks lines at words; what follows begins in that column, too.
wrap() {
    size=''
    [ ! -t 1 ] || { size=$(stty size <&3 2>/dev/null) || :; } 3>&1
    if [ "${size##* }" -ge 40 ] 2>/dev/null; then
        fold -s -w $((${size##* } - $1)) | sed "s/ *\$//; 2,\$s/^/$(printf "%$1s")/"
    else
        cat
    fi
}

# The package names are those of apt, dnf, pacman, apk and zypper in turn.
part() {
    fields="$1|$2|$3|$4"
    shift 4
    [ $# -eq 1 ] || shift "$manager"
    echo "$fields|$1"
}

# header FILE [MACRO [OPTION]]: can the C compiler include it? Prints what the macro stands for.
header() {
    text=$(printf '#include <%s>\n%s\n' "$1" "${2:-}" |
        "${CC:-cc}" -E -P ${3:+"$3"} - 2>/dev/null) || return 1
    [ -z "${2:-}" ] || echo "$text" | tail -n 1 | tr -d '" '
}

# Is the C library that programs run with musl, as on Alpine?
musl() {
    ldd "$(command -v sh)" 2>&1 | grep -q musl
}

# program NAME: prints the first thing like a version in the output of its --version.
program() {
    command -v "$1" >/dev/null || return 1
    "$1" --version 2>/dev/null | grep -o '[0-9][0-9]*\.[0-9][0-9.]*' | head -n 1
}

# Older versions know neither 'run -1' nor a folder for each test.
recent_bats() {
    version=$(program bats)
    case $version in '' | 0.* | 1.[0-7].*) return 1 ;; esac
    echo "$version"
}

mpi() {
    command -v mpicc >/dev/null && program mpirun
}

# Can clang make a fuzzer with sanitizers? Its runtime may be a package of its own.
fuzzer() {
    echo 'int LLVMFuzzerTestOneInput(const void *data, unsigned long size) { return 0; }' |
        clang -w -fsanitize=fuzzer,address,undefined -x c -o /dev/null - 2>/dev/null && program clang
}

mozilla() {
    location firefox-esr || location firefox
}

# Can clang link a program for WASI? Its runtime is a package of its own.
wasi() {
    echo 'int main(void) { return 0; }' | clang --target=wasm32-wasi -x c -o /dev/null - 2>/dev/null && echo wasm32
}

# Its name is not the same everywhere; Ubuntu's chromium-browser only reports that it is a snap.
browser() {
    for chrome in chromium google-chrome chromium-browser; do
        "$chrome" --version >/dev/null 2>&1 && location "$chrome" && return
    done
    return 1
}

# Debian's python3 alone cannot make the venv into which 'make check-torch' installs PyTorch.
python_venv() {
    python3 -c 'import ensurepip, venv' >/dev/null 2>&1 && program python3
}

driver() {
    grep -om 1 '[0-9][0-9]*\.[0-9][0-9.]*' /proc/driver/nvidia/version 2>/dev/null
}

gpus() {
    count=$(find /proc/driver/nvidia/gpus -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)
    [ "$count" -gt 0 ] && echo "$count"
}

# location NAME: for programs that are slow to print their version.
location() {
    command -v "$1"
}

# daemon NAME: daemons lie in a folder that is not in every user's PATH.
daemon() {
    (PATH=$PATH:${SBIN:-/usr/sbin} && location "$1")
}

# This distribution's package manager: the number of its package names, and its command to install.
manager=0 install=''
if command -v apt-get >/dev/null; then
    manager=0 install='apt-get install -y'
elif command -v dnf >/dev/null; then
    manager=1 install='dnf install -y'
elif command -v yum >/dev/null; then
    manager=1 install='yum install -y'
elif command -v pacman >/dev/null; then
    manager=2 install='pacman -S --needed --noconfirm'
elif command -v apk >/dev/null; then
    manager=3 install='apk add --update-cache'
elif command -v zypper >/dev/null; then
    manager=4 install='zypper --non-interactive install'
fi
if [ -n "$install" ] && [ "$(id -u)" -ne 0 ] && command -v sudo >/dev/null; then
    install="sudo $install"
fi
