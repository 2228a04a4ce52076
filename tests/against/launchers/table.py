#!/usr/bin/env python3
"""Usage: tests/against/launchers/table.py NAME LAUNCHER [its options for two ranks]

Measures NAME's row of docs/slurm.md's table of launchers, prints it, and compares it with the page, where a cell may hold two
values: "9 or 255". Two ranks on two cores train by step 05 until the launcher gets SIGTERM; then rank 1 of a shell script ends
with 5, and is killed, while rank 0 sleeps. Losses and number of threads must be ddprun's, and no process may be left.
"""
import os, re, shutil, signal, subprocess, sys, tempfile, time

ROOT = os.path.abspath(f'{__file__}/../../../..')
sys.dont_write_bytecode = True
sys.path.append(f'{ROOT}/teach/lab')
import orphans  # noqa: E402

OUT = tempfile.mkdtemp(prefix='launchers-')
TRAIN = f'{ROOT}/05_fault_tolerance/train --dataset digits --epochs 1000000 --log-interval 1 --checkpoint-dir {OUT}/c'.split()
FORMAT = '{:<18}  {:<20}  {:<9}  {:<5}  {:<14}  {:<6}  {:<7}  {}'  # the page's
RANK = '${RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}}'


def said():
    with open(f'{OUT}/said', errors='replace') as file:
        return file.read().replace('\r', '')


def until(what, condition):
    end = time.monotonic() + 120  # only a failure takes so long
    while not (result := condition()):
        if time.monotonic() > end:
            sys.exit(f'in vain: {what}\n{said()[-2000:]}')
        time.sleep(0.1)
    return result


def processes():
    """Returns what the launcher has started."""
    return orphans.processes('OUT', OUT)


def trains(process):
    try:
        with open(f'/proc/{process}/comm') as comm:
            return comm.read() == 'train\n'
    except OSError:  # it has just ended
        return False


def start(launcher, program):
    with open(f'{OUT}/said', 'w') as file:
        return subprocess.Popen(launcher + program, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=dict(os.environ, OUT=OUT))


def status_of(job):
    status = until('the end of the launcher', lambda: job.poll() is not None and [job.returncode])[0]
    return str(status if status >= 0 else 128 - status)


def after_sigterm():
    """Returns what became of the ranks: they save and end, they are killed, or they go on when the launcher has ended."""
    seen = said().count('Train Epoch')
    until('the end of the ranks', lambda: not processes() or said().count('Train Epoch') > seen + 50)
    if left := processes():
        for process in left:
            orphans.kill(process)
        return 'go on'
    return 'save' if any(name.startswith('snapshot') for name in os.listdir(f'{OUT}/c')) else 'killed'


def trained(launcher):
    """Trains for four steps and sends SIGTERM to the launcher. Returns what was found."""
    shutil.rmtree(f'{OUT}/c', ignore_errors=True)
    job = start(launcher, TRAIN)
    losses = until('four losses', lambda: (found := re.findall(r'^Train Epoch: 0 .*', said(), re.M))[3:] and found[:4])
    ranks = list(filter(trains, processes()))
    threads = min(len(os.listdir(f'/proc/{rank}/task')) for rank in ranks)  # one rank may also have the store's
    facts = {'losses': losses, 'threads': threads, 'from': re.search(r'rank from (\w+)', said())[1],
             'cores': str(len(os.sched_getaffinity(ranks[0]))), 'stdout': os.readlink(f'/proc/{ranks[0]}/fd/1')}
    job.send_signal(signal.SIGTERM)
    return facts | {'status': status_of(job), 'ranks': after_sigterm()}


def ended(launcher, how):
    """Returns the launcher's status after rank 1 has ended so. Hydra waits for rank 0."""
    with open(f'{OUT}/ends', 'w') as file:
        file.write(f'#!/bin/sh\n[ {RANK} != 1 ] || {how}\nexec sleep 5\n')
    os.chmod(f'{OUT}/ends', 0o755)
    status = status_of(start(launcher, [f'{OUT}/ends']))
    until('the end of all processes', lambda: not processes())
    return status


def row_of(name, launcher):
    ours, theirs = trained([f'{ROOT}/03_torchrun_env/ddprun', '--nproc-per-node', '2']), trained(launcher)
    for what in 'losses', 'threads':
        assert theirs[what] == ours[what], f'{what}: {theirs[what]}, under ddprun {ours[what]}'
    stdout = next((kind for kind, path in [('terminal', '/dev/pts/'), ('pipe', 'pipe:')] if theirs['stdout'].startswith(path)), 'its own')
    return [name, theirs['from'], stdout, theirs['cores'], theirs['ranks'], theirs['status'],
            ended(launcher, 'exit 5'), ended(launcher, 'kill -KILL $$')]


def compare(row):
    major = re.match(r'\D*\d+', row[0])[0]
    with open(f'{ROOT}/docs/slurm.md') as page:
        rows = [re.split('  +', line.strip()) for line in page if line.startswith(f'{major}.')]
    assert rows and len(rows[0]) == len(row), f'docs/slurm.md has no such row of {major}'
    for cell, measured in zip(rows[0][1:], row[1:]):
        assert measured in cell.split(' or '), f'docs/slurm.md says {cell}, measured {measured}'


def main():
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    try:
        row = row_of(sys.argv[1], sys.argv[2:])
    finally:
        for process in processes():
            orphans.kill(process)
        shutil.rmtree(OUT, ignore_errors=True)
    print(FORMAT.format(*row))
    compare(row)


main()
