"""Usage: lab_store.py HARNESS      PyTorch's clients, and three ranks with Gloo, meet in the store of lab-store's answer.
HARNESS is what make lab/store/store.try builds (teach/lab/store/try.c)."""
import datetime
import subprocess
import sys

import torch
import torch.distributed as dist


def connect(port):
    return dist.TCPStore("127.0.0.1", port, is_master=False, timeout=datetime.timedelta(seconds=60))


def rank(port, number):
    dist.init_process_group("gloo", store=dist.PrefixStore("gloo", connect(port)), rank=number, world_size=3)
    numbers = torch.tensor([number + 1.0, 10.0 ** number])
    dist.all_reduce(numbers)
    dist.barrier()
    dist.destroy_process_group()
    if numbers.tolist() != [6.0, 111.0]:
        sys.exit(f"rank {number} has {numbers.tolist()}")


def talk(port):
    """What a script does with a TCPStore."""
    one, other = connect(port), connect(port)
    one.set("key", "value")
    assert other.get("key") == b"value"
    assert one.add("counter", 3) == 3 and other.add("counter", -1) == 2 and one.get("counter") == b"2"
    assert one.compare_set("cs", "", "first") == b"first" and other.compare_set("cs", "no", "second") == b"first"
    one.append("log", "a")
    assert one.get("log") == b"a"  # APPEND has no reply, and the other connection is another one
    other.append("log", "b")
    one.multi_set(["m1", "m2"], ["x", "y"])
    assert other.multi_get(["log", "m1", "m2"]) == [b"ab", b"x", b"y"]
    assert one.check(["key", "cs"]) and not one.check(["key", "none"])
    assert one.delete_key("key") and not one.delete_key("key")
    one.wait(["log", "m1"], datetime.timedelta(seconds=5))
    try:
        one.wait(["none"], datetime.timedelta(milliseconds=200))
        sys.exit("a wait in vain has ended well")
    except dist.DistStoreError:
        pass
    assert one.get("m1") == b"x", "after a wait in vain"
    big = bytes(range(256)) * 4096 * 7
    one.set("big", big)
    assert other.get("big") == big


def main():
    server = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline())
    talk(port)
    ranks = [subprocess.Popen([sys.executable, "-B", __file__, "rank", str(port), str(number)]) for number in range(3)]
    failed = [process.wait(120) for process in ranks]
    server.stdin.close()
    if any(failed) or server.wait(30) != 0:
        sys.exit(f"ranks end with {failed}, the store with {server.returncode}")
    print("PyTorch's clients and ranks meet in the store")


if __name__ == "__main__":
    rank(int(sys.argv[2]), int(sys.argv[3])) if sys.argv[1] == "rank" else main()
