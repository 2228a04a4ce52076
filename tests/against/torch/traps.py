"""Usage: traps.py [NN]...     The faults of the clinic (teach/traps) in PyTorch: each twin shows the trap's symptom, and
the fixed twin does not; it prints what docs/answers/traps.md quotes. traps.py passes: two backward passes without an error."""
import os, re, subprocess, sys, tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TOP / "teach"), str(TOP / "tools")]
import docs, ours, trap, trap_twin


def quoted(name):
    """The commands with this twin that the page has, and the lines that they print."""
    blocks = docs.blocks_of(Path("docs/answers/traps.md").read_text().splitlines())
    return [(b.commands, b.quoted) for b in blocks if b.typed and f"trap_twin.py {name}" in b.commands]


def run(name):
    twin = trap_twin.Twin(name)
    for fixed in False, True:
        twin.write(fixed)
        done = subprocess.run(["sh", "-c", twin.script()], stdout=subprocess.PIPE, text=True, timeout=600)
        shown = re.search(twin.symptom, done.stdout, re.M) is not None
        print(f"twin {name}, {'fixed' if fixed else 'broken'}: {'the' if shown else 'no'} symptom", flush=True)
        assert shown != fixed, done.stdout
        for commands, lines in quoted(name) if not fixed else []:
            filters = commands.partition("|")[2] or "cat"
            printed = subprocess.run(["sh", "-c", filters], input=done.stdout, stdout=subprocess.PIPE, text=True).stdout
            # Which rank of trap 22 notices first is chance: the other one may only see a closed connection.
            got = printed.replace("Connection closed by peer", "Timed out waiting").splitlines()
            assert docs.same(lines, got, ""), f"docs/answers/traps.md quotes {lines}, and it is {got}"
    assert quoted(name), f"docs/answers/traps.md shows no output of twin {name}"


def passes(rank, world):
    """The gradient on this rank after two forward passes, and then a backward pass for each."""
    import torch
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    losses = [model(torch.full((1, 4), float(rank + i))).sum() for i in range(2)]
    for loss in losses:
        loss.backward()
    return model.module.weight.grad[0, 0].item()


def main(names):
    if names == ["passes"]:
        grads = ours.ranks(passes, 2)
        print("gradients of two ranks:", grads)
        assert grads[0] != grads[1]  # in the average they would be 2: (0 + 1 + 1 + 2) / 2
        return
    with tempfile.TemporaryDirectory() as folder:
        trap.LAB = Path(folder)
        for name in names or [name for name in trap.names() if trap.Trap(name).all("twin")]:
            run(name)


if __name__ == "__main__":
    os.environ.setdefault("TORCH_BIN", str(Path(sys.executable).parent))
    main(sys.argv[1:])
