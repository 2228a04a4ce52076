#!/bin/sh
# Tool:  PyTorch 2.15.0, new_group
# Guess: new_group([2, 0]) makes rank 2 the group's rank 0, as MPI_Group_incl does with such a list.
# Seen:  the list is sorted first: rank 0 is the group's rank 0, all_gather puts its part first, and group_src=0 is rank 0.
# > new_group([2, 0]): rank 2 is its rank 1, rank 0 is its rank 0
# > all_gather gives [0.0, 2.0], broadcast from group_src 0 gives [0.0]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    group = dist.new_group([2, 0])
    ranks = [None] * world
    dist.all_gather_object(ranks, dist.get_rank(group))
    if rank != 1:
        mine, all = torch.tensor([float(rank)]), torch.zeros(2)
        dist.all_gather_into_tensor(all, mine, group)
        dist.broadcast(mine, group_src=0, group=group)
    if rank == 0:
        print(f'new_group([2, 0]): rank 2 is its rank {ranks[2]}, rank 0 is its rank {ranks[0]}')
        print(f'all_gather gives {all.tolist()}, broadcast from group_src 0 gives {mine.tolist()}')
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 3), 3)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
