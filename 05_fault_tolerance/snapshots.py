"""Fault tolerance for the train.py beside it: the twin of snapshots.c, snapshot_folder.c and stop.c.

Simpler than those: training waits while a file is written, and agreeing on a stop costs a message per step."""
import glob, os, signal, sys
import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from twin_checkpoint import Checkpoint, read_file

EXIT_STOPPED = 75  # start me again
IDENTITY = "model", "dataset", "num_samples", "seed", "optimizer", "global_batch_size"  # else it is another run
requested = []  # the signals that this rank got


class Snapshots(Checkpoint):
    """Saves inside epochs too, and resumes from one of many files."""

    def found(self, pattern):
        """(step, epoch, path) of this run's files, the furthest first. Only their headers are read."""
        files = []
        for path in glob.glob("%s/%s.safetensors" % (glob.escape(self.args.checkpoint_dir), pattern)):
            try:
                with safe_open(path, "pt") as file:
                    metadata = file.metadata() or {}
                if all(metadata.get(key) == str(self.run[key]) for key in IDENTITY):
                    files.append((int(metadata["step"]), int(metadata["epoch"]), path))
            except (OSError, ValueError, KeyError, SafetensorError) as error:
                print("skipped: %s: %s" % (path, error), file=sys.stderr)
        return sorted(files, reverse=True)

    def furthest(self):
        """(tensors, metadata) of the furthest file of this run that is not damaged, or None."""
        for step, epoch, path in self.found("*"):
            try:
                content = read_file(path)
                print("resumes from %s: epoch %d, step %d" % (path, epoch, step), file=sys.stderr)
                return content
            except (OSError, ValueError) as error:
                print("skipped: %s: %s" % (path, error), file=sys.stderr)
        return None

    def resume(self):
        """Rank 0 reads the file and hands its content to all: it may lie on one node only. Returns the first epoch."""
        if self.args.resume != "auto":
            return self.load()
        content = [self.furthest() if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(content)
        if content[0] is None:
            return self.load()
        self.restore(*content[0])
        return self.sampler.epoch

    def save_snapshot(self):
        """Writes DIR/snapshot_eE_sS, inside an epoch, too. Removes all but the newest --keep."""
        epoch, position = self.sampler.epoch, self.sampler.position * self.world_size  # not next(): its test is due
        self.write("snapshot_e%d_s%d" % (epoch, self.step), epoch, position, "snapshot")
        snapshots = [path for step, _, path in self.found("snapshot_e*_s*") if step <= self.step]
        for path in snapshots[self.args.keep:]:
            os.remove(path)


def stop_listen():
    for number in signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT:
        signal.signal(number, lambda number, _: requested.append(number))


def stop_agreed(device):
    """Has any rank got a signal? All learn it after the same step: one that continued alone would wait forever."""
    request = torch.tensor(len(requested), device=device)
    dist.all_reduce(request)
    return request.item() > 0
