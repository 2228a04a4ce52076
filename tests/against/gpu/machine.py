"""Usage: machine.py TARGET      Ends with a line if this machine has no GPU on which make TARGET could run, and builds hardly
anything to find out. For check.py: what the machine has: headers, libraries, CUDA, MNIST."""
import glob, os, shutil, subprocess, sys


def header(name):
    return subprocess.run(["cc", "-include", "stdarg.h", "-include", "stddef.h", "-include", "setjmp.h", "-include",
                           "stdint.h", "-include", name, "-E", "-x", "c", "/dev/null"], capture_output=True).returncode == 0


def cuda_home():
    found = subprocess.run(["tools/cuda_home.sh"], text=True, capture_output=True)
    return os.environ.get("CUDA_HOME") or found.stdout.strip()


def place(what):
    """Where the Makefile finds CUDA's libraries ("lib"), "nccl" or "cudnn"; "" if nowhere."""
    found = subprocess.run(["tools/cuda_home.sh", what, cuda_home()], text=True, capture_output=True)
    return found.stdout.strip()


def library(name):
    """Whether the dynamic linker, or the programs' own path, has it. The name may lack its version."""
    found = subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('%s')" % name], capture_output=True)
    folders = [place("lib"), *(os.path.join(place(package), "lib") for package in ("nccl", "cudnn"))]
    return found.returncode == 0 or any(glob.glob(os.path.join(folder, name + "*")) for folder in folders)


def missing():
    """(what cannot be done without, what only some checks need), each with what to do."""
    needed = {"nvcc": os.path.exists(os.path.join(cuda_home(), "bin", "nvcc")),
              "cublas_v2.h": os.path.exists(os.path.join(cuda_home(), "include", "cublas_v2.h")),
              "libcudart_static.a": os.path.exists(os.path.join(place("lib"), "libcudart_static.a")),
              "libcublas.so": library("libcublas.so")}
    useful = {"NCCL (nccl.h, libnccl.so.2: libnccl-dev, the wheel nvidia-nccl, or NCCL_HOME=DIR)":
                  place("nccl") != "" and library("libnccl.so.2"),
              "compute-sanitizer (part of the CUDA toolkit)": shutil.which("compute-sanitizer") is not None or
                  os.path.exists(os.path.join(cuda_home(), "bin", "compute-sanitizer")),
              "MNIST (data/get_mnist.sh)": mnist() is not None}
    return [name for name, found in needed.items() if not found], [name for name, found in useful.items() if not found]


def gpus(target, build, arch):
    """A line for each GPU, by machine.c. Ends where there is none, before anything takes long."""
    needed = missing()[0]
    if needed:
        sys.exit("make %s: no %s in %s: install CUDA's toolkit, or say where it is with CUDA_HOME=DIR" % (
            target, ", ".join(needed), cuda_home() or "PATH"))
    program = build + "/tests/against/gpu/machine"
    made = subprocess.run(["make", "-s", arch, program], text=True, capture_output=True)
    if made.returncode != 0:
        sys.exit("make %s: %s" % (target, made.stderr.strip()))
    machine = subprocess.run([program], text=True, capture_output=True)
    if machine.returncode != 0:
        sys.exit("make %s: %s" % (target, machine.stdout.strip()))
    return machine.stdout


def is_exclusive():
    """Whether only one process at a time may use a GPU, as nvidia-smi -c 3 sets it."""
    try:
        found = subprocess.run(["nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader"], text=True,
                               capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "Exclusive" in found.stdout


def mnist():
    for folder in [os.environ.get("MNIST"), "data/mnist", "../shared/data/mnist"]:
        if folder and glob.glob(folder + "/train-images-idx3-ubyte*"):
            return folder
    return None


if __name__ == "__main__":
    gpus(sys.argv[1], os.environ.get("BUILD", "build"), "CUDA_ARCH=" + os.environ.get("GPU_ARCH", "native"))
