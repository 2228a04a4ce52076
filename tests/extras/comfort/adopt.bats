#!/usr/bin/env bats
# What --init-from and the tools are given by other programs: a model in several files, and files of other formats, which
# are named with what converts them.

setup_file() {
    export RUN=$BATS_FILE_TMPDIR/run WHOLE=$BATS_FILE_TMPDIR/whole.safetensors
    01_single_gpu/run.sh 1 0 --num-samples 320 --checkpoint-dir "$RUN" >/dev/null
    tools/export "$RUN/cnn_digits.safetensors" "$BATS_FILE_TMPDIR/model" >/dev/null
    # The tensors alone, as another program would have them.
    python3 - "$BATS_FILE_TMPDIR/model/model.safetensors" "$WHOLE" <<END
import sys
$(shards)
write(sys.argv[2], read(sys.argv[1]))
END
}

setup() {
    scratch=$BATS_TEST_TMPDIR
    unset RANK LOCAL_RANK WORLD_SIZE
}

# Python's functions that read and write the format, by its description alone.
shards() {
    cat <<'END'
import json, struct
def read(path):
    data = open(path, 'rb').read()
    length, = struct.unpack('<Q', data[:8])
    header = json.loads(data[8:8 + length])
    header.pop('__metadata__', None)
    body = data[8 + length:]
    return {name: (t['dtype'], t['shape'], body[slice(*t['data_offsets'])]) for name, t in header.items()}
def write(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + b''.join(data for _, _, data in tensors.values()))
END
}

# split FOLDER PYTHON: writes the model as three parts; the Python may change `index` (tensor -> file) or `parts` before.
split() {
    mkdir -p "$1"
    python3 - "$WHOLE" "$1" <<END
import sys
$(shards)
tensors = read(sys.argv[1])
names = ['model-%05d-of-00003.safetensors' % (i + 1) for i in range(3)]
parts = {name: dict(list(tensors.items())[i::3]) for i, name in enumerate(names)}
index = {tensor: name for name in names for tensor in parts[name]}
$2
for name, part in parts.items():
    write(sys.argv[2] + '/' + name, part)
if index:
    json.dump({'metadata': {'total_size': 1}, 'weight_map': index}, open(sys.argv[2] + '/model.safetensors.index.json', 'w'))
END
}

refused() { # WORDS FILE: in one line, by a tool
    run timeout 100 tools/evaluate "$2" --dataset digits
    echo "$output"
    [ "$status" -eq 1 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"$1"* ]]
}

@test "a model in three files, with an index or without, is the model" {
    tools/evaluate "$WHOLE" --dataset digits >"$scratch/whole"
    split "$scratch/indexed" ""
    split "$scratch/numbered" "index = {}"
    split "$scratch/alone" "index, parts = {}, {'model-00001-of-00001.safetensors': tensors}"
    touch "$scratch/alone/model-00001-of-00009.safetensors.part" # of a download
    split "$scratch/named" "parts = {'a.safetensors': tensors}; index = {tensor: 'a.safetensors' for tensor in tensors}"
    for folder in indexed numbered alone named; do
        tools/evaluate "$scratch/$folder" --dataset digits >"$scratch/told"
        diff "$scratch/whole" "$scratch/told"
    done
    01_single_gpu/train 1 0 --init-from "$scratch/indexed" --max-steps 1 --checkpoint-dir "$scratch/c" --metrics-dir "$scratch/a"
    01_single_gpu/train 1 0 --init-from "$WHOLE" --max-steps 1 --checkpoint-dir "$scratch/c" --metrics-dir "$scratch/b"
    cmp "$scratch/a/rank0.jsonl" "$scratch/b/rank0.jsonl"
}

@test "parts that do not fit together are refused by name" {
    split "$scratch/gone" "del parts[names[1]]"
    refused "model-00002-of-00003.safetensors: No such file" "$scratch/gone"
    split "$scratch/short" "index, parts = {}, dict(list(parts.items())[:2])"
    refused "model-00003-of-00003.safetensors: No such file" "$scratch/short"
    split "$scratch/twice" "parts[names[2]]['fc1.bias'] = tensors['fc1.bias']; parts[names[0]]['fc1.bias'] = tensors['fc1.bias']"
    refused '"fc1.bias" in two files' "$scratch/twice"
    split "$scratch/lies" "index['fc9.bias'] = names[0]"
    refused '"fc9.bias", which is not in it' "$scratch/lies"
    split "$scratch/away" "index['fc1.bias'] = '../gone/' + names[0]"
    refused 'names no file for "fc1.bias"' "$scratch/away"
    split "$scratch/away" "index['fc1.bias'] = '$scratch/gone/' + names[0]"
    refused 'names no file for "fc1.bias"' "$scratch/away"
    split "$scratch/away" "index['fc1.bias'] = '..'"
    refused 'is no regular file' "$scratch/away"
    split "$scratch/two" "index = {}; parts['model-00001-of-00002.safetensors'] = {}"
    refused "the parts of two models" "$scratch/two"
    mkdir "$scratch/empty"
    for text in '' '[]' '{"weight_map": 7}' '{"weight_map": {"a": 7}}'; do
        echo "$text" >"$scratch/empty/model.safetensors.index.json"
        refused "model.safetensors.index.json" "$scratch/empty"
    done
}

@test "a file of another format is named, with what converts it" {
    python3 - "$scratch" <<'END'
import gzip, pickle, sys, zipfile
def put(name, data):
    open(sys.argv[1] + '/' + name, 'wb').write(data.ljust(100, b'\n'))
for name, inside in ('torch.pt', 'archive/data.pkl'), ('numpy.npz', 'fc1.weight.npy'), ('some.zip', 'README'), \
        ('m.pt2', 'model/data/weights/weight_0'), ('m.keras', 'metadata.json'):
    with zipfile.ZipFile(sys.argv[1] + '/' + name, 'w') as archive:
        archive.writestr(inside, b'{"keras_version": "3.15.1"}' if name == 'm.keras' else b'1234')
put('old.pt', pickle.dumps(0x1950a86a20f9469cfc6c, protocol=2))
for protocol in 2, 3, 4, 5:
    put('p%d.pkl' % protocol, pickle.dumps({'fc1.weight': [1.0, 2.0]}, protocol=protocol))
put('keras.h5', b'\x89HDF\r\n\x1a\n')
put('one.npy', b'\x93NUMPY\x01\x00v\x00')
put('m.gguf', b'GGUF\x03\x00\x00\x00')
put('m.onnx', b'\x08\x0a\x12\x07pytorch')
put('m.msgpack', b'\x81\xa6params\x88')
put('m.gz', gzip.compress(b'1234'))
put('lfs', b'version https://git-lfs.github.com/spec/v1\noid sha256:12\n')
put('page', b'<!DOCTYPE html><html>')
put('index', b'{"metadata": {}}')
put('short', b'\x80\x02\x00\x00\x00\x00\x00\x00')  # a header of 640 bytes in a file that was cut
END
    refused "torch.pt: is a file of torch.save, no safetensors file (\"python3 tools/to_safetensors.py $scratch/torch.pt weights.safetensors\" converts it)" "$scratch/torch.pt"
    refused "is a file of torch.save, of the time before 1.6" "$scratch/old.pt"
    refused "is an archive of NumPy (.npz), no safetensors file (\"python3 tools/to_safetensors.py " "$scratch/numpy.npz"
    refused "is a zip, no safetensors file" "$scratch/some.zip"
    for protocol in 2 3 4 5; do refused "is a pickle, no safetensors file (\"python3" "$scratch/p$protocol.pkl"; done
    refused "is an HDF5 file, as Keras writes them, no safetensors file (\"python3" "$scratch/keras.h5"
    refused "is one array of NumPy, no safetensors file: save all arrays by name" "$scratch/one.npy"
    refused "is a GGUF file" "$scratch/m.gguf"
    refused "is an ONNX model, no safetensors file (\"python3 tools/to_safetensors.py" "$scratch/m.onnx"
    refused "is a MessagePack file, as Flax writes them, no safetensors file: load it there" "$scratch/m.msgpack"
    refused "is a program of torch.export, no safetensors file (\"python3" "$scratch/m.pt2"
    refused "is an archive of Keras (.keras), no safetensors file (\"python3" "$scratch/m.keras"
    refused "unpack it with gunzip" "$scratch/m.gz"
    refused "git lfs pull" "$scratch/lfs"
    refused "is a web page" "$scratch/page"
    refused "name its folder" "$scratch/index"
    refused "is damaged or no safetensors file" "$scratch/short"
    run 01_single_gpu/train 1 0 --init-from "$scratch/torch.pt" --checkpoint-dir "$scratch/c"
    echo "$output"
    [ "$status" -eq 2 ] && [[ $output == *"is a file of torch.save"* ]]
    mkdir "$scratch/folder"
    touch "$scratch/folder/pytorch_model.bin"
    refused "has no model.safetensors, but pytorch_model.bin (\"python3 tools/to_safetensors.py $scratch/folder/pytorch_model.bin weights.safetensors\"" "$scratch/folder"
    touch "$scratch/folder/.metadata"
    refused "dcp_to_torch $scratch/folder model.pt" "$scratch/folder"
}
