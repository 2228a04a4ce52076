#!/bin/sh
# Tool:  pandas 3.1.1, read_json
# Guess: what stands in quotes stays text, and a number stays a number.
# Seen:  texts that look like numbers become numbers; numbers become dates, if the column's name ends in _at.
# > "007" becomes 7, "18446744073709551615" becomes 1.8446744073709552e+19
# > {"seconds": 3000000000, "saved_at": 3000000000} becomes 3000000000, 2065-01-24 05:20:00
# > with dtype=False, convert_dates=False: 007, 18446744073709551615, 3000000000
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install pandas==3.1.1

python - 2>"$tmp/errors" <<'EOF' | verdict
import io
import pandas

def read(line, **options):
    return pandas.read_json(io.StringIO(line + '\n'), lines=True, **options).iloc[0]

number, seed = '{"value": "007"}', '{"value": "18446744073709551615"}'
dates = '{"seconds": 3000000000, "saved_at": 3000000000}'
print(f'"007" becomes {read(number).value}, "18446744073709551615" becomes {float(read(seed).value)}')
print(dates, 'becomes', *[f'{read(dates).seconds},', read(dates).saved_at])
options = {'dtype': False, 'convert_dates': False}
print('with dtype=False, convert_dates=False:', f'{read(number, **options).value}, {read(seed, **options).value}, {read(dates, **options).saved_at}')
EOF
