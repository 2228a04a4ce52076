#!/bin/sh
# Tool:  torchmetrics 1.9.0 with PyTorch 2.15.0, double() of a metric
# Guess: a metric is a Module, so double() gives it sums of 64 bits.
# Seen:  double() changes nothing and says nothing: a count by ones stops at 2^24. set_dtype is heard.
# > SumMetric(): float32, 16777216 + 1 + 1 + 1 = 16777216
# > SumMetric().double(): float32, 16777216 + 1 + 1 + 1 = 16777216
# > SumMetric().set_dtype(torch.float64): float64, 16777216 + 1 + 1 + 1 = 16777219
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 torchmetrics==1.9.0 numpy==2.4.6

python - 2>"$tmp/errors" <<'EOF' | verdict
import torch
from torchmetrics import SumMetric

metrics = {
    '': SumMetric(),
    '.double()': SumMetric().double(),
    '.set_dtype(torch.float64)': SumMetric().set_dtype(torch.float64),
}
for call, metric in metrics.items():
    for value in 2.0**24, 1.0, 1.0, 1.0:
        metric.update(value)
    result = metric.compute()
    print(f"SumMetric(){call}: {str(result.dtype).removeprefix('torch.')}, 16777216 + 1 + 1 + 1 = {result.item():.0f}")
EOF
