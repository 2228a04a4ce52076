#!/bin/sh
# Tool:  tfrecord 1.14.6, the reader without TensorFlow
# Guess: shard=(1, 2) gives half, with an index or without; without a shard, records come in the file's order.
# Seen:  without an index, every shard is the whole file. With an index but no shard, reading starts at a random record.
# > shard 1 of 2, with index: 5 records, without: 10
# > with index, no shard, 20 times: starts at more than one record
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install tfrecord==1.14.6

python - "$tmp/ten" 2>"$tmp/errors" <<'EOF' | verdict
import sys
from tfrecord import TFRecordWriter, tfrecord_loader
from tfrecord.tools.tfrecord2idx import create_index

path, index = sys.argv[1], sys.argv[1] + '.index'
writer = TFRecordWriter(path)
for number in range(10):
    writer.write({'number': (number, 'int')})
writer.close()
create_index(path, index)

def read(index, shard=None):
    return [int(record['number'][0]) for record in tfrecord_loader(path, index, {'number': 'int'}, shard=shard)]

print(f'shard 1 of 2, with index: {len(read(index, (1, 2)))} records, without: {len(read(None, (1, 2)))}')
starts = {read(index)[0] for _ in range(20)}
print('with index, no shard, 20 times: starts at', 'more than one record' if len(starts) > 1 else starts)
EOF
