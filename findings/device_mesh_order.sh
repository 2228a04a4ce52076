#!/bin/sh
# Tool:  PyTorch 2.15.0, DeviceMesh and DTensor
# Guess: a mesh of ranks in another order, [1, 0], deals the parts out in that order and puts them together in it again.
# Seen:  coordinates follow the list, the group that sends sorts it: a tensor whose parts differ in size comes back with other
#        values, without a word.
# > mesh [0, 1]: coordinates 0 and 1, local ranks 0 and 1, [1, 2, 3] comes back as [1.0, 2.0, 3.0]
# > mesh [1, 0]: coordinates 1 and 0, local ranks 0 and 1, [1, 2, 3] comes back as [1.0, 0.0, 3.0]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    for order in [0, 1], [1, 0]:
        mesh = DeviceMesh('cpu', order)
        ranks = [None] * world
        dist.all_gather_object(ranks, (mesh.get_coordinate()[0], mesh.get_local_rank()))
        back = distribute_tensor(torch.tensor([1.0, 2.0, 3.0]), mesh, [Shard(0)]).full_tensor().tolist()
        if rank == 0:
            coordinates, local_ranks = (' and '.join(map(str, numbers)) for numbers in zip(*ranks))
            print(f'mesh {order}: coordinates {coordinates}, local ranks {local_ranks}, [1, 2, 3] comes back as {back}')
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
