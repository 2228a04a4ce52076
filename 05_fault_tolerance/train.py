"""05_fault_tolerance in PyTorch - the job survives killed ranks, lost nodes and the end of its time limit.

New: snapshots; every start resumes from the furthest valid file; a signal to one rank stops all after the same step."""
import datetime, os, sys
sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../pytorch"))
from twin import LABEL, DistributedSampler, Metrics, args_parse, check_divergence, dataset_init, device_init, env_int
from twin import log_print, model_init, model_loss, optim_init
from snapshots import EXIT_STOPPED, Snapshots, stop_agreed, stop_listen
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset


def run_batch(model, optim, inputs, targets):
    """One step of gradient descent. Returns the loss."""
    optim.zero_grad()
    loss = model_loss(model(inputs), targets)
    loss.backward()  # DDP's hooks notify its Reducer as each gradient gets ready
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


def train(args):
    # rank is unique in the job; local_rank is unique on this machine and picks the device.
    rank = env_int("RANK")
    local_rank = env_int("LOCAL_RANK")
    world_size = env_int("WORLD_SIZE")

    device = device_init(args, local_rank, int(os.environ.get("LOCAL_WORLD_SIZE", world_size)))

    # Rendezvous: the ranks find each other through a TCPStore at this address. device_id: no barrier guesses the GPU.
    backend, timeout = "nccl" if device.type == "cuda" else "gloo", datetime.timedelta(seconds=args.timeout)
    dist.init_process_group(backend, "env://", timeout, device_id=device)

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

    checkpoint = Snapshots(args, model, optim, sampler, train_set, world_size)
    first_epoch = checkpoint.resume()  # rank 0 loads, then broadcasts its state
    ddp = DistributedDataParallel(model)  # all ranks start with rank 0's weights
    metrics = Metrics(args, rank, checkpoint.step)

    stopped = False
    for epoch in range(first_epoch, args.epochs):
        if checkpoint.step >= args.max_steps:
            break
        sampler.set_epoch(epoch)  # a different order in each epoch
        log_print(f"[{LABEL[device.type]}{rank}] Epoch {epoch} | Batchsize: {args.batch_size} | Steps: {len(loader)}")

        for number, (inputs, targets) in enumerate(loader, sampler.position // args.batch_size):
            loss = run_batch(ddp, optim, inputs.to(device), targets.to(device))
            checkpoint.step += 1
            metrics.step(epoch, checkpoint.step, loss)
            if rank == 0 and args.save_every_steps > 0 and checkpoint.step % args.save_every_steps == 0:
                checkpoint.save_snapshot()

            # Reading the loss makes the host wait for the device, so do it rarely.
            if number % args.log_interval == 0:
                dist.all_reduce(loss)  # the sum over the ranks
                check_divergence(loss)
                if rank == 0:
                    done = number * args.batch_size * world_size
                    log_print(f"Train Epoch: {epoch} [{done}/{len(train_set)}] Loss: {loss / world_size:.6f}")
            stopped = checkpoint.step < args.max_steps and stop_agreed(device)
            if stopped or checkpoint.step >= args.max_steps:
                break

        if stopped:  # the next start resumes here
            if rank == 0:
                checkpoint.save_snapshot()
            break
        if len(test_set) > 0:  # the random set has none
            evaluate(model, test_set, args.batch_size, epoch, metrics, device)
        if rank == 0 and args.save_every > 0 and epoch % args.save_every == 0:
            checkpoint.save()

    if rank == 0 and not stopped:
        checkpoint.save_final()

    del ddp  # it uses the group
    dist.barrier()  # rank 0's store is needed until all are here
    dist.destroy_process_group()
    return EXIT_STOPPED if stopped else 0


if __name__ == "__main__":
    stop_listen()  # SIGTERM, SIGHUP, SIGUSR1 and SIGINT now mean: save and stop
    sys.exit(train(args_parse(resume="auto", save_every_steps=0, keep=3)))
