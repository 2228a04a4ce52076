#!/bin/sh
# Tool:  draccus 0.11.6, command-line options of a dataclass, a field of type str
# Guess: an option's text arrives as it was given, as with Python's argparse.
# Seen:  it is read as YAML first, and what YAML makes of it becomes text again: another name, and another folder.
# > --run 010: '8'
# > --run 1.10: '1.1'
# > --run 10:30: '630'
# > --run null: None
# > --run a010: 'a010'
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install draccus==0.11.6 PyYAML==6.0.4

python - <<'EOF' 2>"$tmp/errors" | verdict
import dataclasses
import draccus

@dataclasses.dataclass
class Options:
    run: str = 'first'

for text in '010', '1.10', '10:30', 'null', 'a010':
    print(f'--run {text}: {draccus.parse(Options, args=["--run", text]).run!r}')
EOF
