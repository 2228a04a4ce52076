#!/bin/sh
# Tool:  TensorBoard 2.21.0, its two readers in Python: plugin_event_accumulator serves --load_fast=false
# Guess: a SessionLog START at step 2, in a file that a resumed run adds, removes the older values from step 2 on.
# Seen:  plugin_event_accumulator passes over the first START that it meets, so that steps 2 and 3 appear twice.
# > event_accumulator: steps [0, 1, 2, 3, 4]
# > plugin_event_accumulator: steps [0, 1, 2, 3, 2, 3, 4]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install tensorboard==2.21.0

python - "$tmp/run" 2>"$tmp/errors" <<'EOF' | verdict
import sys
import time
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

def write(steps, events):
    writer = EventFileWriter(sys.argv[1])
    for event in events:
        writer.add_event(event)
    for step in steps:
        value = Summary.Value(tag='loss', simple_value=1)
        writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=[value])))
    writer.close()

write(range(4), [])
time.sleep(1.1)  # the name of a file holds its second
write(range(2, 5), [Event(wall_time=time.time(), step=2, session_log=SessionLog(status=SessionLog.START))])
older = event_accumulator.EventAccumulator(sys.argv[1])
older.Reload()
print('event_accumulator: steps', [event.step for event in older.Scalars('loss')])
newer = plugin_event_accumulator.EventAccumulator(sys.argv[1])
newer.Reload()
print('plugin_event_accumulator: steps', [event.step for event in newer.Tensors('loss')])
EOF
