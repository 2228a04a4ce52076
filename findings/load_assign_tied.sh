#!/bin/sh
# Tool:  PyTorch 2.15.0, load_state_dict(assign=True), as for a model made on the meta device, with a tied weight
# Guess: the weight stays tied, as without assign=True.
# Seen:  two parameters in one memory: each has a part of the gradient, and the optimizer steps twice in that memory.
#        SGD hides it, Adam does not. Both tensors stay equal, so comparing them finds nothing.
# > assign=False: 1 parameter, after 3 steps of SGD -0.350, of Adam 0.700
# > assign=True: 2 parameters, after 3 steps of SGD -0.350, of Adam 0.400
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - "$tmp/model.pt" <<'EOF' 2>"$tmp/errors" | verdict
import sys
import torch

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(1, 1, bias=False)
        self.last = torch.nn.Linear(1, 1, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x):
        return self.first(x) + 2 * self.last(x)

def train(assign, optimizer, lr):
    model = Tied()
    model.load_state_dict(torch.load(sys.argv[1]), assign=assign)
    optimizer = optimizer(model.parameters(), lr)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
    assert model.first.weight.equal(model.last.weight)
    return len(list(model.parameters())), model.first.weight.item()

model = Tied()
torch.nn.init.ones_(model.first.weight)
torch.save(model.state_dict(), sys.argv[1])
for assign in False, True:
    count, sgd = train(assign, torch.optim.SGD, 0.15)
    _, adam = train(assign, torch.optim.Adam, 0.1)
    print(f"assign={assign}: {count} parameter{'s' * (count > 1)}, after 3 steps of SGD {sgd:.3f}, of Adam {adam:.3f}")
EOF
