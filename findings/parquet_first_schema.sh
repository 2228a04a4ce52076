#!/bin/sh
# Tool:  pyarrow 26.0.1, pandas 3.1.1 and DuckDB 2.0.1, a folder of Parquet files, one for each part of a run
# Guess: what only later files have is read, too, or the files are refused, as polars does.
# Seen:  one file's columns and types count, pyarrow's documentation says the first's. A metric that came later is left
#        out, and DuckDB makes integers of the losses if the first were integers.
# > pandas, val_loss in the second file only: step, loss
# > pyarrow, val_loss in the second file only: step, loss
# > DuckDB, val_loss in the second file only: step, loss
# > polars, val_loss in the second file only: SchemaError
# > pyarrow, losses 3 and 2, then 1.4 and 0.6: ArrowInvalid
# > DuckDB, losses 3 and 2, then 1.4 and 0.6: 3, 2, 1, 1
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install pyarrow==26.0.1 pandas==3.1.1 duckdb==2.0.1 polars==2.1.0 numpy==2.4.6

python - "$tmp" <<'EOF' 2>"$tmp/errors" | verdict
import os
import sys
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

def write(name, *parts):
    folder = os.path.join(sys.argv[1], name)
    os.mkdir(folder)
    for number, part in enumerate(parts):
        pd.DataFrame(part).to_parquet(f'{folder}/part-{number}.parquet')
    return folder

def show(name, read):
    try:
        seen = ', '.join(map(str, read()))
    except (pl.exceptions.SchemaError, pa.ArrowInvalid) as error:
        seen = type(error).__name__
    print(f'{name}: {seen}')

first = {'step': [1, 2], 'loss': [3.0, 2.0]}
columns = write('columns', first, {'step': [3, 4], 'loss': [1.4, 0.6], 'val_loss': [2.0, 1.0]})
for name, read in (('pandas', lambda: pd.read_parquet(columns).columns),
                   ('pyarrow', lambda: pq.read_table(columns).column_names),
                   ('DuckDB', lambda: duckdb.sql(f"FROM '{columns}/*.parquet'").columns),
                   ('polars', lambda: pl.read_parquet(columns).columns)):
    show(name + ', val_loss in the second file only', read)
types = write('types', {'loss': [3, 2]}, {'loss': [1.4, 0.6]})
for name, read in (('pyarrow', lambda: pq.read_table(types)['loss'].to_pylist()),
                   ('DuckDB', lambda: [loss for loss, in duckdb.sql(f"FROM '{types}/*.parquet'").fetchall()])):
    show(name + ', losses 3 and 2, then 1.4 and 0.6', read)
EOF
