"""Usage: store.py talk|timeouts|crowd|gloo      The stores of both, with the clients of both.

Each conversation is held on our server and on PyTorch's two (libuv, legacy), by one client of ours
and one of PyTorch's, in both parts; what they must hear is what PyTorch's protocol says."""
import concurrent.futures, datetime, multiprocessing, os, socket, subprocess, sys, time
import torch
import torch.distributed as dist
import ours

PEER = os.path.join(ours.BUILD, "tests/against/torch/store_peer")
TIMEOUT = 300  # seconds, of clients that shall not be disappointed
NUM_CLIENTS = 64


def seconds(number):
    return datetime.timedelta(seconds=number)


class OurClient:
    """store_peer, with the methods of PyTorch's TCPStore."""

    def __init__(self, port, timeout=TIMEOUT):
        self.process = subprocess.Popen([PEER, "client", "127.0.0.1", str(port), str(timeout)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        self.process.stdin.write(" ".join("x" + word.hex() if isinstance(word, bytes) else str(word)
                                          for word in words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "our client has died"
        return [bytes.fromhex(word[1:]) if word[0] == "x" else word for word in line.split()]

    def number(self, *words):
        return int(self.ask(*words)[0])

    def set(self, key, value): self.ask("set", key, value)
    def get(self, key): return self.ask("get", key)[0]
    def add(self, key, amount): return self.number("add", key, amount)
    def check(self, keys): return all(self.number("check", key) for key in keys)
    def append(self, key, value): self.ask("append", key, value)
    def delete_key(self, key): return self.number("delete", key) == 1
    def num_keys(self): return self.number("num_keys")
    def list_keys(self): return self.ask("list_keys")
    def multi_get(self, keys): return self.ask("multi_get", *keys)
    def queue_push(self, key, value): self.ask("push", key, value)
    def queue_len(self, key): return self.number("queue_len", key)
    def barrier(self, key, world): self.ask("barrier", key, world)
    def sync(self): self.ask("ping")

    def compare_set(self, key, expected, desired):
        return self.ask("compare_set", key, expected, desired)[0]

    def multi_set(self, keys, values):
        self.ask("multi_set", *[word for pair in zip(keys, values) for word in pair])

    def queue_pop(self, key, block=True):
        return self.ask("pop", key, "block" if block else "try")[0]

    def try_wait(self, key, timeout):
        return self.number("try_wait", key, timeout) == 1

    def wait(self, key):
        self.ask("wait", key)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(TIMEOUT) == 0


class TorchClient:
    def __init__(self, port, timeout=TIMEOUT):
        # With a world size it counts itself as a worker, under a hidden key.
        self.store = dist.TCPStore("127.0.0.1", port, world_size=2, is_master=False,
                                   timeout=seconds(timeout))

    def __getattr__(self, name):  # all but these is as it is there
        return getattr(self.store, name)

    def sync(self):
        self.store.num_keys()  # its answer comes after all that was not acknowledged

    def queue_pop(self, key, block=True):
        try:
            return self.store.queue_pop(key, block)
        except dist.QueueEmptyError:
            return "empty"

    def try_wait(self, key, timeout):
        try:
            self.store.wait([key], seconds(timeout))
            return True
        except dist.DistStoreError:
            return False

    def wait(self, key):
        self.store.wait([key])

    def close(self):
        del self.store


class TorchServer:
    def __init__(self, use_libuv):
        self.use_libuv = use_libuv

    def __enter__(self):
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                                   use_libuv=self.use_libuv, timeout=seconds(TIMEOUT))
        self.port = self.store.port
        return self

    def __exit__(self, *_):
        del self.store


SERVERS = {"ours": ours.Server, "PyTorch's libuv": lambda: TorchServer(True),
           "PyTorch's legacy": lambda: TorchServer(False)}


def values(a, b):
    a.set("k", b"v")
    a.sync()
    assert b.get("k") == b"v"
    every = bytes(range(256))  # no byte has a meaning
    for value in b"", every:
        a.set("value", value)
        a.sync()
        assert b.get("value") == value
    assert (a.add("n", 5), b.add("n", -7), a.get("n"), b.get("n")) == (5, -2, b"-2", b"-2")
    assert (a.add("zero", 0), b.check(["zero"]), b.check(["zero", "nothing"])) == (0, True, False)
    a.append("text", b"ab")
    a.sync()
    b.append("text", b"cd")
    b.sync()
    assert a.get("text") == b.get("text") == b"abcd"
    assert a.compare_set("c", b"", b"1") == b"1" and b.compare_set("c", b"1", b"2") == b"2"
    assert a.compare_set("c", b"1", b"3") == b"2" and b.get("c") == b"2"
    assert a.compare_set("absent", b"x", b"y") == b"x" and not b.check(["absent"])
    a.multi_set(["m1", "m2", "m3"], [b"1", b"", b"333"])
    a.sync()
    assert b.multi_get(["m3", "m2", "m1"]) == [b"333", b"", b"1"]
    assert (a.delete_key("m1"), b.delete_key("m1"), b.check(["m1"])) == (True, False, False)
    known = ["c", "k", "m2", "m3", "n", "text", "value", "zero"]
    assert sorted(a.list_keys()) == sorted(b.list_keys()) == known
    assert a.num_keys() == b.num_keys() in (len(known), len(known) + 1)  # with the workers' count
    for key in known:
        assert a.delete_key(key)


def limits(a, b):
    """The longest value of the protocol, and a long key."""
    key, value = "key" * 2600, os.urandom(1 << 20) * 8
    a.set(key, value)
    a.sync()
    assert b.get(key) == value
    assert a.delete_key(key)


def queues(a, b):
    for item in b"1", b"", b"333":
        a.queue_push("q", item)
    a.sync()
    assert (b.queue_len("q"), b.check(["q"])) == (3, True)
    assert [b.queue_pop("q"), a.queue_pop("q"), b.queue_pop("q", False)] == [b"1", b"", b"333"]
    assert a.queue_pop("q", False) == b.queue_pop("q", False) == "empty" and a.queue_len("q") == 0


def blocking(a, b, pool):
    """b waits, a wakes it, by each operation that does."""
    def woken(wait, wake):
        waiting = pool.submit(wait)
        done, _ = concurrent.futures.wait([waiting], 0.2)  # give it time to come to wait
        assert not done
        wake()
        waiting.result(TIMEOUT)

    woken(lambda: b.wait("w1"), lambda: a.set("w1", b""))
    woken(lambda: b.get("w2"), lambda: a.add("w2", 1))
    woken(lambda: b.multi_get(["w1", "w3", "w4"]), lambda: a.multi_set(["w4", "w3"], [b"", b"x"]))
    woken(lambda: b.wait("w5"), lambda: a.append("w5", b""))
    woken(lambda: b.barrier("w6", 2), lambda: a.barrier("w6", 2))
    assert a.get("w6") == b"2"
    for key in a.list_keys():
        a.delete_key(key)


def talk():
    pool = concurrent.futures.ThreadPoolExecutor()
    for name, server in SERVERS.items():
        for kinds in (OurClient, TorchClient), (TorchClient, OurClient), (OurClient, OurClient):
            with server() as host:
                a, b = [kind(host.port) for kind in kinds]
                values(a, b)
                limits(a, b)
                blocking(a, b, pool)
                if "legacy" not in name:
                    queues(a, b)
                a.close()
                b.close()
            print("%s server: %s and %s understand each other" % (
                name, *[kind.__name__ for kind in kinds]), flush=True)
    prefixes(pool)
    workers()


def prefixes(pool):
    """PyTorch's PrefixStore writes longer keys to our server, and has a barrier of its own."""
    with ours.Server() as host:
        a, b, c = TorchClient(host.port), OurClient(host.port), TorchClient(host.port)
        inner = dist.PrefixStore("outer", dist.PrefixStore("inner", a.store))
        inner.set("key", "1")
        a.sync()
        assert b.get("inner/outer/key") == b"1" and b.list_keys() == ["inner/outer/key"]
        b.set("inner/outer/other", b"2")
        b.set("elsewhere", b"3")
        b.sync()
        assert inner.get("other") == b"2" and sorted(inner.list_keys()) == ["key", "other"]
        waiting = pool.submit(lambda: inner.barrier("meet", 2))
        dist.PrefixStore("outer", dist.PrefixStore("inner", c.store)).barrier("meet", 2)
        waiting.result(TIMEOUT)
        b.close()
    print("prefixes are the same on both sides")


def workers():
    """PyTorch's serving process waits until as many workers as it shall have counted themselves."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    clients = [OurClient(listener.getsockname()[1]) for _ in range(2)]
    for client in clients:
        client.process.stdin.write("count_worker\n")
        client.process.stdin.flush()
    port, fd = listener.getsockname()[1], listener.detach()
    server = dist.TCPStore("127.0.0.1", port, world_size=3, is_master=True, wait_for_workers=True,
                           timeout=seconds(TIMEOUT), master_listen_fd=fd)
    places = sorted(int(client.process.stdout.readline()) for client in clients)
    assert places in ([1, 2], [1, 3], [2, 3]), places
    for client in clients:
        client.close()
    del server
    print("two workers of ours let PyTorch's rank 0 begin")


def timeouts():
    """Who waits for a key that does not come is told so in time, and can go on."""
    for name, server in SERVERS.items():
        with server() as host:
            for client in OurClient(host.port), TorchClient(host.port):
                begin = time.monotonic()
                assert not client.try_wait("missing", 0.5)
                took = time.monotonic() - begin
                client.set("k", b"v")
                assert client.get("k") == b"v" and 0.45 < took < 100, took
                client.set("missing", b"late")  # of no interest to anybody now
                assert client.get("k") == b"v" and client.delete_key("missing")
                client.close()
            short_timeout = TorchClient(host.port, 5)
            try:
                short_timeout.get("missing")
                raise AssertionError("there is nothing to get")
            except dist.DistStoreError:
                pass
            died = subprocess.run([PEER, "client", "127.0.0.1", str(host.port), "5"], text=True,
                                  input="wait missing\n", capture_output=True, timeout=TIMEOUT)
            assert died.returncode == 1 and died.stderr.count("\n") == 1, died
            assert "missing" in died.stderr and died.stdout == "", died
            print("%s server: %s" % (name, died.stderr.strip()), flush=True)


def run_client(client, number):
    """Everybody counts, writes, waits for all, and reads of two others."""
    client.add("count", 1)
    client.set("from%d" % number, b"%d" % number)
    client.barrier("all", NUM_CLIENTS)
    for other in (number + 1) % NUM_CLIENTS, (number * 7) % NUM_CLIENTS:
        assert client.get("from%d" % other) == b"%d" % other
    assert client.get("count") == b"%d" % NUM_CLIENTS
    client.barrier("end", NUM_CLIENTS)
    client.close()


def fork_all(count, target, *args):
    """Runs target(number, *args) in this many processes, PyTorch and all; each must succeed."""
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=target, args=(i, *args), daemon=True) for i in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(ours.ENDLESS)
    assert [process.exitcode for process in processes] == [0] * count


def crowd():
    """64 of PyTorch's at once on our server, and 64 of ours on each of PyTorch's and on ours."""
    with ours.Server() as host:
        fork_all(NUM_CLIENTS, lambda i: run_client(TorchClient(host.port), i))
    print("%d PyTorch clients on our server" % NUM_CLIENTS, flush=True)
    for name, server in SERVERS.items():
        with server() as host, concurrent.futures.ThreadPoolExecutor(NUM_CLIENTS) as pool:
            clients = [OurClient(host.port) for _ in range(NUM_CLIENTS)]
            list(pool.map(run_client, clients, range(NUM_CLIENTS), timeout=ours.ENDLESS))
        print("%d of our clients on the server that is %s" % (NUM_CLIENTS, name), flush=True)


def gloo_rank(rank, world):
    os.environ.update(RANK=str(rank))
    dist.init_process_group("gloo", timeout=seconds(TIMEOUT))
    assert dist.get_rank() == rank and dist.get_world_size() == world
    sum_of_ranks = torch.full((1000,), float(rank))
    dist.all_reduce(sum_of_ranks)
    assert torch.equal(sum_of_ranks, torch.full((1000,), world * (world - 1) / 2))
    news = torch.arange(5) * (1 if rank == 2 else 0)
    dist.broadcast(news, src=2)
    assert torch.equal(news, torch.arange(5))
    dist.barrier()
    odd = dist.new_group([1, 3])
    if rank in (1, 3):
        number = torch.tensor([rank])
        dist.all_reduce(number, group=odd)
        assert number.item() == 4
    everybody = [None] * world
    dist.all_gather_object(everybody, {"rank": rank})
    assert everybody == [{"rank": i} for i in range(world)]
    dist.destroy_process_group()


def gloo():
    """PyTorch's ranks, told by the environment that an agent serves the store: ours."""
    with ours.Server() as host:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(host.port), WORLD_SIZE="4",
                          TORCHELASTIC_USE_AGENT_STORE="True")
        fork_all(4, gloo_rank, 4)
        client = OurClient(host.port)
        assert client.check(["default_pg/0//cpu//0/%d" % rank for rank in range(4)])
        client.close()
    print("4 ranks of gloo met in our store")


if __name__ == "__main__":
    {"talk": talk, "timeouts": timeouts, "crowd": crowd, "gloo": gloo}[sys.argv[1]]()
