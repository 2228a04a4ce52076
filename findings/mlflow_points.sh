#!/bin/sh
# Tool:  mlflow 3.17.2, log_metric and get_metric_history, with its SQLite store
# Guess: the history has the points that were logged.
# Seen:  an infinite loss comes back as the largest float, which is finite; equal points of one step become one.
# > logged nan, inf, -inf: read nan, 1.7976931348623157e+308, -1.7976931348623157e+308
# > logged 1.0, 1.0, 2.0 at step 1 and time 5: read 1.0, 2.0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install mlflow==3.17.2

MLFLOW_TRACKING_URI=sqlite:///$tmp/runs.db python - 2>"$tmp/errors" <<'EOF' | verdict
import mlflow

def read(key):
    return ', '.join(str(metric.value) for metric in mlflow.MlflowClient().get_metric_history(run.info.run_id, key))

with mlflow.start_run() as run:
    for step, loss in enumerate((float('nan'), float('inf'), -float('inf'))):
        mlflow.log_metric('loss', loss, step=step)
    for value in 1.0, 1.0, 2.0:
        mlflow.log_metric('again', value, step=1, timestamp=5)
print('logged nan, inf, -inf: read', read('loss'))
print('logged 1.0, 1.0, 2.0 at step 1 and time 5: read', read('again'))
EOF
