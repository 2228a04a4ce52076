#!/bin/sh
# Tool:  pandas 3.1.1 with pyarrow 26.0.1, polars 2.1.0: to_parquet(partition_cols=...), read back
# Guess: the columns' types come back, as they do without partition_cols.
# Seen:  a column that has become folders is guessed from their names. pandas makes text of a rate, which equals no
#        number any more, and numbers of runs' names; polars even makes one run of three.
# > pandas, plain file: rates [0.001, 0.01, 0.1], of rate 0.01: 1
# > pandas, by rate: rates ['0.001', '0.01', '0.1'], of rate 0.01: 0
# > pandas, by run: runs [7, 8, 9]
# > polars, by run: runs [7, 7, 7]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install pandas==3.1.1 pyarrow==26.0.1 polars==2.1.0 numpy==2.4.6

python - "$tmp" <<'EOF' 2>"$tmp/errors" | verdict
import sys
import pandas as pd
import polars as pl

def write(name, runs, by):
    points = pd.DataFrame({'run': runs, 'rate': [0.001, 0.01, 0.1], 'loss': [3.0, 2.0, 1.0]})
    points.to_parquet(f'{sys.argv[1]}/{name}', partition_cols=by)
    return f'{sys.argv[1]}/{name}'

names = '007', '008', '009'
for name, by in ('plain file', None), ('by rate', ['rate']):
    back = pd.read_parquet(write(name, names, by))
    print(f'pandas, {name}: rates {sorted(back.rate)}, of rate 0.01: {(back.rate == 0.01).sum()}')
print('pandas, by run: runs', sorted(pd.read_parquet(write('by run', names, ['run'])).run))
merged = pl.read_parquet(write('merged', ['7', '07', '007'], ['run']))
print('polars, by run: runs', sorted(merged['run']))
EOF
