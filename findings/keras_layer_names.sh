#!/bin/sh
# Tool:  Keras 3.15.1, save_weights (.weights.h5)
# Guess: the file's groups have the names that the layers were given.
# Seen:  they have the names of the classes, numbered; given names are in attributes, and loading goes by the order.
# > layers named out, hidden: saved as layers/dense, layers/dense_1
# > loaded into layers named hidden, out: the first has what out had
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install keras==3.15.1 h5py==3.16.0 numpy==2.4.6 jax==0.10.2 jaxlib==0.10.2

KERAS_BACKEND=jax KERAS_HOME=$tmp python - "$tmp/net.weights.h5" 2>"$tmp/errors" <<'EOF' | verdict
import sys
import h5py
import keras

def net(*names):
    return keras.Sequential([keras.Input((2,)), *[keras.layers.Dense(2, name=name) for name in names]])

first, second = net('out', 'hidden'), net('hidden', 'out')
first.save_weights(sys.argv[1])
with h5py.File(sys.argv[1]) as file:
    print('layers named out, hidden: saved as', ', '.join('layers/' + name for name in file['layers'] if name.startswith('dense')))
second.load_weights(sys.argv[1])
same = (second.layers[0].get_weights()[0] == first.get_layer('out').get_weights()[0]).all()
print('loaded into layers named hidden, out: the first has what', 'out' if same else 'hidden', 'had')
EOF
