#!/usr/bin/env python3
"""Usage: tests/house/closure.py [PROGRAM...]      How many lines of common/ each program is made of.

Builds the programs in build/house, a copy of the tree: without extras and for CPUs alone. The linker's map (-Map) says
which objects a program took, and the compiler's .d files which headers belong to them. Prints a line for each program:
its name, lines, files, and the lines of each room.
"""
import collections, os, re, subprocess, sys

PROGRAMS = ['01_single_gpu/train', '02_multi_gpu_spawn/train_a_spawn', '02_multi_gpu_spawn/train', '03_torchrun_env/train',
            '03_torchrun_env/ddprun', '04_slurm_multinode/train', '05_fault_tolerance/train', '05_fault_tolerance/ddprun']
COPY = 'build/house'


def build(programs):
    subprocess.run(['tests/copy_tree.sh', COPY], check=True)
    os.chdir(COPY)
    without = [part + '=0' for part in ('EXTRAS', 'CUDA', 'NCCL', 'MPI', 'PNG', 'HTTP')]
    environment = {name: value for name, value in os.environ.items() if name not in ('MAKEFLAGS', 'MFLAGS', 'BUILD')}
    subprocess.run(['make', '-s', '-j2', 'CFLAGS=-O1', 'LDFLAGS=-Wl,-Map=$@.map', *without, *programs], check=True, env=environment)


def files_of(program):
    """The sources and headers that a program is made of. Base names of objects are unique (house.bats)."""
    map_ = open(program + '.map').read()
    members = set(re.findall(r'^\S+\.a\(([\w.-]+)\.o\)', map_, re.M))
    objects = re.findall(r'^LOAD (build/\S+)\.o$', map_, re.M)
    for folder, _, names in os.walk('build'):
        objects += [f'{folder}/{name[:-2]}' for name in names if name.endswith('.o') and name[:-2] in members]
    objects = [path for path in objects if os.path.exists(path[len('build/'):] + '.c')]  # the file may have moved since
    return {os.path.normpath(f) for path in objects for f in re.findall(r'[\w./-]+\.[ch]\b', open(path + '.d').read())}


def main(programs):
    build(programs)
    for program in programs:
        files = [f for f in files_of(program) if f.startswith('common/')]
        rooms = collections.Counter()
        for f in files:
            rooms[os.path.dirname(f)] += len(open(f).read().splitlines())
        print(program, sum(rooms.values()), len(files), *[f'{room} {lines}' for room, lines in sorted(rooms.items())])


if __name__ == '__main__':
    main(sys.argv[1:] or PROGRAMS)
