"""What our programs say and have, for comparison with other tools. RUN is a folder with a short training's files."""
import csv, gzip, json, re, subprocess, sys
import numpy

TEST, RUN, SCRATCH = sys.argv[1:]
MODEL, CHECKPOINT = RUN + '/model/model.safetensors', RUN + '/cnn_digits.safetensors'


def told(path):
    """Loss and accuracy of tools/evaluate, as text."""
    return subprocess.run(['tools/evaluate', path, '--dataset', 'digits'], check=True, capture_output=True, text=True).stdout.split('\n')[0]


def converted(path):
    out = SCRATCH + '/converted.safetensors'
    subprocess.run([sys.executable, '-B', 'tools/to_safetensors.py', path, out], check=True)
    return out


def test_set():
    """The test images as the model gets them, [n, 1, 28, 28], and their labels; data/README.md says how they are made."""
    with gzip.open('data/digits.csv.gz', 'rt') as file:
        rows = numpy.array([list(map(int, row)) for row in csv.reader(file)][::5])
    at = numpy.maximum(0, (numpy.arange(20) + 0.5) * 8 / 20 - 0.5)
    low = at.astype(int)
    enlarge = numpy.zeros((20, 8))
    enlarge[numpy.arange(20), low] += 1 - (at - low)
    enlarge[numpy.arange(20), numpy.minimum(low + 1, 7)] += at - low
    images = numpy.zeros((len(rows), 1, 28, 28))
    images[:, 0, 4:24, 4:24] = enlarge @ (rows[:, :64].reshape(-1, 8, 8) / 16) @ enlarge.T
    return ((images - 0.1307) / 0.3081).astype('f4'), rows[:, 64]


def agrees(log_probs, labels):
    """Says what tools/evaluate would, and whether it does so of MODEL."""
    right = int((log_probs.argmax(1) == labels).sum())
    loss = -float(log_probs[numpy.arange(len(labels)), labels].mean())
    theirs, wanted = 'loss %.4f, %d right' % (loss, right), told(MODEL)
    ours = re.search(r'Loss: ([0-9.]+) .*\((\d+)/', wanted)
    print(theirs, '; ours:', wanted)
    assert abs(loss - float(ours[1])) <= 1.1e-4 and right == int(ours[2])


def lines(name):
    with open(RUN + '/' + name) as file:
        return [json.loads(line) for line in file]
