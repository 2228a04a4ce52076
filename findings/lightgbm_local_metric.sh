#!/bin/sh
# Tool:  lightgbm 4.7.0, num_machines=2, each with half of the rows, which it also gives as its valid_sets
# Guess: the metric is that of all rows and the same on both, as the model is, and as xgboost does it.
# Seen:  each prints the error of its own rows. So a log shows another curve than the other machine's.
# > machine 0: recorded 1.3, model on its rows 1.3, on all rows 6.9
# > machine 1: recorded 13, model on its rows 13, on all rows 6.9
# > models alike
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install lightgbm==4.7.0 numpy==2.4.6 scipy==1.17.1

cat >"$tmp/machines.py" <<'EOF'
import multiprocessing as mp
import socket
import lightgbm
import numpy as np

def free_ports(count):
    sockets = [socket.create_server(('127.0.0.1', 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports

def run(rank, ports, seen):
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 3))
    noise = np.repeat([1, 4], 200) # the second machine's rows are harder
    y = x[:, 0] + noise * random.normal(size=400)
    own = slice(200 * rank, 200 * (rank + 1))
    rows = lightgbm.Dataset(x[own], y[own])
    parameters = {'objective': 'l2', 'metric': 'l2', 'tree_learner': 'data', 'pre_partition': True, 'verbosity': -1,
                  'num_machines': 2, 'machines': ','.join(f'127.0.0.1:{port}' for port in ports),
                  'local_listen_port': ports[rank], 'num_threads': 1}
    curve = {}
    model = lightgbm.train(parameters, rows, 10, valid_sets=[rows], callbacks=[lightgbm.record_evaluation(curve)])
    errors = (model.predict(x) - y) ** 2
    seen.put((rank, curve['training']['l2'][-1], errors[own].mean(), errors.mean(), model.predict(x).tobytes()))

seen, ports = mp.Queue(), free_ports(2)
machines = [mp.Process(target=run, args=(rank, ports, seen)) for rank in range(2)]
for machine in machines:
    machine.start()
results = sorted(seen.get(timeout=60) for _ in machines)
for machine in machines:
    machine.join()
for rank, recorded, own, everything, _ in results:
    print(f'machine {rank}: recorded {recorded:.2g}, model on its rows {own:.2g}, on all rows {everything:.2g}')
print('models', 'alike' if results[0][4] == results[1][4] else 'differ')
EOF
python "$tmp/machines.py" 2>"$tmp/errors" | grep -v '^\[LightGBM\]' | verdict
