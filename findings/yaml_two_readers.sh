#!/bin/sh
# Tool:  ruamel.yaml 0.19.1, PyYAML 6.0.4 and omegaconf 2.3.1: a configuration that one writes and another reads
# Guess: numbers stay numbers, and texts texts: each quotes what needs quotes.
# Seen:  what needs quotes depends on the version of YAML. A rate from ruamel.yaml is text to PyYAML, and a commit's
#        name from PyYAML is a number to both others.
# > ruamel.yaml writes lr: 1e-05, PyYAML reads str '1e-05'
# > ruamel.yaml writes time: 10:30, PyYAML reads int 630
# > PyYAML writes commit: 1234567e8, ruamel.yaml reads float 123456700000000.0
# > PyYAML writes commit: 1234567e8, omegaconf reads float 123456700000000.0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install ruamel.yaml==0.19.1 PyYAML==6.0.4 omegaconf==2.3.1

python - <<'EOF' 2>"$tmp/errors" | verdict
import io
import omegaconf
import ruamel.yaml
import yaml

def write_ruamel(value):
    text = io.StringIO()
    ruamel.yaml.YAML().dump(value, text)
    return text.getvalue()

def show(value, writer, write, reader, read):
    text = write(value)
    came = next(iter(read(text).values()))
    print(f'{writer} writes {text.strip()}, {reader} reads {type(came).__name__} {came!r}')

show({'lr': 1e-5}, 'ruamel.yaml', write_ruamel, 'PyYAML', yaml.safe_load)
show({'time': '10:30'}, 'ruamel.yaml', write_ruamel, 'PyYAML', yaml.safe_load)
show({'commit': '1234567e8'}, 'PyYAML', yaml.safe_dump, 'ruamel.yaml', ruamel.yaml.YAML(typ='safe').load)
show({'commit': '1234567e8'}, 'PyYAML', yaml.safe_dump, 'omegaconf', omegaconf.OmegaConf.create)
EOF
