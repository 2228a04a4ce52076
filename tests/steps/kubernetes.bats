#!/usr/bin/env bats
# The manifests for Kubernetes: their fields are those that the operators know, and their commands form one job when they
# are started with the variables that the operators set.

bats_require_minimum_version 1.5.0

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    OUT=$BATS_TEST_TMPDIR
    LINEAR="--model linear --epochs 1 --log-interval 8 --threads 1"
}

@test "their fields and types are those of the operators' own models" {
    venv=${XDG_CACHE_HOME:-$HOME/.cache}/ddp.c/kubeflow-trainer-api==2.3.0
    [ -d "$venv/lib" ] || { python3 -m venv "$venv" && "$venv/bin/pip" install -q --disable-pip-version-check --timeout 10 --retries 1 \
        kubeflow-trainer-api==2.3.0 pyyaml; } || rm -rf "$venv"
    [ -d "$venv/lib" ] || skip "pip got no kubeflow-trainer-api: fields not checked"
    "$venv/bin/python" - 0[45]_*/trainjob.yaml 0[45]_*/jobset.yaml <<'END'
import sys
import yaml
from kubeflow_trainer_api import models

kinds = {
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): models.TrainerV1alpha1TrainJob,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): models.JobsetV1alpha2JobSet,
}
assert len(sys.argv) == 5
for path in sys.argv[1:]:
    with open(path) as file:
        job = yaml.safe_load(file)
    model = kinds[job["apiVersion"], job["kind"]]
    assert model.from_dict(job).to_dict() == job, f"{path} has fields that {model.__name__} does not know"
END
}

# pods FILE VARIABLE...: runs the file's command as its two pods do, after what make builds; VARIABLE=@ is the pod's number.
# POD_0 and POD_1 become the processes, and MORE has more options.
pods() {
    local command
    command=$(sed '1,/^ *args:$/d; /^ *- >-$/d; s/^ *\(- \)*//' "$1" | tr -s ' \n' ' ' | sed 's/ddp-0[45]-node-0-0\.ddp-0[45]/localhost/')
    [[ $command == "make -s MPI=0 0"[45]" && exec "* ]]
    command=${command#*&& }
    shift
    : >"$OUT/said"
    for pod in 0 1; do
        env "${@/@/$pod}" sh -c "${command% } $LINEAR --checkpoint-dir $OUT/c $MORE" >>"$OUT/said" 2>&1 3>&- &
        eval "POD_$pod=$!"
    done
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("localhost", 0)); print(s.getsockname()[1])'
}

PETS="PET_NNODES=2 PET_NPROC_PER_NODE=2 PET_NODE_RANK=@ PET_MASTER_ADDR=localhost" # as Trainer 2.3's plugin for torch
losses() {
    grep -E '^(Train|Test) Epoch' "$1"
}

@test "04: four ranks in two pods, with the losses of two nodes" {
    04_slurm_multinode/nodes_here.sh 2 2 04_slurm_multinode/train $LINEAR --checkpoint-dir "$OUT/c" >"$OUT/expected" 2>/dev/null
    [ "$(losses "$OUT/expected" | wc -l)" -ge 2 ]
    for file in trainjob jobset; do
        set -- "PET_MASTER_PORT=$(free_port)"
        [ $file = jobset ] && set -- "$@" JOB_COMPLETION_INDEX=@ || set -- "$@" $PETS
        MORE='' pods 04_slurm_multinode/$file.yaml "$@"
        wait $POD_0 && wait $POD_1 || { cat "$OUT/said" && false; }
        cat "$OUT/said"
        diff <(losses "$OUT/expected") <(losses "$OUT/said")
        for rank in 0 1 2 3; do grep -q "rank $rank/4\] node $((rank / 2)) .*local rank $((rank % 2)) of 2" "$OUT/said"; done
    done
}

@test "05: a pod that gets SIGTERM stops all ranks with 75, and the next start resumes" {
    for file in trainjob jobset; do
        rm -rf "$OUT/c"
        set -- "PET_MASTER_PORT=$(free_port)"
        [ $file = jobset ] && set -- "$@" JOB_COMPLETION_INDEX=@ || set -- "$@" $PETS
        MORE='--epochs 1000000' pods 05_fault_tolerance/$file.yaml "$@"
        for _ in $(seq 2000); do ! grep -q 'Epoch 1 ' "$OUT/said" || break; sleep 0.05; done
        kill -TERM $POD_1
        for pod in $POD_0 $POD_1; do
            status=0
            wait $pod || status=$?
            echo "$file: status $status" && tail -n 5 "$OUT/said"
            [ $status -eq 75 ]
        done
        step=$(sed -n 's/.*stopped after step \([0-9]*\).*/\1/p' "$OUT/said")
        MORE="--epochs 1000000 --max-steps $((step + 2))" pods 05_fault_tolerance/$file.yaml "$@"
        wait $POD_0 && wait $POD_1 || { cat "$OUT/said" && false; }
        grep 'rank 0/4\] resumes from' "$OUT/said"
    done
}
