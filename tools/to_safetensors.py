#!/usr/bin/env python3
"""Usage: tools/to_safetensors.py FILE OUT.safetensors [--trust]      Converts weights that another program has saved.

FILE comes from torch.save (.pt, .pth, .bin, .ckpt), torch.export (.pt2), numpy.savez (.npz), pickle (.pkl), h5py or Keras
(.h5, .keras) or is an ONNX model (.onnx). Needs safetensors and NumPy, and PyTorch, h5py or onnx for their files. A pickle can
run any code of whoever wrote it: --trust loads it all the same.
"""
import io, pickle, sys, zipfile

NESTED = 'MODEL_STATE', 'model_state_dict', 'state_dict', 'model'  # where training programs keep the weights


def need_trust(path, what):
    sys.exit(f'{path}: {what}, which can run any code of whoever wrote it; if you trust them, add --trust')


def from_torch(path, trust):
    import torch
    try:
        return torch.load(path, map_location='cpu', weights_only=not trust)
    except (pickle.UnpicklingError, RuntimeError) as error:
        if trust or 'weights_only' not in str(error):
            sys.exit(f'{path}: is damaged')
        return need_trust(path, 'holds more than tensors')


def from_torch_export(path, trust):
    import torch
    if not trust:
        need_trust(path, 'is a program')
    return torch.export.load(path).state_dict


def from_onnx(path):
    import onnx
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


def from_numpy(path):
    import numpy
    with numpy.load(path) as arrays:
        return dict(arrays)


def from_hdf5(path):
    import h5py
    arrays = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return arrays


def from_pickle(path, trust):
    if not trust:
        need_trust(path, 'is a pickle')
    with open(path, 'rb') as file:
        return pickle.load(file)


def read(path, trust):
    with open(path, 'rb') as file:
        first = file.read(16)
    if first.startswith(b'\x89HDF'):
        return from_hdf5(path)
    if first.startswith(b'PK'):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if 'model.weights.h5' in names:
                return from_hdf5(io.BytesIO(archive.read('model.weights.h5')))
        if any('/data/weights/' in name for name in names):
            return from_torch_export(path, trust)
        return from_numpy(path) if all(name.endswith('.npy') for name in names) else from_torch(path, trust)
    if first.startswith(b'\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19'):  # the number that torch.save began with before 1.6
        return from_torch(path, trust)
    if first.startswith(b'\x80'):
        return from_pickle(path, trust)
    if first[:1] == b'\x08' and first[1] < 32 and first[2:3] in (b'\x12', b'\x3a', b'\x42'):
        return from_onnx(path)
    sys.exit(f'{path}: is no file of torch.save, torch.export, numpy.savez, pickle, Keras or ONNX')


def weights_of(data):
    """The dictionary of tensors or arrays, which may lie inside another dictionary."""
    if hasattr(data, 'state_dict'):  # a whole model
        data = data.state_dict()
    for name in NESTED:
        if isinstance(data, dict) and isinstance(data.get(name), dict):
            data = data[name]
    return {str(name): value for name, value in data.items() if hasattr(value, 'dtype') and hasattr(value, 'shape')} \
        if isinstance(data, dict) else {}


def write(weights, path):
    if any(type(value).__module__.startswith('torch') for value in weights.values()):
        import safetensors.torch, torch
        safetensors.torch.save_file({name: torch.as_tensor(value).detach().cpu().clone().contiguous() for name, value in weights.items()}, path)
    else:
        import numpy, safetensors.numpy
        safetensors.numpy.save_file({name: numpy.ascontiguousarray(value).reshape(value.shape) for name, value in weights.items()}, path)


def main():
    names = [word for word in sys.argv[1:] if word != '--trust']
    if names in (['-h'], ['--help']):
        return print(__doc__)
    if len(names) != 2 or any(name.startswith('-') for name in names):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    try:
        weights = weights_of(read(names[0], '--trust' in sys.argv))
        if not weights:
            sys.exit(f'{names[0]}: holds no tensors by name')
        write(weights, names[1])
    except ImportError as error:
        known = error.name in ('h5py', 'numpy', 'onnx', 'safetensors', 'torch')
        sys.exit(f'{names[0]}: needs {error.name}' + (f': python3 -m pip install {error.name}' if known else ', a module of whoever wrote it'))
    except Exception as error:  # a pickle may raise any
        sys.exit(f'{names[0]}: cannot be converted: {str(error or type(error).__name__).splitlines()[0]}')
    print(f'{names[1]}: {len(weights)} tensors, among them {next(iter(weights))}')
    if any(name.startswith(('layers/', 'model_weights/')) for name in weights):
        print("Keras's kernels are [height, width, in, out] and [in, out], its Flatten takes the channels last: turn them before use")


if __name__ == '__main__':
    main()
