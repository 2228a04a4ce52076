#!/usr/bin/env python3
# Usage: tests/fuzz/choose.py      Makes corpus/ anew, after make check-fuzz: at most ten inputs for each target.
# Of what is kept already and of what the fuzzers have found since (build/fuzz/corpus) those that reach the most edges
# beyond what seeds.py makes. What once was a fault is called found-*, and stays.
import os
import shutil
import subprocess
import tempfile

KEPT = 10
os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def edges(target, folders, made):
    """The edges that each file in the folders reaches, as libFuzzer notes them when it merges folders."""
    notes = f"{made}/notes"
    environment = dict(os.environ, FUZZ_TARGET=target, ASAN_OPTIONS="detect_leaks=0")
    options = ["-set_cover_merge=1", "-use_counters=0", "-close_fd_mask=1", f"-merge_control_file={notes}"]
    with tempfile.TemporaryDirectory() as unused:
        done = subprocess.run(["build/fuzz/engine", *options, unused, *folders], env=environment, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr.decode(errors="replace")[-2000:])
    with open(notes) as file:
        lines = file.read().splitlines()
    os.remove(notes)
    paths = lines[2:2 + int(lines[0])]
    reached = (line.split() for line in lines if line.startswith("FT "))
    return {paths[int(path)]: set(some) for _, path, *some in reached}


def choose(files, base, chosen):
    """Adds to chosen what reaches the most edges that neither base nor the chosen do; of equals, the shortest."""
    known = set(base).union(*(files[path] for path in chosen))
    left = [path for path in files if path not in chosen]
    while left and len(chosen) < KEPT:
        best = max(left, key=lambda path: (len(files[path] - known), -os.path.getsize(path)))
        if not files[best] - known:
            return
        chosen.append(best)
        left.remove(best)
        known |= files[best]


with tempfile.TemporaryDirectory() as made:
    subprocess.run(["tests/fuzz/seeds.py", f"{made}/seeds"], check=True)
    for target in sorted(os.listdir("tests/fuzz/corpus")):
        kept, found = f"tests/fuzz/corpus/{target}", f"build/fuzz/corpus/{target}"
        files = edges(target, [folder for folder in (kept, found) if os.path.isdir(folder)], made)
        chosen = [f"{kept}/{name}" for name in os.listdir(kept) if name.startswith("found-")]
        files.update((path, set()) for path in chosen if path not in files)
        seeds = set().union(*edges(target, [f"{made}/seeds/{target}"], made).values())
        choose(files, seeds, chosen)
        choose(files, set(), chosen)
        os.mkdir(f"{made}/{target}")
        for path in chosen:
            shutil.copy(path, f"{made}/{target}")
        shutil.rmtree(kept)
        shutil.copytree(f"{made}/{target}", kept)
        beyond = set().union(*(files[path] for path in chosen)) - seeds
        print(f"{target}: {len(chosen)} inputs, {len(beyond)} edges beyond the {len(seeds)} of the seeds")
