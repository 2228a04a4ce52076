"""Usage: gloo.py collectives JOB...|train MODEL JOB...|failures|addresses|speed BYTES ROUNDS      Jobs over Gloo of both kinds.

In a job's name a letter is a rank: "pcp" is PyTorch, C, PyTorch. What a job of PyTorch alone computes is the expected value."""
import contextlib, datetime, os, runpy, signal, socket, subprocess, sys, tempfile, time, zlib
import torch
import torch.distributed as dist
import ours

PEER = os.path.join(ours.BUILD, "tests/against/torch/gloo_peer")
TRIED = "beyond/gloo was tried with PyTorch 2.5.1 and 2.15; this is %s, whose Gloo may be another: see " \
    "beyond/gloo/README.md, What is fragile" % torch.__version__
STEPS = 20


# ---- a rank in PyTorch ----


def numbers(count, seed, dtype=torch.float32):
    """The same as in gloo_peer.c."""
    x = (torch.arange(count, dtype=torch.int64) * 1103515245 + seed * 7919 + 12345) % 2147483648
    x = (x * 48271 + 11) % 2147483647
    if dtype == torch.bfloat16:
        return (x % 512 / 256 - 1).to(dtype)
    return (x.double() / 2147483647 - 0.5).to(dtype) if dtype.is_floating_point else (x % 100).to(dtype)


def show(name, count, dtype, root, tensor):
    data = tensor.contiguous().view(torch.uint8) if count else torch.empty(0)
    print("%s %d %s %d: %08x" % (name, count, str(dtype)[6:], root, zlib.crc32(data.numpy().tobytes())), flush=True)


def all_reduces(rank):
    for dtype in torch.float32, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8:
        for op in "sum", "max", "min":
            for count in 0, 1, 2, 3, 5, 7, 1000, 100003:
                t = numbers(count, rank, dtype)
                dist.all_reduce(t, getattr(dist.ReduceOp, op.upper()))
                show(op, count, dtype, 0, t)
    for count in 1199882, 3000001:
        t = numbers(count, rank)
        dist.all_reduce(t)
        show("sum", count, torch.float32, 0, t)
    tensors = [numbers(count, rank + 5) for count in (1000000, 10, 500000)]
    for work in [dist.all_reduce(t, async_op=True) for t in tensors]:
        work.wait()
    for t in tensors:
        show("async", len(t), torch.float32, 0, t)


def rooted(rank, size, count, dtype, root):
    t = numbers(count, rank, dtype)
    dist.broadcast(t, root)
    show("broadcast", count, dtype, root, t)
    out = [torch.empty(count, dtype=dtype) for _ in range(size)]
    t = numbers(count, rank, dtype)
    dist.gather(t, out if rank == root else None, root)
    if rank == root:
        show("gather", count, dtype, root, torch.cat(out))
    dist.reduce(t, root)
    if rank == root:
        show("reduce", count, dtype, root, t)
    t = torch.empty(count, dtype=dtype)
    dist.scatter(t, list(numbers(count * size, 3, dtype).chunk(size)) if rank == root else None, root)
    show("scatter", count, dtype, root, t)


def unrooted(rank, size, count, dtype):
    out = [torch.empty(count, dtype=dtype) for _ in range(size)]
    dist.all_gather(out, numbers(count, rank, dtype))
    show("all_gather", count, dtype, 0, torch.cat(out))
    dist.reduce_scatter_tensor(out[0], numbers(count * size, rank, dtype))
    show("reduce_scatter", count, dtype, 0, out[0])


def rank_collectives():
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    all_reduces(rank)
    for count in 1, 3, 1000, 100003:
        for dtype in torch.float32, torch.uint8:
            for root in range(size):
                rooted(rank, size, count, dtype, root)
            unrooted(rank, size, count, dtype)
    rooted(rank, size, 3000001, torch.float32, size - 1)
    t = torch.empty(1000)
    if rank == 0:
        dist.send(numbers(1000, 0), 1 % size)
    dist.recv(t, (rank - 1) % size)
    if rank > 0:
        dist.send(numbers(1000, rank), (rank + 1) % size)
    show("recv", 1000, torch.float32, 0, t)


def rank_train(words):
    """train.py as it is, which leaves its weights when it has ended."""
    models = []

    class Kept(torch.nn.parallel.DistributedDataParallel):
        def __init__(self, module):
            super().__init__(module)
            models.append(module)

    torch.nn.parallel.DistributedDataParallel = Kept
    sys.argv = ["train.py"] + words
    runpy.run_path("03_torchrun_env/train.py", run_name="__main__")
    with open(os.environ["WEIGHTS"], "wb") as file:
        for parameter in models[0].parameters():
            file.write(parameter.detach().contiguous().numpy().tobytes())


def rank_main(mode, words):
    torch.set_num_threads(1)
    if mode == "train":
        return rank_train(words)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    seconds = datetime.timedelta(seconds=float(os.environ.get("TIMEOUT", 200)))
    if mode == "addresses":  # listens where the host name would not lead
        return rank_at(words[0], rank, size, seconds)
    dist.init_process_group("gloo", "env://", seconds, rank=rank, world_size=size)
    if mode == "collectives":
        rank_collectives()
    elif mode == "odd":
        dist.broadcast(torch.ones(100), 0)
    elif mode == "longer":
        dist.all_reduce(torch.ones(101))
    elif mode == "speed":
        data = torch.zeros(int(words[0]) // 4)
        for _ in sys.stdin:
            begun = time.perf_counter()
            dist.all_reduce(data)
            print("%.1f" % (1e6 * (time.perf_counter() - begun)), flush=True)
    else:
        print("joined", flush=True)
        while True:
            dist.all_reduce(torch.ones(1))
            time.sleep(0.01)
    dist.barrier()
    dist.destroy_process_group()


def rank_at(address, rank, size, seconds):
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, rank == 0, seconds)
    options = dist.ProcessGroupGloo._Options()
    options._timeout = seconds
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=address)]
    group = dist.ProcessGroupGloo(dist.PrefixStore("default_pg/0//cpu/", store), rank, size, options)
    for _ in range(2):
        t = torch.ones(100)
        group.allreduce([t]).wait()
        assert (t == size).all(), t
    group.barrier().wait()


# ---- jobs ----


def free_port(host):
    with contextlib.closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as s:
        s.bind((host, 0))
        return s.getsockname()[1]


def start(order, mode, *words, host="127.0.0.1", pipe=None, **more):
    """The processes of a job, by rank."""
    port, processes = free_port(host), []
    for rank, letter in enumerate(order):
        env = {**os.environ, "MASTER_ADDR": host, "MASTER_PORT": str(port), "WORLD_SIZE": str(len(order)),
               "LOCAL_WORLD_SIZE": str(len(order)), "RANK": str(rank), "LOCAL_RANK": str(rank), "PYTHONPATH":
               os.path.dirname(__file__), **{name: value % rank if "%d" in value else value for name, value in more.items()}}
        env.pop("TORCHELASTIC_USE_AGENT_STORE", None)
        command = [PEER, mode] if letter == "c" else [sys.executable, "-B", __file__, "rank", mode]
        processes.append(subprocess.Popen(command + list(words), env=env, stdin=pipe, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True))
    return processes


def ended(processes):
    """(status, output, errors) of each rank."""
    results = []
    for process in processes:
        output, errors = process.communicate(timeout=ours.ENDLESS)
        results.append((process.returncode, output, errors))
    return results


def succeeded(order, results):
    failed = ["%s, rank %d: status %d\n%s" % (order, rank, status, errors[-2000:])
              for rank, (status, _, errors) in enumerate(results) if status != 0]
    assert not failed, "\n".join(failed + [TRIED])
    return results


def compare_collectives(orders):
    due = {}
    for order in orders:
        results = [output.splitlines() for _, output, _ in succeeded(order, ended(start(order, "collectives")))]
        expected = due.setdefault(len(order), results)  # the first of each size is PyTorch alone
        for rank, (mine, its) in enumerate(zip(results, expected)):
            wrong = [line for line in zip(mine, its) if line[0] != line[1]]
            assert len(mine) == len(its) and not wrong, "%s, rank %d: %s\n%s" % (order, rank, wrong[:5], TRIED)
        print("%s: %s results are PyTorch's, bit for bit" % (order, " + ".join(str(len(r)) for r in results)), flush=True)


def trained(order, scratch, model):
    """The losses [rank][step] and the weights [rank]."""
    folder = os.path.join(scratch, order)
    os.makedirs(folder)
    options = {"model": model, "max-steps": STEPS, "dropout": "off", "threads": 1, "device": "cpu", "save-every": 0,
               "log-interval": 5, "momentum": 0.9, "batch-size": 16, "metrics-dir": folder, "checkpoint-dir": folder}
    words = [word for name, value in options.items() for word in ("--" + name, str(value))]
    succeeded(order, ended(start(order, "train", *words, WEIGHTS=folder + "/weights%d")))
    weights = []
    for rank in range(len(order)):
        with open("%s/weights%d" % (folder, rank), "rb") as file:
            weights.append(file.read())
    return ours.losses_in(folder, len(order)), weights


def compare_training(model, orders):
    """A unit of the cnn whose sum is 0 but for rounding is on one side of relu's corner in C, on the other in PyTorch, and
    later steps multiply that: so only its first steps, and all of linear's, are within rounding."""
    due = {}
    with tempfile.TemporaryDirectory() as scratch:
        for order in orders:
            losses, weights = trained(order, scratch, model)
            expected = due.setdefault(len(order), (losses, weights))
            assert [len(of_rank) for of_rank in losses] == [STEPS] * len(order)
            off = [max(abs(mine[k] - its[k]) / its[k] for mine, its in zip(losses, expected[0])) for k in range(STEPS)]
            far = abs(torch.frombuffer(bytearray(weights[0]), dtype=torch.float32) -
                      torch.frombuffer(bytearray(expected[1][0]), dtype=torch.float32)).max()
            print("%s: losses of 5 steps off by %.1e, of %d by %.1e, weights by %.1e, %s on all ranks" % (
                order, max(off[:5]), STEPS, max(off), far, "equal" if len(set(weights)) == 1 else "NOT EQUAL"), flush=True)
            assert max(off[:5]) <= 3e-7 and max(off) <= (3e-7 if model == "linear" else 1e-2), TRIED
            assert far <= (1e-6 if model == "linear" else 1e-3) and len(set(weights)) == 1, TRIED


def check_ends(order, mode, cases, seconds):
    """Each: the rank that dies (or None), its signal, the rank that is left, and what that says."""
    for victim, sent, survivor, due in cases:
        processes = start(order, mode, TIMEOUT=seconds)
        for process in processes if sent else ():
            assert process.stdout.readline() == "joined\n", process.communicate()
        begun = time.monotonic()
        if sent:
            processes[victim].send_signal(sent)
        _, errors = processes[survivor].communicate(timeout=ours.ENDLESS)
        took = time.monotonic() - begun
        for process in processes:
            process.kill()
            process.communicate()
        line = [text for text in errors.splitlines() if due in text]
        assert processes[survivor].returncode != 0 and line, "%s\n%s" % (errors, TRIED)
        print("%s, %s %s: %.1f s, rank %d: %s" % (order, mode, sent.name if sent else "", took, survivor, line[0][:160]),
              flush=True)


def check_failures():
    check_ends("pc", "lost", ((0, signal.SIGKILL, 1, "rank 0 is gone: connection closed during all_reduce"),
                              (0, signal.SIGSTOP, 1, " in all_reduce #"),
                              (1, signal.SIGKILL, 0, "by peer"),
                              (1, signal.SIGSTOP, 0, "Timed out waiting")), "30")
    check_ends("pcp", "lost", ((2, signal.SIGKILL, 1, " is gone: connection closed during all_reduce"),
                               (1, signal.SIGKILL, 2, "by peer")), "30")
    check_ends("pcc", "lost", ((1, signal.SIGKILL, 2, " is gone: connection closed during all_reduce"),), "30")
    check_ends("pc", "odd", ((None, None, 1, "rank 0 calls broadcast in all_reduce #0 of 100 float32"),), "100")
    check_ends("pc", "longer", ((None, None, 1, "bytes where this rank has"),), "100")


def check_addresses():
    for host, address in (("::1", "::1"), ("127.0.0.1", "127.0.0.2")):
        succeeded(address, ended(start("pc", "addresses", address, host=host)))
        print("PyTorch at %s, C at %s: joined" % (address, host), flush=True)


def compare_speed(count, rounds):
    """Milliseconds of an all-reduce on two ranks, C to C and PyTorch to PyTorch, in turns."""
    jobs = {order: start(order, "speed", str(count), pipe=subprocess.PIPE) for order in ("cc", "pp")}
    times = {order: [] for order in jobs}
    for _ in range(rounds):
        for order, processes in jobs.items():
            for process in processes:
                process.stdin.write("\n")
                process.stdin.flush()
            times[order].append(max(float(process.stdout.readline()) for process in processes) / 1000)
    for processes in jobs.values():
        for process in processes:
            process.stdin.close()
            process.stdin = None
        succeeded("speed", ended(processes))
    ratios = sorted(theirs / mine for mine, theirs in zip(times["cc"], times["pp"]))
    for order, name in ("cc", "C"), ("pp", "PyTorch"):
        ms = sorted(times[order])
        print("%d bytes, %s: fastest %.2f ms, median %.2f of %d" % (count, name, ms[0], ms[rounds // 2], rounds), flush=True)
    print("PyTorch / C, round by round: %.2f (quartiles %.2f, %.2f)" % (
        ratios[rounds // 2], ratios[rounds // 4], ratios[3 * rounds // 4]), flush=True)


if __name__ == "__main__":
    what, words = sys.argv[1], sys.argv[2:]
    if what == "rank":
        rank_main(words[0], words[1:])
    elif what == "collectives":
        compare_collectives(words)
    elif what == "train":
        compare_training(words[0], words[1:])
    elif what == "speed":
        compare_speed(int(words[0]), int(words[1]))
    else:
        {"failures": check_failures, "addresses": check_addresses}[what]()
