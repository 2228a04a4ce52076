#!/bin/sh
# Usage: tests/summary.sh [TAP_DIR]      Names what was skipped or failed, with what it printed, then counts:
# "N passed, ...". What tests/run_tests.sh ran twice is named, too, and counts as the second time.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/tap}
find "$folder" -name failed_at_first -exec cat {} +
# shellcheck disable=SC2016 # awk's, not ours
find "$folder" -name '*.tap' | sort | xargs awk '
    FNR == 1 { check(); file = FILENAME; planned = 0; seen = 0 }
    /^1\.\.[0-9]+/ { planned = substr($1, 4) + 0 }
    /^(not )?ok/ { seen++ }
    /^ok .*# [Ss][Kk][Ii][Pp]/ { skipped++; print "skipped: " $0; next }
    /^ok/ { passed++; lines = 0 }
    /^not ok/ { failed++; print "failed: " FILENAME ": " $0; lines = 30 }
    /^#/ && lines-- > 0
    function check() {
        if (file != "" && (seen < planned || planned == 0)) {
            failed++
            print "failed: " file ": broke off after " seen " of " planned " tests"
        }
    }
    END { check(); printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 }'
