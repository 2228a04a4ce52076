#!/bin/sh
# Tool:  pyarrow 26.0.1 and polars 2.1.0, write_dataset(max_rows_per_file=...) and the folder read back
# Guess: rows in the order in which they were written, at least with preserve_order=True: labels beside it fit.
# Seen:  with more than ten files, no: the names have no leading zeros, and part-10 is read before part-2.
# > 10 files: pyarrow in order, polars in order
# > 12 files: pyarrow 0 1 10 11 2 3 4 5 6 7 8 9, polars 0 1 10 11 2 3 4 5 6 7 8 9
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install pyarrow==26.0.1 polars==2.1.0

python - "$tmp" <<'EOF' 2>"$tmp/errors" | verdict
import sys
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

def order(rows):
    return 'in order' if rows == sorted(rows) else ' '.join(map(str, rows))

for count in 10, 12:
    folder = f'{sys.argv[1]}/{count}'
    ds.write_dataset(pa.table({'row': range(count)}), folder, format='parquet', preserve_order=True,
                     max_rows_per_file=1, max_rows_per_group=1)
    print(f'{count} files: pyarrow {order(ds.dataset(folder).to_table()["row"].to_pylist())},'
          f' polars {order(pl.read_parquet(folder)["row"].to_list())}')
EOF
