"""02_multi_gpu_spawn in PyTorch, stage c - the ranks divide the data, and rank 0 prints and saves for all.

New: all ranks shuffle the same way and each takes every world_size-th row. Rank 0 prints means and sums, and saves."""
import datetime, os, socket, sys
sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../pytorch"))
from twin import LABEL, DistributedSampler, Metrics, args_parse, check_divergence, dataset_init, device_init
from twin import log_print, model_init, model_loss, optim_init
from twin_checkpoint import Checkpoint
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Subset


def run_batch(model, optim, inputs, targets):
    """One step of gradient descent. Returns the loss."""
    optim.zero_grad()
    loss = model_loss(model(inputs), targets)
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optim.step()
    return loss.detach()


def evaluate(model, test_set, batch_size, epoch, metrics, device):
    """Prints loss and accuracy over the test set, in which every image counts once."""
    loader = DataLoader(Subset(test_set, range(dist.get_rank(), len(test_set), dist.get_world_size())), batch_size)

    loss = correct = 0
    model.eval()
    with torch.no_grad():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            outputs = model(inputs)
            loss += model_loss(outputs, targets).item() * len(targets)
            correct += (outputs.argmax(1) == targets).sum().item()
    model.train()

    sums = torch.tensor([loss, correct], dtype=torch.float64, device=device)
    dist.all_reduce(sums)
    loss, correct = sums.tolist()
    if dist.get_rank() == 0:
        metrics.test(epoch, loss / len(test_set), correct, len(test_set))


def train(rank, world_size, master_port, args):
    device = device_init(args, rank, world_size)

    # Rendezvous: the ranks find each other through a TCPStore at this address. device_id: no barrier guesses the GPU.
    backend, timeout = "nccl" if device.type == "cuda" else "gloo", datetime.timedelta(seconds=args.timeout)
    dist.init_process_group(backend, "tcp://localhost:%d" % master_port, timeout, world_size, rank, device_id=device)

    # Data: the whole set sits in host memory; sampler and loader say which rows form a batch.
    torch.manual_seed(args.seed)
    train_set, test_set = dataset_init(args, "train"), dataset_init(args, "test")

    sampler = DistributedSampler(train_set, world_size, rank, seed=args.seed)
    loader = DataLoader(train_set, args.batch_size, sampler=sampler)

    # Model: a tensor for each parameter, each with its gradient.
    if rank > 0:
        torch.manual_seed(args.seed + rank)  # weights of its own, to be overwritten
    model = model_init(args).to(device)
    optim = optim_init(args, model)

    checkpoint = Checkpoint(args, model, optim, sampler, train_set, world_size)
    first_epoch = checkpoint.load()  # 0, unless --resume names a file
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)  # all ranks start with rank 0's weights
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
                dist.all_reduce(loss)  # the sum over the ranks
                check_divergence(loss)
                if rank == 0:
                    done = number * args.batch_size * world_size
                    log_print(f"Train Epoch: {epoch} [{done}/{len(train_set)}] Loss: {loss / world_size:.6f}")
            if checkpoint.step >= args.max_steps:
                break

        if len(test_set) > 0:  # the random set has none
            evaluate(model, test_set, args.batch_size, epoch, metrics, device)
        if rank == 0 and args.save_every > 0 and epoch % args.save_every == 0:
            checkpoint.save()

    if rank == 0:
        checkpoint.save_final()

    dist.barrier()  # rank 0's store is needed until all are here
    dist.destroy_process_group()


def spawn(world_size, args):
    """Runs train() in world_size processes; returns the status of the first that failed, or 0."""
    with socket.create_server(("localhost", 0)) as server:
        master_port = server.getsockname()[1]  # free, but not reserved: see step 03
    try:
        mp.spawn(train, (world_size, master_port, args), world_size)
    except mp.ProcessExitedException as failure:  # it has ended the other ranks, which might wait forever
        return failure.exit_code if failure.exit_code > 0 else 128 - failure.exit_code
    return 0


if __name__ == "__main__":
    args = args_parse(nproc=0)
    sys.exit(spawn(args.nproc or torch.cuda.device_count() or 2, args))
