#!/usr/bin/env python3
"""Usage: data/to_idx.py TRAIN [TEST] FOLDER      Writes MNIST's four files, from other forms of such images.

TRAIN and TEST end in .csv (Kaggle, OpenML) or .parquet (the Hub of Hugging Face), or TRAIN is an .npz with both (Keras).
Without TEST every fifth row is for the test, beginning with the first. Needs NumPy, and for Parquet pyarrow and Pillow.
"""
import io, os, sys


def from_csv(path):
    """A label and 784 pixels in each row; a header may say that the label comes last."""
    with open(path) as file:
        names = file.readline().strip().replace('"', '').split(',')
    has_header = not names[0].replace('.', '').isdigit()
    rows = numpy.loadtxt(path, delimiter=',', skiprows=int(has_header), ndmin=2, quotechar='"')
    if rows.shape[1] == 784:
        sys.exit(f'{path}: has no labels (784 columns, not 785); leave it out, or name another file')
    is_last = has_header and names[-1] in ('class', 'label')
    return (rows[:, :-1], rows[:, -1]) if is_last else (rows[:, 1:], rows[:, 0])


def from_parquet(path):
    import PIL.Image, pyarrow.parquet
    table = pyarrow.parquet.read_table(path, columns=['image', 'label']).to_pydict()
    images = [PIL.Image.open(io.BytesIO(image['bytes'])).convert('L') for image in table['image']]
    return numpy.array([numpy.asarray(image) for image in images]), numpy.array(table['label'])


def read(path):
    if path.endswith('.csv'):
        return from_csv(path)
    if path.endswith('.parquet'):
        return from_parquet(path)
    sys.exit(f'{path}: is no .csv and no .parquet')


def halves(paths):
    """Returns images and labels to train on, and to test."""
    if len(paths) == 1 and paths[0].endswith('.npz'):
        with numpy.load(paths[0]) as arrays:
            return [(arrays['x_' + half], arrays['y_' + half]) for half in ('train', 'test')]
    if len(paths) == 2:
        return [read(path) for path in paths]
    images, labels = read(paths[0])
    is_test = numpy.arange(len(labels)) % 5 == 0
    return [(images[~is_test], labels[~is_test]), (images[is_test], labels[is_test])]


def check(array, most, what):
    if not numpy.array_equal(array, array.clip(0, most).round()):
        raise ValueError(f'its {what} are not whole numbers from 0 to {most}')


def write(path, array):
    with open(path, 'xb') as file:
        file.write(bytes([0, 0, 8, array.ndim]) + numpy.array(array.shape, '>u4').tobytes() + array.astype('u1').tobytes())


def main():
    *paths, folder = sys.argv[1:] or ['']
    if not 1 <= len(paths) <= 2 or folder.startswith('-'):
        print(__doc__, file=sys.stdout if folder in ('-h', '--help') else sys.stderr)
        sys.exit(0 if folder in ('-h', '--help') else 2)
    try:
        global numpy
        import numpy
        both = [(images.reshape(len(labels), 28, 28), labels) for images, labels in halves(paths)]
        for images, labels in both:
            check(images, 255, 'pixels')
            check(labels, 9, 'labels')
        os.makedirs(folder, exist_ok=True)
        for name, (images, labels) in zip(('train', 't10k'), both):
            write(f'{folder}/{name}-labels-idx1-ubyte', labels)
            write(f'{folder}/{name}-images-idx3-ubyte', images)
    except ImportError as error:
        sys.exit(f'{paths[0]}: needs {error.name}: python3 -m pip install {dict(PIL="pillow").get(error.name, error.name)}')
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f'{paths[0]}: cannot be converted: {str(error).splitlines()[0]}')
    print(f'{folder}: {len(both[0][1])} images to train on, {len(both[1][1])} for the test; use it with --dataset mnist --data-dir {folder}')


if __name__ == '__main__':
    main()
