import os
os.environ['KERAS_BACKEND'] = 'jax'
import numpy
from safetensors.numpy import load_file, save_file
import ours


def to_keras(weights):
    """[out, in, height, width] to [height, width, in, out]; fc1's inputs from channels first to channels last."""
    turned = {name: array.transpose(2, 3, 1, 0) if array.ndim == 4 else array.T for name, array in weights.items()}
    turned['fc1.weight'] = weights['fc1.weight'].reshape(128, 64, 12, 12).transpose(2, 3, 1, 0).reshape(9216, 128)
    return turned


def from_keras(weights):
    turned = {name: array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T for name, array in weights.items()}
    turned['fc1.weight'] = weights['fc1.weight'].reshape(12, 12, 64, 128).transpose(3, 2, 0, 1).reshape(128, 9216)
    return turned


def keras():
    import keras
    from keras import layers
    names = ['conv1', 'conv2', 'fc1', 'fc2']
    model = keras.Sequential([keras.Input((28, 28, 1)), layers.Conv2D(32, 3, activation='relu', name='conv1'),
                              layers.Conv2D(64, 3, activation='relu', name='conv2'), layers.MaxPooling2D(), layers.Flatten(),
                              layers.Dense(128, activation='relu', name='fc1'), layers.Dense(10, activation='log_softmax', name='fc2')])
    weights = to_keras(load_file(ours.MODEL))
    for name in names:
        model.get_layer(name).set_weights([weights[name + '.weight'], weights[name + '.bias']])
    images, labels = ours.test_set()
    ours.agrees(numpy.asarray(model.predict(images.transpose(0, 2, 3, 1), verbose=0)), labels)
    try:
        model.load_weights(ours.MODEL)
        raise AssertionError('Keras reads safetensors now')
    except ValueError as error:
        assert 'format not supported' in str(error)
    model.save(ours.SCRATCH + '/net.keras')
    back = load_file(ours.converted(ours.SCRATCH + '/net.keras'))
    theirs = {name: 'layers/' + path for name, path in zip(names, ('conv2d', 'conv2d_1', 'dense', 'dense_1'))}
    named = {'%s.%s' % (name, kind): back['%s/vars/%d' % (path, i)] for name, path in theirs.items() for i, kind in enumerate(('weight', 'bias'))}
    save_file({name: numpy.ascontiguousarray(array) for name, array in from_keras(named).items()}, ours.SCRATCH + '/back.safetensors')
    assert ours.told(ours.SCRATCH + '/back.safetensors') == ours.told(ours.MODEL)


def jax():
    from safetensors import flax
    wanted, theirs = load_file(ours.CHECKPOINT), flax.load_file(ours.CHECKPOINT)
    assert {name: numpy.asarray(array).tolist() for name, array in theirs.items()} == {name: array.tolist() for name, array in wanted.items()}
    assert str(theirs['optimizer.step'].dtype) == 'int32' and str(wanted['optimizer.step'].dtype) == 'int64'
    flax.save_file({name: array for name, array in theirs.items() if not name.startswith('optimizer.')}, ours.SCRATCH + '/jax.safetensors')
    assert ours.told(ours.SCRATCH + '/jax.safetensors') == ours.told(ours.MODEL)


globals()[ours.TEST]()
