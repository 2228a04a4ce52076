#!/bin/sh
# Tool:  perfetto 0.59.1 from PyPI, which reads traces in Python
# Guess: once installed, TraceProcessor works without a network, as the package is all that it needs.
# Seen:  the package holds only Python; the first TraceProcessor downloads a program with curl.
# > programs in the package: 0
# > addresses of trace_processor_shell in it, for Linux: 3
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install perfetto==0.59.1

python - 2>"$tmp/errors" <<'EOF' | verdict
import importlib.metadata, re

files = [file.locate() for file in importlib.metadata.files('perfetto')]
print('programs in the package:', sum(open(file, 'rb').read(4) == b'\x7fELF' for file in files))
manifest, = (open(file).read() for file in files if file.name == 'trace_processor_shell.py')
print('addresses of trace_processor_shell in it, for Linux:', len(re.findall("https://.*/linux-.*/trace_processor_shell'", manifest)))
EOF
