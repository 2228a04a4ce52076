#!/bin/sh
# Tool:  TensorBoard 2.21.0, EventAccumulator, which scripts use to read a run's curves
# Guess: Scalars() gives all points that were written.
# Seen:  10,000 of them, drawn by chance: the last one is always there, others are missing, without a word.
# > written 20000, read 10000, the last is step 19999
# > with size_guidance={'scalars': 0}: read 20000
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install tensorboard==2.21.0

python - "$tmp/run" 2>"$tmp/errors" <<'EOF' | verdict
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

writer = EventFileWriter(sys.argv[1])
for step in range(20000):
    writer.add_event(Event(wall_time=step, step=step, summary=Summary(value=[Summary.Value(tag='loss', simple_value=1)])))
writer.close()

def read(**options):
    run = EventAccumulator(sys.argv[1], **options)
    run.Reload()
    return run.Scalars('loss')

points = read()
print(f'written 20000, read {len(points)}, the last is step {points[-1].step}')
print(f"with size_guidance={{'scalars': 0}}: read {len(read(size_guidance={'scalars': 0}))}")
EOF
