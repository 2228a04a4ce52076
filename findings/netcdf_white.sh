#!/bin/sh
# Tool:  netCDF4 1.7.5.1.post1 for Python, a variable of integers, all of them written, none marked as missing
# Guess: all come back.
# Seen:  255 of uint8 (white in an image), 65535 of uint16, and -127 of int8 (as quantized weights have it) count as
#        missing, and a mean leaves them out. createVariable(fill_value=False) keeps bytes, but no uint16.
# > uint8 [0, 255, 255], as it is: [0, None, None], mean 0
# > uint8 [0, 255, 255], fill_value=False: [0, 255, 255], mean 170
# > int8 [127, -127, -127], as it is: [127, None, None], mean 127
# > int8 [127, -127, -127], fill_value=False: [127, -127, -127], mean -42
# > uint16 [0, 65535, 65535], as it is: [0, None, None], mean 0
# > uint16 [0, 65535, 65535], fill_value=False: [0, None, None], mean 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install netCDF4==1.7.5.1.post1 numpy==2.4.6

python - "$tmp/numbers.nc" <<'EOF' 2>"$tmp/errors" | verdict
import sys
import netCDF4
import numpy as np

for kind, numbers in ('uint8', [0, 255, 255]), ('int8', [127, -127, -127]), ('uint16', [0, 65535, 65535]):
    for name, options in ('as it is', {}), ('fill_value=False', {'fill_value': False}):
        with netCDF4.Dataset(sys.argv[1], 'w') as file:
            file.createDimension('place', len(numbers))
            file.createVariable('numbers', kind, ('place',), **options)[:] = np.array(numbers, kind)
        with netCDF4.Dataset(sys.argv[1]) as file:
            back = file['numbers'][:]
        print(f'{kind} {numbers}, {name}: {back.tolist()}, mean {back.mean():.0f}')
EOF
