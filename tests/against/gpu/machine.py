"""What this machine has, for check.py: headers, libraries, CUDA, MNIST."""
import glob, os, shutil, subprocess, sys


def header(name):
    return subprocess.run(["cc", "-include", "stdarg.h", "-include", "stddef.h", "-include", "setjmp.h", "-include",
                           "stdint.h", "-include", name, "-E", "-x", "c", "/dev/null"], capture_output=True).returncode == 0


def cuda_home():
    nvcc = shutil.which("nvcc")
    return os.environ.get("CUDA_HOME") or (os.path.dirname(os.path.dirname(nvcc)) if nvcc else "/usr/local/cuda")


def library(name):
    """Whether the dynamic linker, or the programs' own path, has it."""
    found = subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('%s')" % name], capture_output=True)
    return found.returncode == 0 or os.path.exists(os.path.join(cuda_home(), "lib64", name))


def mnist():
    for folder in [os.environ.get("MNIST"), "data/mnist", "../shared/data/mnist"]:
        if folder and glob.glob(folder + "/train-images-idx3-ubyte*"):
            return folder
    return None
