#!/bin/sh
# Tool:  LocalCluster of distributed 2026.8.0 (dask)
# Guess: a program that a worker of four threads starts may compute with four threads, or OMP_NUM_THREADS is not set.
# Seen:  OMP_NUM_THREADS is 1, however many threads the worker has. And after the cluster is closed the program runs on.
# > 4 threads per worker: OMP_NUM_THREADS 1
# > 1 thread per worker: OMP_NUM_THREADS 1
# > the cluster is closed: the program runs on
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install distributed==2026.8.0
unset OMP_NUM_THREADS

cat >"$tmp/show.py" <<'EOP'
import os
import subprocess
import time

from distributed import Client, LocalCluster


def threads():
    return subprocess.run(['printenv', 'OMP_NUM_THREADS'], capture_output=True, text=True).stdout.strip() or 'not set'


def start():
    return subprocess.Popen(['sleep', '120']).pid


def on_worker(function, threads):
    cluster = LocalCluster(n_workers=1, threads_per_worker=threads, dashboard_address=None)
    with cluster, Client(cluster) as client:
        return client.submit(function).result()


if __name__ == '__main__':
    for count, words in (4, 'threads'), (1, 'thread'):
        print(f'{count} {words} per worker: OMP_NUM_THREADS {on_worker(threads, count)}')
    program = on_worker(start, 1)
    time.sleep(3)
    try:
        os.kill(program, 9)
        print('the cluster is closed: the program runs on')
    except ProcessLookupError:
        print('the cluster is closed: the program has ended')
EOP
python "$tmp/show.py" 2>"$tmp/errors" | verdict
