import glob, gzip, os, subprocess, sys
import numpy
import ours


def losses(path):
    """The losses of a file, as each library reads it."""
    import duckdb, pandas, polars, pyarrow.json
    yield 'pandas', pandas.read_json(path, lines=True, precise_float=True).loss.astype(object).where(lambda value: value.notna(), None).tolist()
    yield 'polars', polars.read_ndjson(path)['loss'].to_list()
    yield 'duckdb', [row[0] for row in duckdb.sql("select loss from read_json('%s')" % path).fetchall()]
    yield 'pyarrow', pyarrow.json.read_json(path)['loss'].to_pylist()
    import datasets
    yield 'datasets', list(datasets.load_dataset('json', data_files=path, split='train', cache_dir=ours.SCRATCH)['loss'])


def curves():
    for rank in '01':
        wanted = [line['loss'] for line in ours.lines('rank%s.jsonl' % rank)]
        for name, read in losses(ours.RUN + '/rank%s.jsonl' % rank):
            assert read == wanted, (name, read[:3], wanted[:3])
    import duckdb
    counted = duckdb.sql("select count(*), count(distinct rank) from read_json('%s/rank*.jsonl')" % ours.RUN).fetchall()
    assert counted == [(2 * len(wanted), 2)]


def no_number():
    command = ['01_single_gpu/train', '--model', 'linear', '--lr', '1000', '--max-steps', '20', '--metrics-dir', ours.SCRATCH, '--checkpoint-dir', ours.SCRATCH]
    subprocess.run(command, capture_output=True)
    for name, read in losses(ours.SCRATCH + '/rank0.jsonl'):
        print(name, read)
        assert len(read) >= 2 and read[0] > 0 and read[-1] is None, name


def digits():
    import datasets, pandas
    from PIL import Image
    rows = numpy.loadtxt(gzip.open('data/digits.csv.gz', 'rt'), delimiter=',').astype(int)
    labels, images = rows[:, 64], numpy.zeros((len(rows), 28, 28), 'u1')
    images[:, 6:22, 6:22] = (rows[:, :64] * 255 // 16).reshape(-1, 8, 8).repeat(2, 1).repeat(2, 2)
    is_test = numpy.arange(len(rows)) % 5 == 0
    table = pandas.DataFrame(images.reshape(len(rows), 784)).add_prefix('pixel')
    os.chdir(ours.SCRATCH)
    table.assign(label=labels)[['label', *table]].to_csv('train.csv', index=False)
    table.assign(**{'class': labels}).to_csv('mnist_784.csv', index=False)
    numpy.savez('mnist.npz', x_train=images[~is_test], y_train=labels[~is_test], x_test=images[is_test], y_test=labels[is_test])
    features = datasets.Features({'image': datasets.Image(), 'label': datasets.ClassLabel(num_classes=10)})
    for half, chosen in ('train', ~is_test), ('test', is_test):
        pictures = {'image': [Image.fromarray(image) for image in images[chosen]], 'label': labels[chosen].tolist()}
        datasets.Dataset.from_dict(pictures, features=features).to_parquet(half + '.parquet')
    wanted = [array.astype('u1').tobytes() for chosen in (is_test, ~is_test) for array in (images[chosen], labels[chosen])]
    for forms in ['train.csv'], ['mnist_784.csv'], ['mnist.npz'], ['train.parquet', 'test.parquet']:
        folder = forms[0] + '.idx'
        subprocess.run([sys.executable, '-B', HERE + '/data/to_idx.py', *forms, folder], check=True)
        assert [open(path, 'rb').read()[16 if 'images' in path else 8:] for path in sorted(glob.glob(folder + '/*'))] == wanted, forms
        trained = subprocess.run([HERE + '/01_single_gpu/train', '1', '0', '--dataset', 'mnist', '--data-dir', folder], capture_output=True, text=True)
        assert '(3' in trained.stdout and '/360)' in trained.stdout, trained
    table.to_csv('test.csv', index=False)
    table.assign(label=labels + 5)[['label', *table]].to_csv('letters.csv', index=False)
    for name, reason in ('test.csv', 'has no labels'), ('letters.csv', 'labels are not whole numbers from 0 to 9'):
        refused = subprocess.run([sys.executable, '-B', HERE + '/data/to_idx.py', name, 'none'], capture_output=True, text=True)
        assert refused.returncode == 1 and reason in refused.stderr and not os.path.exists('none'), refused


HERE = os.getcwd()
globals()[ours.TEST]()
