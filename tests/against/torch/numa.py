"""Usage: numa.py      --numa-binding beside torch/numa/binding.py, on machines that are drawn.

Each machine is a folder that looks like /sys: sockets, nodes, cores with one or two threads, caches, GPUs. PyTorch's
functions read it instead of /sys."""
import builtins, os, random, subprocess, sys, tempfile
import torch.numa.binding as binding
import ours

MODES = ("node", "socket", "exclusive", "core-complex")
MACHINES = 24
SEED = int(os.environ.get("TORCH_SEED", random.randrange(1 << 30)))
PEER = os.path.join(ours.BUILD, "tests/against/torch/numa_peer")


def write(folder, path, text):
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("%s\n" % text)


def listed(cores):
    return ",".join(str(core) for core in sorted(cores))


def draw(rng, folder):
    """Makes a machine. Returns the cores that a process may use, and the node of each GPU."""
    sockets, per_socket, threads = rng.choice((1, 2)), rng.choice((1, 2, 4)), rng.choice((1, 2))
    num_nodes = max(2, sockets * per_socket)
    cores = rng.choice((2, 3, 8))  # of a node, each of this many threads
    complex_ = rng.choice((1, 2, 8))  # this many cores share a cache
    total = num_nodes * cores
    allowed = set()
    for node in range(num_nodes):
        own = range(node * cores, (node + 1) * cores)
        cpus = [core + thread * total for core in own for thread in range(threads)]
        write(folder, "devices/system/node/node%d/cpulist" % node,
              "%d-%d%s" % (own[0], own[-1], ",%d-%d" % (own[0] + total, own[-1] + total) if threads == 2 else ""))
        for cpu in cpus:
            core = cpu % total
            base = "devices/system/cpu/cpu%d/" % cpu
            siblings = [core + thread * total for thread in range(threads)]
            first = own[0] + (core - own[0]) // complex_ * complex_
            sharing = [c + thread * total for c in range(first, min(first + complex_, own[-1] + 1)) for thread in range(threads)]
            write(folder, base + "topology/thread_siblings_list", listed(siblings))
            write(folder, base + "topology/physical_package_id", node * sockets // num_nodes)
            for i, (kind, level, cache) in enumerate((("Data", 1, siblings), ("Instruction", 4, [cpu]), ("Unified", 3, sharing))):
                for name, value in ("type", kind), ("level", level), ("shared_cpu_list", listed(cache)):
                    write(folder, base + "cache/index%d/%s" % (i, name), value)
        allowed |= set(rng.sample(cpus, rng.randint(1, len(cpus))) if rng.random() < 0.3 else cpus)
    gpus = [rng.randrange(num_nodes) for _ in range(rng.choice((2, 4, 8)))]
    for i, node in enumerate(gpus):
        write(folder, "bus/pci/drivers/nvidia/0000:%02x:00.0/numa_node" % (i + 1), node)
    write(folder, "devices/system/node/online", "0-%d" % (num_nodes - 1))
    write(folder, "devices/system/node/possible", "0-%d" % (num_nodes - 1))
    return allowed, gpus


def theirs(folder, mode, allowed, gpus):
    real_open, real_listdir = builtins.open, os.listdir

    def here(path):
        return folder + path[len("/sys"):] if str(path).startswith("/sys/") else path

    builtins.open, os.listdir = lambda path, *a, **k: real_open(here(path), *a, **k), lambda path: real_listdir(here(path))
    os.sched_getaffinity = lambda pid: allowed
    binding._get_device_count = lambda: len(gpus)
    binding._get_numa_node_index_for_device_index = lambda *, device_index: gpus[device_index]
    try:
        options = binding.NumaOptions(affinity_mode=binding.AffinityMode(mode))
        return [sorted(binding._get_logical_cpus_to_bind_to(device_index=i, numa_options=options)) for i in range(len(gpus))]
    except RuntimeError:
        return "refused"
    finally:
        builtins.open, os.listdir = real_open, real_listdir


def compare(rng, folder):
    allowed, gpus = draw(rng, folder)
    for mode in MODES:
        done = subprocess.run([PEER, folder, mode, str(len(gpus)), listed(allowed)], capture_output=True, text=True, timeout=60)
        own = [[int(core) for core in line.split()] for line in done.stdout.splitlines()] if done.returncode == 0 else "refused"
        other = theirs(folder, mode, allowed, gpus)
        if own != other:
            sys.exit("TORCH_SEED=%d: %s\nGPUs on nodes %s, cores %s\nhere     %s %s\ntorchrun %s" % (
                SEED, mode, gpus, listed(allowed), own, done.stderr, other))
        yield "refused" if own == "refused" else mode


def main():
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    rng, seen = random.Random(SEED), []
    for _ in range(MACHINES):
        with tempfile.TemporaryDirectory() as folder:
            seen += compare(rng, folder)
    print("%d machines, the same cores:" % MACHINES, ", ".join("%s %d" % (mode, seen.count(mode)) for mode in (*MODES, "refused")))


if __name__ == "__main__":
    main()
