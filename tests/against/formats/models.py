import subprocess
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
import ours


def rewritten():
    path = ours.SCRATCH + '/again.safetensors'
    with safe_open(ours.CHECKPOINT, 'np') as file:
        metadata = file.metadata()
    save_file(load_file(ours.CHECKPOINT), path, metadata)
    first = [open(name, 'rb').read().index(b'"fc2.weight"') for name in (path, ours.CHECKPOINT)]
    assert first[0] != first[1], 'the order is no other'
    assert ours.told(path) == ours.told(ours.CHECKPOINT)
    resumed = subprocess.run(['01_single_gpu/train', '3', '0', '--resume', path, '--batch-size', '64', '--checkpoint-dir', ours.SCRATCH],
                             capture_output=True, text=True)
    assert resumed.returncode == 0 and 'Epoch 2' in resumed.stdout, resumed


def tinygrad():
    from tinygrad.nn.state import safe_load, safe_save
    theirs = {name: tensor.to('CPU') for name, tensor in safe_load(ours.CHECKPOINT).items()}
    wanted = load_file(ours.CHECKPOINT)
    assert {name: tensor.numpy().tolist() for name, tensor in theirs.items()} == {name: array.tolist() for name, array in wanted.items()}
    path = ours.SCRATCH + '/tiny.safetensors'
    safe_save({name: tensor for name, tensor in theirs.items() if not name.startswith('optimizer.')}, path)
    assert ours.told(path) == ours.told(ours.MODEL)


def onnx():
    import onnx, onnxruntime
    from onnx import helper
    weights = load_file(ours.MODEL)

    def node(kind, x, y, layer=None, **attributes):
        return helper.make_node(kind, [x, layer + '.weight', layer + '.bias'] if layer else [x], [y], **attributes)

    nodes = [node('Conv', 'x', 'a', 'conv1'), node('Relu', 'a', 'b'), node('Conv', 'b', 'c', 'conv2'), node('Relu', 'c', 'd'),
             node('MaxPool', 'd', 'e', kernel_shape=[2, 2], strides=[2, 2]),  # as a rule 1: not the size of the kernel
             node('Flatten', 'e', 'f'), node('Gemm', 'f', 'g', 'fc1', transB=1), node('Relu', 'g', 'h'),
             node('Gemm', 'h', 'i', 'fc2', transB=1), node('LogSoftmax', 'i', 'y', axis=1)]
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in (('x', ['n', 1, 28, 28]), ('y', ['n', 10]))]
    graph = helper.make_graph(nodes, 'net', value[:1], value[1:], [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()])
    path = ours.SCRATCH + '/net.onnx'
    onnx.save(helper.make_model(graph), path)
    onnx.checker.check_model(path)
    images, labels = ours.test_set()
    ours.agrees(onnxruntime.InferenceSession(path).run(None, {'x': images})[0], labels)
    refused = subprocess.run(['tools/evaluate', path], capture_output=True, text=True)
    assert refused.returncode == 1 and 'is an ONNX model' in refused.stderr, refused
    assert ours.told(ours.converted(path)) == ours.told(ours.MODEL)


globals()[ours.TEST]()
