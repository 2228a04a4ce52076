#!/bin/sh
# Usage: bench/serve.sh MODEL [REQUESTS [CLIENTS]]      Requests per second of tools/serve, by ab (apache2-utils).
# One line per kind of body and run: requests per second, and the server's CPU time for each request.
set -eu
export LC_ALL=C.UTF-8 # awk and sort take and print 0.5, not 0,5
CDPATH='' cd "$(dirname "$0")/.."
model=$1 requests=${2:-5000} clients=${3:-8}
folder=$(mktemp -d)
tools/serve "$model" --port 0 >"$folder/said" &
server=$!
trap 'kill $server; rm -r "$folder"' EXIT
trap 'exit 1' HUP INT TERM

PYTHONPATH=tests python3 -B - "$folder" <<'END'
import json, sys, pictures
_, rows = next(pictures.digits())
pixels = [value for row in pictures.as_mnist(rows) for value in row]
with open(sys.argv[1] + "/json", "w") as file:
    json.dump({"pixels": pixels}, file)
with open(sys.argv[1] + "/png", "wb") as file:
    file.write(pictures.png(pictures.on_paper(pictures.enlarge(rows, 14), 10)))
END
until url=$(sed -n 's/.* at \(http:[^ ]*\).*/\1/p' "$folder/said") && [ -n "$url" ]; do
    kill -0 $server && sleep 0.1
done

# In seconds. The kernel counts in ticks.
cpu() {
    awk -v hertz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hertz }' /proc/$server/stat
}
for _ in 1 2 3; do
    for type in application/json image/png; do
        before=$(cpu)
        ab -q -k -n "$requests" -c "$clients" -p "$folder/${type#*/}" -T $type "${url}predict" >"$folder/ab" 2>&1
        ! grep -q 'Non-2xx\|Failed requests: *[1-9]' "$folder/ab" || { cat "$folder/ab" && exit 1; }
        sed -n "s|^Requests per second: *\([0-9]*\).*|$type: \1 requests/s|p" "$folder/ab" | tr '\n' ' '
        echo "$(cpu) $before $requests" | awk '{ printf "CPU %.2f ms each\n", 1000 * ($1 - $2) / $3 }'
    done
done
