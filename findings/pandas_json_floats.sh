#!/bin/sh
# Tool:  pandas 3.1.1, read_json
# Guess: a number becomes the float that Python's json makes of it, the nearest one.
# Seen:  many are a neighbour of it, so a comparison with == fails; precise_float=True reads all of them as json does.
# > 1.1 is read as 1.1, 2.26036119 as 2.2603611900000002
# > of 1000 numbers with nine digits, all read as by json: False, with precise_float=True: True
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install pandas==3.1.1

python - 2>"$tmp/errors" <<'EOF' | verdict
import io, json, random
import pandas

def read(numbers, **options):
    lines = ''.join('{"loss": %s}\n' % number for number in numbers)
    return pandas.read_json(io.StringIO(lines), lines=True, **options).loss.tolist()

print('1.1 is read as {}, 2.26036119 as {}'.format(*read(['1.1', '2.26036119'])))
random.seed(0)
numbers = ['%.9g' % random.uniform(0, 10) for _ in range(1000)]
exact = [json.loads(number) for number in numbers]
print('of 1000 numbers with nine digits, all read as by json:', read(numbers) == exact, end='')
print(', with precise_float=True:', read(numbers, precise_float=True) == exact)
EOF
