#!/bin/sh
# Tool:  polars 2.1.0, read_ndjson, beside DuckDB 2.0.1
# Guess: a column of whole numbers, then of others, is read as floats, wherever the first of these stands.
# Seen:  types come from the first 100 rows; a later float or a number after 100 nulls ends the reading with an error.
# > 1 in 100 rows, then 2.5: polars ComputeError, DuckDB sum 102.5
# > null in 100 rows, then 2.5: polars ComputeError, DuckDB sum 2.5
# > 1 in 99 rows, then 2.5: polars sum 101.5, DuckDB sum 101.5
# > with infer_schema_length=None: polars sum 102.5
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install polars==2.1.0 duckdb==2.0.1

python - "$tmp/run.jsonl" 2>"$tmp/errors" <<'EOF' | verdict
import sys
import duckdb
import polars

path = sys.argv[1]

def by_polars(**options):
    try:
        return f"sum {polars.read_ndjson(path, **options)['loss'].sum()}"
    except Exception as error:
        return type(error).__name__

for first, rows in ('1', 100), ('null', 100), ('1', 99):
    with open(path, 'w') as file:
        file.write('{"loss": %s}\n' % first * rows + '{"loss": 2.5}\n')
    (total,), = duckdb.sql(f"select sum(loss) from read_json('{path}')").fetchall()
    print(f'{first} in {rows} rows, then 2.5: polars {by_polars()}, DuckDB sum {total}')
with open(path, 'w') as file:
    file.write('{"loss": 1}\n' * 100 + '{"loss": 2.5}\n')
print('with infer_schema_length=None: polars', by_polars(infer_schema_length=None))
EOF
