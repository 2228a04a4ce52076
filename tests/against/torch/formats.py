"""Usage: formats.py converted|divided|relatives|records      Files of other programs, as ours read them."""
import os, pickle, re, subprocess, sys, tempfile
import numpy, torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
import ours, reference

CONVERT = [sys.executable, "-B", "tools/to_safetensors.py"]


def model():
    job = reference.Job({"model": "cnn", "epochs": 1, "batch-size": 64, "optimizer": "sgd", "lr": 0.02, "momentum": 0.9,
                         "max-steps": 10, "seed": 5})
    job.train()
    return job.model


def told(path):
    """What tools/evaluate says of it, without the lines about the file."""
    return subprocess.run(["tools/evaluate", path, "--dataset", "digits"], check=True, capture_output=True, text=True).stdout


def converted():
    weights = model().state_dict()
    arrays = {name: value.numpy() for name, value in weights.items()}
    with tempfile.TemporaryDirectory() as scratch:
        save_file(weights, scratch + "/wanted.safetensors")
        wanted = told(scratch + "/wanted.safetensors")
        torch.save({"MODEL_STATE": weights, "EPOCHS_RUN": 3}, scratch + "/snapshot.pt")
        torch.save(weights, scratch + "/pytorch_model.bin")
        torch.save({"epoch": 1, "model_state_dict": weights, "loss": 0.5}, scratch + "/old.pth", _use_new_zipfile_serialization=False)
        numpy.savez(scratch + "/weights.npz", **arrays)
        numpy.savez_compressed(scratch + "/small.npz", **arrays)
        for protocol in 2, 4, 5:
            with open("%s/%d.pkl" % (scratch, protocol), "wb") as file:
                pickle.dump(arrays, file, protocol=protocol)
        kinds = {"snapshot.pt": "a file of torch.save", "pytorch_model.bin": "a file of torch.save", "old.pth": "a file of torch.save, of the time before 1.6",
                 "weights.npz": "an archive of NumPy", "small.npz": "an archive of NumPy", "2.pkl": "a pickle", "4.pkl": "a pickle",
                 "5.pkl": "a pickle"}
        for name, kind in kinds.items():
            path, out = scratch + "/" + name, scratch + "/out.safetensors"
            refused = subprocess.run(["tools/evaluate", path], capture_output=True, text=True)
            assert refused.returncode == 1 and "%s: is %s" % (path, kind) in refused.stderr, refused.stderr
            trust = ["--trust"] if kind == "a pickle" else []
            if trust:
                refused = subprocess.run([*CONVERT, path, out], capture_output=True, text=True)
                assert refused.returncode == 1 and not os.path.exists(out) and "trust" in refused.stderr, refused
            subprocess.run([*CONVERT, path, out, *trust], check=True)
            assert {key: value.tolist() for key, value in load_file(out).items()} == {key: value.tolist() for key, value in weights.items()}, name
            assert told(out) == wanted, name
            os.remove(out)


def divided():
    """The folder of a distributed checkpoint: safetensors as it is, its own form after its own converter."""
    weights = {name: value.clone() for name, value in model().state_dict().items()}
    with tempfile.TemporaryDirectory() as scratch:
        save_file(weights, scratch + "/wanted.safetensors")
        wanted = told(scratch + "/wanted.safetensors")
        parts = {name: 1 + i % 3 for i, name in enumerate(weights)}
        for folder, mapping in ("three", parts), ("one", None):
            writer = dcp.HuggingFaceStorageWriter("%s/%s" % (scratch, folder), fqn_to_index_mapping=mapping)
            dcp.save(weights, storage_writer=writer, no_dist=True)
            print(folder, sorted(os.listdir("%s/%s" % (scratch, folder))))
            assert told("%s/%s" % (scratch, folder)) == wanted
        dcp.save(weights, checkpoint_id=scratch + "/own", no_dist=True)
        refused = subprocess.run(["tools/evaluate", scratch + "/own"], capture_output=True, text=True)
        first, second = re.search(r'\("(.*?)", then "(.*?)" convert it\)', refused.stderr).groups()
        for line in first, second:
            subprocess.run(line.replace("python3 ", sys.executable + " -B ", 1).replace(" tools/", " %s/tools/" % os.getcwd()).split(),
                           check=True, cwd=scratch)
        assert told(scratch + "/weights.safetensors") == wanted


def write_idx(path, array):
    """The format as the page of MNIST describes it, and NumPy's types in it."""
    types = {"|u1": 8, "|i1": 9, ">i2": 11, ">i4": 12, ">f4": 13, ">f8": 14}
    with open(path, "wb") as file:
        file.write(bytes([0, 0, types[array.dtype.str], array.ndim]) + numpy.array(array.shape, ">u4").tobytes() + array.tobytes())


def relatives():
    """The digits as images of bytes, saved as each set saves its own: the losses are those of MNIST's own files."""
    pixels = {}
    for half in "train", "test":
        images, labels = reference.digits_split(half)
        ink = (images.numpy().reshape(-1, 28, 28) * reference.STD + reference.MEAN) * 255
        pixels[half] = numpy.rint(ink).astype("u1"), labels.numpy()
    options = {"model": "cnn", "dataset": "mnist", "epochs": 1, "num-samples": 320}
    losses = {}
    with tempfile.TemporaryDirectory() as scratch:
        for kind in "mnist", "emnist", "qmnist", "floats":
            folder = "%s/%s" % (scratch, kind)
            os.mkdir(folder)
            for half in "train", "test":
                images, labels = pixels[half]
                name, labels_name, table = ("t10k" if half == "test" else half), "idx1-ubyte", labels.astype("u1")
                if kind == "emnist":
                    name, images = "emnist-digits-" + half, images.transpose(0, 2, 1)
                elif kind == "qmnist":
                    name, labels_name = "qmnist-" + half, "idx2-int"
                    table = numpy.concatenate([labels[:, None], numpy.arange(7 * len(labels)).reshape(-1, 7)], axis=1).astype(">i4")
                elif kind == "floats":
                    images, table = (images / 255).astype(">f4")[:, None], labels.astype(">i2")
                write_idx("%s/%s-images-idx3-ubyte" % (folder, name), numpy.ascontiguousarray(images))
                write_idx("%s/%s-labels-%s" % (folder, name, labels_name), table)
            steps, output = ours.train({**options, "data-dir": folder}, step=1)
            losses[kind] = steps, re.findall("Test Epoch.*", output)
    for kind, (steps, tested) in losses.items():
        assert steps == losses["mnist"][0] and tested == losses["mnist"][1] != [], kind
        print("%s: %d steps, the first loss %.6f" % (kind, len(steps[0]), steps[0][0]))


def records():
    """What PyTorch's analyser says of tools/ddp_doctor --torch."""
    analyser = [os.path.join(os.path.dirname(sys.executable), "torchfrtrace")]
    with tempfile.TemporaryDirectory() as scratch:
        for name, fault in ("good", []), ("cut", ["--inject", "kill:1:4"]):
            folder, out = "%s/%s" % (scratch, name), "%s/%s_torch" % (scratch, name)
            done = subprocess.run(["05_fault_tolerance/run.sh", "2", "--model", "linear", "--max-steps", "8", "--save-every", "0",
                                   "--checkpoint-dir", folder, *fault], capture_output=True, text=True, timeout=ours.ENDLESS,
                                  env={**os.environ, "MAX_RESTARTS": "0"})
            assert (done.returncode == 0) == (name == "good"), done.stderr
            subprocess.run(["tools/ddp_doctor", "--torch", out, folder], check=True)
            told = subprocess.run([*analyser, out], capture_output=True, text=True)
            said = told.stdout + told.stderr
            assert told.returncode == 0, said
            print(name, said)
            # Rank 1 is missing in the next call; or rank 0 was ended in the last one, which rank 1 had completed.
            is_missing = "Not all ranks joining collective" in said and "missing ranks: {1}" in said
            assert (is_missing or "Culprit rank 1;" in said) == (name == "cut"), said
            assert "has errors" not in said or (name == "cut" and not is_missing), said


globals()[sys.argv[1]]()
