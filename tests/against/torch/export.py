"""Usage: export.py exported|linear|evaluated      Models handed on, both ways."""
import re, runpy, subprocess, sys, tempfile
import numpy, torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
import ours, reference


def export(scratch, model):
    """Trains, exports, and runs the folder's own program. Returns the folder and what it defines."""
    ours.train({"model": model, "epochs": 1, "dropout": "on"}, scratch)
    names = {"cnn": "cnn_digits", "linear": "linear_random"}
    folder = scratch + "/model"
    subprocess.run(["tools/export", "%s/%s.safetensors" % (scratch, names[model]), folder], check=True)
    said = subprocess.check_output([sys.executable, "-B", folder + "/load_in_pytorch.py"], text=True)
    assert "a batch of one zero: tensor(" in said, said
    return folder, runpy.run_path(folder + "/load_in_pytorch.py")


def exported():
    with tempfile.TemporaryDirectory() as scratch:
        folder, loaded = export(scratch, "cnn")
        rows = ours.peer("dump", "log_probs", folder + "/model.safetensors")
    outputs = torch.tensor(numpy.frombuffer(rows, "f4").reshape(10, 360)).T
    images, _ = reference.digits_split("test")
    theirs = loaded["predict"](images * reference.STD + reference.MEAN)
    off = (outputs - theirs).abs().max().item()
    print("log probabilities off by %.1e at most" % off)
    assert theirs.shape == (360, 10) and off <= 1e-5
    assert loaded["config"]["class_labels"] == list("0123456789")


def linear():
    with tempfile.TemporaryDirectory() as scratch:
        folder, loaded = export(scratch, "linear")
        weights = load_file(scratch + "/linear_random.safetensors")
    inputs = torch.rand(100, 20)
    wanted = inputs @ weights["weight"].T + weights["bias"]
    assert (loaded["predict"](inputs) - wanted).abs().max().item() <= 1e-6
    assert loaded["config"]["input_shape"] == [20]


def evaluated():
    """Ten classes, loss and accuracy of a model that PyTorch has made, trained a little and saved."""
    job = reference.Job({"model": "cnn", "epochs": 1, "batch-size": 64, "optimizer": "sgd", "lr": 0.02,
                         "momentum": 0.9, "seed": 5})
    job.train()
    images, labels = reference.digits_split("test")
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        save_file(job.model.state_dict(), scratch + "/theirs.safetensors")
        said = subprocess.check_output(["tools/evaluate", scratch + "/theirs.safetensors",
                                        "--dataset", "digits"], text=True).splitlines()
        log_probs = job.model(images)
    chosen = log_probs.argmax(dim=1)
    loss, correct = re.search(r"Loss: ([\d.]+) .*\((\d+)/360\)", said[0]).groups()
    assert abs(float(loss) - F.nll_loss(log_probs, labels).item()) <= 6e-5, said[0]
    assert int(correct) == (chosen == labels).sum().item() > 100, said[0]
    matrix = [[int(n.replace(".", "0")) for n in line.split()[1:]] for line in said[4:14]]
    wanted = torch.zeros(10, 10, dtype=torch.long).index_put_(
        (labels, chosen), torch.ones(360, dtype=torch.long), accumulate=True)
    assert matrix == wanted.tolist(), (matrix, wanted)
    print("\n".join(said))


if __name__ == "__main__":
    {case.__name__: case for case in (exported, linear, evaluated)}[sys.argv[1]]()
