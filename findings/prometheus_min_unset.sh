#!/bin/sh
# Tool:  prometheus_client 0.26.0, multiprocess mode, gauges of a process that imports them and sets none (a launcher)
# Guess: 'min' is the smallest of the numbers that the other processes set, 'max' the largest.
# Seen:  the 0 that a gauge starts with counts, too: a smallest of 5 and 6 is 0, a largest of -6 and -5 is 0.
# > only workers: min 5, max -5
# > and a launcher: min 0, max 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install prometheus_client==0.26.0

cat >"$tmp/gauges.py" <<'EOF'
import sys
from prometheus_client import Gauge

smallest = Gauge('smallest', 'Samples per second of the slowest', multiprocess_mode='min')
largest = Gauge('largest', 'Logarithm of the largest loss', multiprocess_mode='max')
for number in sys.argv[1:]:
    smallest.set(float(number))
    largest.set(-float(number))
EOF
cat >"$tmp/collect.py" <<'EOF'
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

registry = CollectorRegistry()
MultiProcessCollector(registry)
print(f"min {registry.get_sample_value('smallest'):g}, max {registry.get_sample_value('largest'):g}")
EOF
mkdir "$tmp/gauges"
export PROMETHEUS_MULTIPROC_DIR="$tmp/gauges"
{
    python "$tmp/gauges.py" 5
    python "$tmp/gauges.py" 6
    echo "only workers: $(python "$tmp/collect.py")"
    python "$tmp/gauges.py"
    echo "and a launcher: $(python "$tmp/collect.py")"
} 2>"$tmp/errors" | verdict
