"""Checks of tests/against/gpu/check.py: what --trace and --profile say of a GPU, and what they cost there."""
import json, os, re

from case import ARCH, BUILD, check, expect, run, train


@check
def lanes_of_the_gpu(scratch):
    """A trace's spans as the GPU had them: each begins after it was queued; and they fill the profile."""
    trace, profile = os.path.join(scratch, "trace.json"), os.path.join(scratch, "profile.txt")
    train("01", scratch, "--max-steps", 100, "--epochs", 3, "--trace", trace, "--profile", profile)
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    expect(any(e["name"] == "thread_name" and e["args"]["name"] == "GPU compute" for e in events), "no lane of a GPU")
    host, gpu = ([e for e in events if e["ph"] == "X" and e["tid"] == lane] for lane in (1, 3))
    expect([e["name"] for e in host] == [e["name"] for e in gpu], "the lanes have other spans")
    early = max(a["ts"] - b["ts"] for a, b in zip(host, gpu))
    with open(profile) as file:
        share = dict(re.findall(r"^(forward|backward|rest|sum)\b.*?([0-9.]+)%", file.read(), re.M))
    expect(float(share["forward"]) > 0 and float(share["backward"]) > 0, "a GPU that computes nothing")
    clocks = ", but one begins %.0f us before it was queued: the clocks differ" % early if early >= 200 else ""
    return "%d spans%s; forward %s %%, backward %s %%, idle %s %%" % (
        len(gpu), clocks, share["forward"], share["backward"], share["rest"])


@check
def what_a_trace_costs(scratch):
    """Steps recorded and not, in turns. Under 1 % where the GPU has enough to do, but a busy machine takes its time: so
    more is said and is no failure."""
    program, cost = os.path.join(BUILD, "bench", "trace"), {}
    run(["make", "-s", ARCH, program], limit=600)
    for batch in (64, 1024):
        output = run(["03_torchrun_env/ddprun", "--nproc-per-node", "1", program, "31", str(batch)])
        cost[batch] = re.search(r"a step: ([0-9.]+) ms.*?([-+][0-9.]+) %", output).groups()
    more = "; more than 1 % with batch 1024: again on a quiet machine" if float(cost[1024][1]) >= 1 else ""
    return ", ".join("batch %d: %s ms, %s %%" % (batch, *pair) for batch, pair in cost.items()) + more
