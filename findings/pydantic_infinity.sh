#!/bin/sh
# Tool:  pydantic 2.14.4, model_dump_json() and model_validate_json() of a training's state
# Guess: a best loss of inf, as before the first epoch, comes back, or is refused on the way out; so NaN.
# Seen:  both become null, so None where that is allowed. Where None is not allowed, reading fails. The setting is
#        ser_json_inf_nan, and model_dump() does keep them.
# > inf: by JSON None, by model_dump() inf
# > nan: by JSON None, by model_dump() nan
# > inf with ser_json_inf_nan='constants': by JSON inf, by model_dump() inf
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install pydantic==2.14.4

python - <<'EOF' 2>"$tmp/errors" | verdict
import math
import pydantic

class State(pydantic.BaseModel):
    best_loss: float | None = None

class Constants(State):
    model_config = pydantic.ConfigDict(ser_json_inf_nan='constants')

for name, kind, loss in (('inf', State, math.inf), ('nan', State, math.nan),
                         ("inf with ser_json_inf_nan='constants'", Constants, math.inf)):
    state = kind(best_loss=loss)
    print(f'{name}: by JSON {kind.model_validate_json(state.model_dump_json()).best_loss},'
          f' by model_dump() {kind.model_validate(state.model_dump()).best_loss}')
EOF
