#!/bin/sh
# Tool:  optuna 5.0.0, one study of two processes, each with the same seeded sampler, as for reproducible runs
# Guess: the processes share the study's trials, so no point is tried twice.
# Seen:  both draw the same points: of 16 trials of a RandomSampler, 8 are repeats.
# > RandomSampler(seed=1) in both: 16 trials, 8 points
# > RandomSampler(seed=rank): 16 trials, 16 points
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install optuna==5.0.0 numpy==2.4.6

cat >"$tmp/study.py" <<'EOF'
import multiprocessing as mp
import sys
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

def storage(name):
    return JournalStorage(JournalFileBackend(sys.argv[1] + name))

def search(name, seed):
    sampler = optuna.samplers.RandomSampler(seed=seed)
    study = optuna.load_study(study_name='study', storage=storage(name), sampler=sampler)
    study.optimize(lambda trial: trial.suggest_float('rate', 0, 1), n_trials=8)

def show(name, seeds):
    optuna.create_study(study_name='study', storage=storage(name))
    processes = [mp.Process(target=search, args=(name, seed)) for seed in seeds]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    trials = optuna.load_study(study_name='study', storage=storage(name)).trials
    print(f"{name}: {len(trials)} trials, {len({trial.params['rate'] for trial in trials})} points", flush=True)

optuna.logging.set_verbosity(optuna.logging.ERROR)
show('RandomSampler(seed=1) in both', [1, 1])
show('RandomSampler(seed=rank)', [0, 1])
EOF
mkdir "$tmp/studies"
python "$tmp/study.py" "$tmp/studies/" 2>"$tmp/errors" | verdict
