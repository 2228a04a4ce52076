#!/bin/sh
# Tool:  deepspeed 0.19.8 with PyTorch 2.15.0
# Guess: SIGTERM to deepspeed ends its processes, as torchrun's does.
# Seen:  deepspeed ends, and its processes go on.
# > deepspeed has ended; processes that go on: 2
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 deepspeed==0.19.8

printf '#!/bin/sh\necho $$ >>"%s/pids"\necho up >>"%s/up"\nexec sleep 300\n' "$tmp" "$tmp" >"$tmp/rank.sh"
chmod +x "$tmp/rank.sh" && : >"$tmp/up"
DS_ACCELERATOR=cpu deepspeed --no_python --num_gpus 2 "$tmp/rank.sh" >"$tmp/said" 2>&1 &
launcher=$!
wait_for 2 "$tmp/up"
kill -TERM "$launcher"
wait "$launcher" 2>/dev/null || true
launcher=
sleep 10 # time to end them
left=0
while read -r pid; do
    kill -TERM "$pid" 2>/dev/null && left=$((left + 1))
done <"$tmp/pids"
echo "deepspeed has ended; processes that go on: $left" | verdict
