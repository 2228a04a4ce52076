#!/usr/bin/env python3
"""Usage: tests/house/closure.py [--built] [PROGRAM...]      How many lines of the library each program is made of.

Builds the programs in build/house, a copy of the tree: without extras and for CPUs alone. The linker's map says which
objects a program took, and the compiler's .d files which headers belong to them. Prints a line for each program: its
name, lines, files, and the lines of each room.
--built: counts the programs that lie here, with extras/ and the step's own folder, without files of CUDA, NCCL and MPI.
"""
import collections, glob, os, re, subprocess, sys

PROGRAMS = ['01_single_gpu/train', '02_multi_gpu_spawn/train_a_spawn', '02_multi_gpu_spawn/train', '03_torchrun_env/train',
            '03_torchrun_env/ddprun', '04_slurm_multinode/train', '05_fault_tolerance/train', '05_fault_tolerance/ddprun']
COPY = 'build/house'
GPU_OR_MPI = r'(^|[/_])(cuda|nccl|cudnn|mpi)[/_.]'  # with its own ceilings, or an option


def build(programs):
    subprocess.run(['tests/copy_tree.sh', COPY], check=True)
    os.chdir(COPY)
    without = [part + '=0' for part in ('EXTRAS', 'CUDA', 'NCCL', 'MPI', 'PNG', 'HTTP')]
    environment = {name: value for name, value in os.environ.items() if name not in ('MAKEFLAGS', 'MFLAGS', 'BUILD')}
    subprocess.run(['make', '-s', '-j2', 'CFLAGS=-O0', 'LDFLAGS=-Wl,-Map=$@.map', *without, *programs], check=True, env=environment)


def members_of(program, built):
    """The base names of the objects that a program took out of libraries; they are unique (house.bats)."""
    if built:  # tools/linked.awk has read the map
        return set(re.findall(r'%/([\w.-]+)\.o\b', open(f'build/{program}.linked').read()))
    return set(re.findall(r'^\S+\.a\(([\w.-]+)\.o\)', open(program + '.map').read(), re.M))


def files_of(program, built):
    """The sources and headers that a program is made of."""
    members = members_of(program, built)
    objects = [path for room in ('common', 'extras', 'launcher', program[:2] + '*') for path in glob.glob(f'build/{room}/**/*.o', recursive=True)
               if os.path.basename(path)[:-2] in members or path == f'build/{program}.o']
    objects = [path for path in objects if os.path.exists(path[len('build/'):-2] + '.c')]  # the file may have moved since
    return {os.path.normpath(f) for path in objects for f in re.findall(r'[\w./-]+\.[ch]\b', open(path[:-2] + '.d').read())}


def main(programs, built):
    if not built:
        build(programs)
    for program in programs:
        rooms = collections.Counter()
        files = [f for f in files_of(program, built) if f.startswith(('common/', 'extras/', 'launcher/', program[:2]) if built else ('common/', 'launcher/'))
                 and not (built and re.search(GPU_OR_MPI, f))]
        for f in files:
            rooms[os.path.dirname(f)] += len(open(f).read().splitlines())
        print(program, sum(rooms.values()), len(files), *[f'{room} {lines}' for room, lines in sorted(rooms.items())])


if __name__ == '__main__':
    named = [word for word in sys.argv[1:] if word != '--built']
    main(named or PROGRAMS, '--built' in sys.argv)
