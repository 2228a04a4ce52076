#!/usr/bin/env bats
# How make finds CUDA, and its message about one that is too old. A script replaces nvcc.

setup() {
    scratch=$BATS_TEST_TMPDIR home=$scratch/cuda-12.1
    mkdir -p "$home/bin" "$home/include" "$scratch/path"
    toolkit 12.1
}

# toolkit RELEASE: an nvcc of this release in $home. Like the real one, it prints its place unless called by a link.
toolkit() {
    cat >"$home/bin/nvcc" <<END
#!/bin/sh
case \$1 in
--version) echo 'Cuda compilation tools, release $1, V$1.66' ;;
--dryrun) [ "\$0" != '$home/bin/nvcc' ] || echo '#\$ TOP=$home/bin/..' >&2 ;;
esac
END
    chmod +x "$home/bin/nvcc"
}

@test "CUDA is where nvcc is: in the path, behind a link, behind a wrapper" {
    PATH="$home/bin:$PATH" run tools/cuda_home.sh
    [ "$output" = "$home" ]
    ln -s "$home/bin/nvcc" "$scratch/path/nvcc"
    PATH="$scratch/path:$PATH" run tools/cuda_home.sh
    [ "$output" = "$home" ]
    rm "$scratch/path/nvcc"
    printf '#!/bin/sh\nexec %s/bin/nvcc "$@"\n' "$home" >"$scratch/path/nvcc"
    chmod +x "$scratch/path/nvcc"
    PATH="$scratch/path:$PATH" run tools/cuda_home.sh
    [ "$output" = "$home" ]
}

@test "NCCL is in NCCL_HOME, beside CUDA, or in a package of Python's, from where it is built and run" {
    wheel=$scratch/site/nvidia/nccl
    mkdir -p "$wheel/include" "$scratch/own/include"
    echo '#define NCCL_VERSION_CODE 22304' >"$wheel/include/nccl.h"
    cp "$wheel/include/nccl.h" "$scratch/own/include"
    [ -f /usr/include/nccl.h ] || [ "$(PYTHONPATH=$scratch/site tools/cuda_home.sh nccl "$home")" = "$wheel" ]
    cp "$wheel/include/nccl.h" "$home/include"
    [ "$(PYTHONPATH=$scratch/site tools/cuda_home.sh nccl "$home")" = "$home" ]
    [ "$(NCCL_HOME=$scratch/own tools/cuda_home.sh nccl "$home")" = "$scratch/own" ]
    run make -n MPI=0 CUDA=1 CUDA_HOME="$home" NCCL_HOME="$wheel" BUILD="$scratch/build" 01
    [ "$status" -eq 0 ]
    [[ $output == *" -isystem $wheel/include "*"-Wl,-rpath,$wheel/lib"* && $output == *" -o $scratch/build/common/comm/nccl/nccl_watch.o "* ]]
}

# refused TEXT: make ends with this line alone.
refused() {
    run make -s -n MPI=0 CUDA=1 CUDA_HOME="$home" BUILD="$scratch/build" 01
    echo "$output"
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"$1"* ]]
}

@test "a CUDA or an NCCL that is too old is refused, in a line" {
    echo '#define NCCL_VERSION_CODE 21708' >"$home/include/nccl.h"
    refused "$home/include/nccl.h is NCCL's of version code 21708, and 21801 (2.18.1) is the oldest that will do"
    make -s -n MPI=0 CUDA=1 NCCL=0 CUDA_HOME="$home" BUILD="$scratch/build" 01
    echo '#define NCCL_VERSION_CODE 21801' >"$home/include/nccl.h"
    make -s -n MPI=0 CUDA=1 CUDA_HOME="$home" BUILD="$scratch/build" 01
    toolkit 11.8
    refused "$home has CUDA 11, and 12 is the oldest that will do: install a newer one, or say CUDA=0"
}
