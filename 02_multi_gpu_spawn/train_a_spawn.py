"""02_multi_gpu_spawn in PyTorch, stage a - one process per device, each on its own.

New: spawn, once per rank. Each is a fresh Python: a forked one could not use its parent's CUDA."""
import os, sys
sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../pytorch"))
from twin import LABEL, DistributedSampler, Metrics, args_parse, check_divergence, dataset_init, device_init
from twin import log_print, model_init, model_loss, optim_init
from twin_checkpoint import Checkpoint
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader


def run_batch(model, optim, inputs, targets):
    """One step of gradient descent. Returns the loss."""
    optim.zero_grad()
    loss = model_loss(model(inputs), targets)
    loss.backward()
    optim.step()
    return loss.detach()


def evaluate(model, test_set, batch_size, epoch, metrics, device):
    """Prints loss and accuracy over the test set, in which every image counts once."""
    loader = DataLoader(test_set, batch_size)

    loss = correct = 0
    model.eval()
    with torch.no_grad():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            outputs = model(inputs)
            loss += model_loss(outputs, targets).item() * len(targets)
            correct += (outputs.argmax(1) == targets).sum().item()
    model.train()

    metrics.test(epoch, loss / len(test_set), correct, len(test_set))


def train(rank, world_size, args):
    device = device_init(args, rank, world_size)

    # Data: the whole set sits in host memory; sampler and loader say which rows form a batch.
    torch.manual_seed(args.seed)
    train_set, test_set = dataset_init(args, "train"), dataset_init(args, "test")

    sampler = DistributedSampler(train_set, 1, 0, seed=args.seed + rank)
    loader = DataLoader(train_set, args.batch_size, sampler=sampler)

    # Model: a tensor for each parameter, each with its gradient.
    if rank > 0:
        torch.manual_seed(args.seed + rank)  # weights of its own
    model = model_init(args).to(device)
    optim = optim_init(args, model)

    checkpoint = Checkpoint(args, model, optim, sampler, train_set, world_size)
    first_epoch = checkpoint.load()  # 0, unless --resume names a file
    metrics = Metrics(args, rank, checkpoint.step)

    for epoch in range(first_epoch, args.epochs):
        if checkpoint.step >= args.max_steps:
            break
        sampler.set_epoch(epoch)  # a different order in each epoch
        log_print(f"[{LABEL[device.type]}{rank}] Epoch {epoch} | Batchsize: {args.batch_size} | Steps: {len(loader)}")

        for number, (inputs, targets) in enumerate(loader, sampler.position // args.batch_size):
            loss = run_batch(model, optim, inputs.to(device), targets.to(device))
            checkpoint.step += 1
            metrics.step(epoch, checkpoint.step, loss)

            # Reading the loss makes the host wait for the device, so do it rarely.
            if number % args.log_interval == 0:
                check_divergence(loss)
                log_print(f"Train Epoch: {epoch} [{number * args.batch_size}/{len(train_set)}] Loss: {loss:.6f}")
            if checkpoint.step >= args.max_steps:
                break

        if len(test_set) > 0:  # the random set has none
            evaluate(model, test_set, args.batch_size, epoch, metrics, device)
        if args.save_every > 0 and epoch % args.save_every == 0:
            checkpoint.save()

    checkpoint.save_final()


def spawn(world_size, args):
    """Runs train() in world_size processes; returns the status of the first that failed, or 0."""
    try:
        mp.spawn(train, (world_size, args), world_size)
    except mp.ProcessExitedException as failure:  # it has ended the other ranks, which might wait forever
        return failure.exit_code if failure.exit_code > 0 else 128 - failure.exit_code
    return 0


if __name__ == "__main__":
    args = args_parse(nproc=0)
    sys.exit(spawn(args.nproc or torch.cuda.device_count() or 2, args))
