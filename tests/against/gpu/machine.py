"""What this machine has, for check.py: headers, libraries, CUDA, MNIST."""
import glob, os, subprocess, sys


def header(name):
    return subprocess.run(["cc", "-include", "stdarg.h", "-include", "stddef.h", "-include", "setjmp.h", "-include",
                           "stdint.h", "-include", name, "-E", "-x", "c", "/dev/null"], capture_output=True).returncode == 0


def cuda_home():
    found = subprocess.run(["tools/cuda_home.sh"], text=True, capture_output=True)
    return os.environ.get("CUDA_HOME") or found.stdout.strip()


def library(name):
    """Whether the dynamic linker, or the programs' own path, has it."""
    found = subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('%s')" % name], capture_output=True)
    return found.returncode == 0 or os.path.exists(os.path.join(cuda_home(), "lib64", name))


def mnist():
    for folder in [os.environ.get("MNIST"), "data/mnist", "../shared/data/mnist"]:
        if folder and glob.glob(folder + "/train-images-idx3-ubyte*"):
            return folder
    return None
