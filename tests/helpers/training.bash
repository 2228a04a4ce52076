# Compares two trainings.

# near FILE FILE TOLERANCE: the weights of two files differ by no more, relative to the largest.
near() {
    python3 - "$@" <<'END'
import array, json, operator, struct, sys

def tensors(path):
    data = open(path, 'rb').read()
    begin = 8 + struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:begin])
    header.pop('__metadata__')
    return {name: array.array('f', data[begin + t['data_offsets'][0]:begin + t['data_offsets'][1]])
            for name, t in header.items() if t['dtype'] == 'F32'}

ours, theirs = tensors(sys.argv[1]), tensors(sys.argv[2])
assert ours.keys() == theirs.keys() and ours
for name in ours:
    scale = max(map(abs, theirs[name])) or 1
    worst = max(map(abs, map(operator.sub, ours[name], theirs[name]))) / scale
    print(f'{name}: {worst:.1e}')
    assert worst <= float(sys.argv[3])
END
}

# losses_near NAME NAME TOLERANCE [LEAST]: rank 0's losses of two runs in $scratch differ by no more than this, relatively, and
# in one step at least by LEAST.
losses_near() {
    paste <(jq .loss "$scratch/$1/rank0.jsonl") <(jq .loss "$scratch/$2/rank0.jsonl") |
        awk -v tolerance="$3" -v least="${4:-0}" '
            { d = ($1 - $2) / $2; d = d < 0 ? -d : d; if (!(d <= tolerance)) bad = 1; if (d > most) most = d }
            END { print NR " steps, off by " most; exit bad || NR < 8 || most < least }'
}
