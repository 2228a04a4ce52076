#!/usr/bin/env python3
"""Usage: teach/class/autograder.py OUT.zip [LAB]...       (make autograder OUT=autograder.zip LABS="02b ring")
Writes the zip that Gradescope builds an assignment's image from: setup.sh and run_autograder, as Gradescope's pages
describe them, this tree as git has it, and a secret of its own, on which the drawn numbers depend. Keep the zip to yourself:
it has our solutions in it."""
import io
import os
import secrets
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "teach/class"))
import submission

SETUP = """#!/bin/sh
# Runs once, as root, when the image is made: installs what the build needs, builds it, and locks the folder.
set -eu
export DEBIAN_FRONTEND=noninteractive MARCH=x86-64-v2 CUDA=0 # the image may run on another machine
cd /autograder/source
tar -xzf ddp.c.tar.gz && rm ddp.c.tar.gz
cd ddp.c
apt-get update
./setup.sh --minimal
apt-get install -y --no-install-recommends bubblewrap python3 util-linux
make
make grader
chown -R root:root /autograder/source
chmod 700 /autograder/source
chmod 600 /autograder/source/secret
"""
RUN = """#!/bin/sh
# Runs for each submission, as root.
cd /autograder/source/ddp.c || exit 1
export MARCH=x86-64-v2 CUDA=0 LAB_SECONDS=180
mkdir -p /autograder/results
exec teach/class/grade /autograder/submission --labs "{labs}" --secret /autograder/source/secret \\
    --format gradescope --output /autograder/results/results.json
"""


def tree():
    """This tree as git has it, as a tar: so links and modes stay, however the zip is unpacked."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, check=True, capture_output=True, text=True).stdout
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in filter(None, listed.split("\0")):
            if os.path.lexists(TOP / name):
                archive.add(TOP / name, f"ddp.c/{name}", recursive=False)
    return packed.getvalue()


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    out, labs = Path(sys.argv[1]), sys.argv[2:] or submission.known_labs()
    for lab in labs:
        if lab not in submission.known_labs():
            sys.exit(f"autograder: there is no lab {lab}: they are {' '.join(submission.known_labs())}")
    if out.exists():
        sys.exit(f"autograder: {out} is there already; remove it first. Its secret is lost with it, so numbers are drawn anew")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text, mode in (("setup.sh", SETUP, 0o755), ("run_autograder", RUN.format(labs=" ".join(labs)), 0o755),
                                 ("secret", secrets.token_bytes(32), 0o600), ("ddp.c.tar.gz", tree(), 0o644)):
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = (stat.S_IFREG | mode) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, text)
    print(f"{out} grades {', '.join(labs)}: upload it as the assignment's autograder")


if __name__ == "__main__":
    main()
