"""Usage: map.py names|tried      The PyTorch of docs/pytorch_map.md beside the one that is installed.

names: what the column "PyTorch" of its tables names is there: functions and classes with the keywords they are given,
methods, torchrun's flags, environment variables. tried: what the rows for 2.15 say happens, on two Gloo ranks."""
import ast, inspect, mmap, os, re, sys, tempfile, warnings
import torch
import torch.distributed as dist
import torch.distributed._local_tensor as local_tensor
import torch.distributed.algorithms.ddp_comm_hooks as comm_hooks
import torch.distributed.algorithms.model_averaging.averagers as averagers
import torch.distributed.checkpoint, torch.distributed.config, torch.distributed.debug, torch.distributed.device_mesh
import torch.distributed.fsdp, torch.distributed.optim, torch.distributed.tensor.parallel, torch.profiler
from torch import nn
from torch.distributed import run as torchrun
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.tensorboard import SummaryWriter

MAP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../docs/pytorch_map.md")
TORCH = os.path.dirname(torch.__file__)
OWNERS = (  # where a name without a module in front may come from
    torch, nn, nn.functional, nn.utils, torch.optim, torch.optim.lr_scheduler, torch.utils.data, torch.amp, torch.cuda,
    torch.profiler, dist, dist.algorithms.join, dist.debug, dist.device_mesh, dist.distributed_c10d, dist.fsdp, dist.optim,
    dist.tensor.parallel, averagers, local_tensor, comm_hooks.default_hooks, comm_hooks.powerSGD_hook, nn.parallel.distributed, DDP, nn.Module,
    SummaryWriter, torch.amp.GradScaler, torch.cuda.Event, torch.cuda.Stream, torch.optim.Optimizer, torch.profiler.profile, dist.TCPStore)
CALLERS = (DDP, dist.init_process_group, dist.all_reduce)  # whose arguments a row may name alone
OBJECTS = {  # what a row calls an object, or a module
    "DDP": DDP, "F": nn.functional, "ddp": DDP, "dist": dist, "g": torch.cuda.CUDAGraph, "loss": torch.Tensor,
    "model": nn.Module, "mp": torch.multiprocessing, "optimizer": torch.optim.Optimizer, "param": nn.Parameter,
    "prof": torch.profiler.profile, "sampler": torch.utils.data.DistributedSampler, "source": torch.Tensor, "torch": torch,
    "work": dist.Work}
OTHERS = {  # not PyTorch's: Python's, torchvision's, safetensors', torchft's, and the series' own
    "DiLoCo", "EPOCHS_RUN", "LocalSGD", "MODEL_STATE", "MyTrainDataset", "Net", "_load_snapshot", "argparse", "datasets", "len", "multinode.py",
    "os", "safetensors", "torchfrtrace", "total_epochs save_every --batch_size 32", "transforms"}


class Gone(Exception):
    pass


def find(node):
    """What a name or a chain of attributes stands for; None: nothing of PyTorch's, or an argument."""
    if isinstance(node, ast.Attribute):
        owner = find(node.value)
        if owner is None or hasattr(owner, node.attr):
            return getattr(owner, node.attr, None)
        if inspect.isclass(owner) and "self.%s = " % node.attr in inspect.getsource(owner):
            return None  # every object has it
        raise Gone("%s has no %s" % (ast.unparse(node.value), node.attr))
    if not isinstance(node, ast.Name) or node.id in OTHERS:
        return None
    for found in (OBJECTS.get(node.id), *(getattr(owner, node.id, None) for owner in OWNERS)):
        if found is not None:
            return found
    if not any(node.id in inspect.signature(caller).parameters for caller in CALLERS):
        raise Gone("nothing has the name " + node.id)


def check_call(call):
    function = find(call.func)
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):  # not a function of PyTorch's, or written in C++
        return
    gone = [k.arg for k in call.keywords if k.arg not in known]
    if gone and not any(p.kind == p.VAR_KEYWORD for p in known.values()):
        raise Gone("%s has no argument %s" % (ast.unparse(call.func), ", ".join(gone)))


def check_python(text):
    """`DDP(model, device_ids=[gpu_id])`, `async_op=True`, `with ddp.no_sync():`, `.step()`."""
    text = re.sub(r"^\.", "optimizer.", text)
    text += " pass" if text.endswith(":") else ": pass" if re.match("class |for ", text) else ""
    for statement in ast.parse(text).body:
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        for call in calls:
            check_call(call)
        named = getattr(statement, "targets", [getattr(statement, "value", None)])[0]
        if not calls:
            find(named)


def rows():
    """The code in the first column below a header "PyTorch", with the number of its line."""
    inside = False
    for number, line in enumerate(open(MAP), 1):
        inside = line.startswith("| PyTorch |") or (inside and line.startswith("|"))
        if inside and not line.startswith(("| PyTorch |", "| ---")):
            yield from ((number, code) for code in re.findall("`([^`]+)`", line.split(" | ")[0]))


def absent_from_wheel(words):
    """Those of the words that are in no source file and no library of PyTorch's, or of its NCCL's."""
    left = set(words)
    for top in TORCH, TORCH + "/../nvidia":
        for folder, _, files in os.walk(top):
            for path in (folder + "/" + f for f in files if re.match(r".*\.py$|lib(torch|nccl|c10).*\.so", f)):
                if left and os.path.getsize(path) > 0:
                    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
                        left -= {word for word in left if data.find(word.encode()) >= 0}
    return left


def check_names():
    flags = {name for action in torchrun.get_args_parser()._actions for name in action.option_strings}
    variables, gone, count = {}, [], 0
    for number, code in rows():
        count += 1
        variable = re.fullmatch(r"([A-Z][A-Z0-9]*_[A-Z0-9_]+)(=\S*)?", code)
        try:
            if code in OTHERS:
                continue
            if variable:
                variables[variable[1]] = number
            elif code.startswith(("torchrun", "--")):
                if lost := set(re.findall(r"--[\w-]+", code)) - flags:
                    raise Gone("torchrun has no " + ", ".join(lost))
            else:
                check_python(code)
        except (Gone, SyntaxError) as error:
            gone.append("line %d: `%s`: %s" % (number, code, error))
    gone += ["line %d: `%s` is nowhere in the wheel" % (variables[v], v) for v in absent_from_wheel(variables)]
    for line in gone:
        print("docs/pytorch_map.md:", line)
    print("PyTorch %s: %d names of the map, %d are gone" % (torch.__version__, count, len(gone)))
    sys.exit(bool(gone) or count < 100)


def model(seed, mean):
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    layers[1].running_mean.fill_(mean)
    return layers


def gradients(rank, by_hand=False, **arguments):
    """After three steps, in which PyTorch has cut its buckets again."""
    ddp = DDP(model(0, 0), **arguments)
    ddp.require_manual_backward_finalization = by_hand
    for step in range(3):
        ddp.zero_grad()
        torch.manual_seed(10 * step + rank)
        ddp(torch.rand(5, 4)).square().sum().backward()
        if by_hand:
            ddp.finalize_backward()
    return [p.grad for p in ddp.parameters()]


def try_ddp(rank):
    plain = gradients(rank)
    for arguments in (dict(bucket_cap_mb_list=[1e-5, 1]), dict(lazy_bucket_allocation=True), dict(batched_grad_copy=True),
                      dict(skip_all_reduce_unused_params=True), dict(static_graph=True), dict(by_hand=True),
                      dict(gradient_as_bucket_view=True), dict(device_mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))):
        assert all(map(torch.equal, gradients(rank, **arguments), plain)), arguments
    first = [DDP(model(rank, 0), init_sync=sync).module[0].weight.detach() for sync in (True, False)]
    assert torch.equal(first[0], model(0, 0)[0].weight) and torch.equal(first[1], model(rank, 0)[0].weight)
    for name, mean in ("forward_sync_buffers", 0), ("broadcast_buffers", rank), (None, 0):
        ddp = DDP(model(0, rank), **({name: False} if name else {}))  # rank r's own mean is r
        assert ddp.module[1].running_mean.tolist() == 3 * [mean], name
    ddp.module(torch.rand(5, 4)).sum().backward()  # not through the wrapper: nothing is sent
    others = [torch.empty_like(ddp.module[0].weight) for _ in range(2)]
    torch.manual_seed(rank)
    ddp.zero_grad()
    ddp.module(torch.rand(5, 4)).square().sum().backward()
    dist.all_gather(others, ddp.module[0].weight.grad)
    assert not torch.equal(*others)


def try_reconfigure(rank, store):
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, enable_reconfigure=True)
    store.set("handle%d" % rank, dist._get_reconfigure_handle())
    handles = [store.get("handle%d" % r).decode() for r in range(2)]
    dist._reconfigure(uuid=1, handles=handles).wait()
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    assert total.item() == 3
    if rank == 0:  # the other has left
        dist._reconfigure(uuid=2, handles=[dist._get_reconfigure_handle()]).wait()
        dist.all_reduce(total)
        assert total.item() == 3 and dist.group.WORLD.size() == 1


def try_alone():
    """What needs no second rank: which engine "nccl" is, torchcomms, and four ranks in one process."""
    for value, name in ("1", "_create_nccl2_process_group"), ("0", "_create_nccl_process_group"):
        os.environ["TORCH_DIST_USE_NCCL2"] = value
        dist.distributed_c10d._register_builtin_nccl_backend()
        assert dist.Backend._plugins["NCCL"].creator_fn.__name__ == name
    if not dist.distributed_c10d._TORCHCOMM_AVAILABLE:  # the variable alone has no effect
        torch.distributed.config.use_torchcomms = True
        assert not dist.distributed_c10d._use_torchcomms_enabled()
    dist.init_process_group("fake", rank=0, world_size=4)
    with local_tensor.LocalTensorMode(4):
        ranks = local_tensor.LocalTensor({r: torch.tensor([r + 1.0]) for r in range(4)})
        dist.all_reduce(ranks)
    assert [t.item() for t in ranks._local_tensors.values()] == 4 * [10]
    dist.destroy_process_group()


def try_rows(rank, folder):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", "file://%s/ddp" % folder, rank=rank, world_size=2)
    try_ddp(rank)
    dist.destroy_process_group()
    try_reconfigure(rank, dist.FileStore(folder + "/reconfigure", 2))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:] == ["names"]:
        check_names()
    if sys.argv[1:] != ["tried"]:
        sys.exit(__doc__)
    try_alone()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(try_rows, (folder,), 2)
    print("PyTorch %s does what the map says" % torch.__version__)
