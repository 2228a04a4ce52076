#!/bin/sh
# Tool:  DuckDB 2.0.1, read_json and read_csv
# Guess: a learning rate of 1 for 20,480 rows, then 0.3: a column of floats, or an error that tells of the row.
# Seen:  the type comes from the first 20,480 rows, and later values are rounded to it. sample_size=-1 looks at all.
# > read_json: 0
# > read_csv: 0
# > read_json, sample_size=-1: 0.3
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install duckdb==2.0.1

python - "$tmp/rates" <<'EOF' | verdict
import sys
import duckdb

rates = 20480 * [1] + [0.3]
with open(sys.argv[1] + '.jsonl', 'w') as lines, open(sys.argv[1] + '.csv', 'w') as table:
    print('step,lr', file=table)
    for step, rate in enumerate(rates):
        print('{"step": %d, "lr": %g}' % (step, rate), file=lines)
        print('%d,%g' % (step, rate), file=table)
for name, call in (('read_json', "read_json('%s.jsonl')"), ('read_csv', "read_csv('%s.csv')"),
                   ('read_json, sample_size=-1', "read_json('%s.jsonl', sample_size=-1)")):
    print(name + ':', duckdb.sql('select lr from %s where step = 20480' % call % sys.argv[1]).fetchall()[0][0])
EOF
