"""Checkpoints: ours, and safetensors in Python."""

from suite import Contender, Goal, Suite

FOLDERS = ["/dev/shm", "build"]
NOTE = ("The cnn and adam's state, 14.4 MB, on one thread. Both write aside, fsync the file, rename it and fsync the "
        "folder (in /dev/shm, which is memory, that costs nothing: what is left is the code's own time), and load from "
        "the page cache into tensors that are there. Ours also copies the state first, so that training could go "
        "on, turns it from the layout that it is computed in to PyTorch's and back, looks at each number when it loads "
        "(NaN is refused), and computes a checksum when it saves and checks it when it loads. safetensors does none "
        "of that; the checksum, zlib's CRC-32, is also measured beside it. In /dev/shm our time is that of the layout, "
        "the checksum, and the kernel's copies and pages.")

SUITES = [
    Suite("files", "Checkpoints",
          [Contender("ddp.c", ["{build}/bench/checkpoints", *FOLDERS]),
           Contender("safetensors and CRC-32 in Python", ["{python}", "bench/checkpoints.py", "--crc", *FOLDERS]),
           Contender("safetensors in Python", ["{python}", "bench/checkpoints.py", *FOLDERS])],
          note=NOTE,
          goals=[Goal(f"{act} {folder}", "safetensors and CRC-32 in Python", 1)
                 for folder in FOLDERS for act in ("save to", "load from")]),
]
