#!/bin/sh
# Tool:  PyTorch 2.15.0, TCPStore and PrefixStore
# Guess: num_keys() of a new store is 0 and counts what list_keys() lists.
# Seen:  it counts a key of the store's own, which list_keys() hides, and under a prefix also all keys without it.
# > new: num_keys 1, list_keys []
# > after set("a"): num_keys 2, list_keys ['a']
# > under a prefix, after set("b"): num_keys 3, list_keys ['b']
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0

python - <<'EOF' | verdict
import torch.distributed as dist

def show(when, store):
    print(f'{when}: num_keys {store.num_keys()}, list_keys {store.list_keys()}')

store = dist.TCPStore('127.0.0.1', 0, 1, True)
show('new', store)
store.set('a', '1')
show('after set("a")', store)
under = dist.PrefixStore('p', store)
under.set('b', '1')
show('under a prefix, after set("b")', under)
EOF
