#!/usr/bin/env python3
"""Usage: bench/launches.py RANKS,... LAUNCHER...     How long a launcher takes: from its start until all ranks of
a trivial program have printed a line, and until it has ended. LAUNCHER is a command that takes torchrun's flags."""
import json
import subprocess
import sys
import time

for ranks in map(int, sys.argv[1].split(",")):
    begin = time.monotonic()
    command = [*sys.argv[2:], "--standalone", "--nproc-per-node", str(ranks), "--no-python", "echo", "is there"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        there = 0
        for line in launcher.stdout:
            there += line.count("is there")
            if there == ranks:
                break
        printed = time.monotonic() - begin
        launcher.communicate(timeout=120)
    ended = time.monotonic() - begin
    if there != ranks or launcher.returncode != 0:
        sys.exit(f"{' '.join(command)}: {there} lines, status {launcher.returncode}")
    for what, seconds in ("all have printed", printed), ("all is over", ended):
        print(json.dumps({"case": f"{ranks} ranks, {what}", "value": seconds, "unit": "s"}))
