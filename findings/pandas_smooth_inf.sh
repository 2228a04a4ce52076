#!/bin/sh
# Tool:  pandas 3.1.1 beside polars 2.1.0, a loss of inf in a curve that is smoothed
# Guess: the smoothed curve has inf or NaN there, as a mean has.
# Seen:  polars, so; pandas takes the point for missing and goes on without it, and so does the largest loss so far.
# > pandas, loss: 1.0 inf 3.0 4.0
# > pandas, ewm: 1.00 1.00 2.60 3.46
# > pandas, expanding mean: 1.00 1.00 2.00 2.67
# > pandas, mean of up to two: 1.00 1.00 3.00 3.50
# > pandas, expanding max: 1.00 1.00 3.00 4.00
# > pandas, mean of all: inf
# > polars, ewm: 1.00 inf nan nan
# > polars, mean of up to two: 1.00 inf inf 3.50
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install pandas==3.1.1 polars==2.1.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import math
import pandas as pd
import polars as pl

def show(name, curve):
    print(f'{name}:', ' '.join(f'{point:.2f}' for point in curve))

loss = [1.0, math.inf, 3.0, 4.0]
frame, series = pd.Series(loss), pl.Series(loss)
print('pandas, loss:', *frame)
show('pandas, ewm', frame.ewm(alpha=0.5).mean())
show('pandas, expanding mean', frame.expanding().mean())
show('pandas, mean of up to two', frame.rolling(2, min_periods=1).mean())
show('pandas, expanding max', frame.expanding().max())
print('pandas, mean of all:', frame.mean())
show('polars, ewm', series.ewm_mean(alpha=0.5))
show('polars, mean of up to two', series.rolling_mean(2, min_samples=1))
EOF
