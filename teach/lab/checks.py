"""Checks for the mistakes that a program of a step can have.

A check compares what its ranks did with what ours did, and yields a pair for each mistake: the name under which
hints.txt has the hint, and what was seen. If there is no mistake, the check's docstring is printed."""
import math
import re
import signal
from collections import Counter

from runs import TEST_ROWS  # the capstone has others

NODES = ("04", "05")
ALONE, OWN_ROWS = ("02a",), ("02a", "02b")  # the ranks train separately; each takes all rows
NUMBER = r"\d+(?:\.\d+)?"
NAMES = {"lr": "the learning rate", "loss": "the loss", "grads": "gradients of length", "weights": "weights of length"}


def listed(numbers):
    return " or ".join(map(str, sorted(numbers)))


def ranks(numbers):
    """Ranks by their numbers, in words."""
    if not numbers:
        return "no rank"
    return f"rank{'s' * (len(numbers) > 1)} {', '.join(map(str, sorted(numbers)))}"


def near(a, b):
    return math.isclose(float(a), float(b), rel_tol=1e-3, abs_tol=1e-6)


def first_of(run):
    """{rank: its only start}"""
    return {rank: starts[0] for rank, starts in run.journals.items()}


def complete(run):
    """Did it end well, with one process for each rank, each of which came to its end?"""
    return run.status == 0 and len(run.journals) == run.world_size and \
        all(len(starts) == 1 and starts[0].all("end") for starts in run.journals.values())


def parted_at_copy(run):
    """Before the training, did some ranks wait in a barrier, and others in another collective?"""
    calls = {journal.waits_for() for journal in first_of(run).values()}
    return "barrier" in calls and len(calls - {None}) > 1 and not any(j.one("model") for j in first_of(run).values())


def check_end(step, ours, theirs):
    """it runs to its end on all ranks, and leaves nothing running"""
    if theirs.status is None:
        yield "hang", "it had to be stopped: it did not end within the time that it has"
    elif theirs.status != 0:
        how = f"ends with status {theirs.status}"
        if theirs.status > 128:
            how = f"is killed by {signal.Signals(theirs.status - 128).name}"
        printed_lines = theirs.err.splitlines()
        fatal = [line for line in printed_lines if "fatal: " in line]
        printed_lines = [line for line in printed_lines if not re.search(" copied | is host | connected by | trains ", line)]
        own = [line for line in fatal if " is gone: " not in line] # the other messages follow from it
        plain = [line for line in printed_lines if line.startswith(("train: ", "[rank")) and line not in fatal]
        rest = [] if theirs.status > 128 else fatal or plain or printed_lines # a killed process says nothing
        printed_lines = own or (theirs.status == 2 and plain) or rest
        apart = "no store at |did not come within" if step.startswith("02") else "no store at "
        lost = next((line for line in own if re.search(apart, line)), None)
        parted = "barrier" if step in NODES and not own and parted_at_copy(theirs) else \
            "crash" if step.startswith("02") and theirs.status in (128 + signal.SIGSEGV, 128 + signal.SIGBUS) else "status"
        yield ("address" if lost else parted), f"it {how}" + "".join(f": {line}" for line in printed_lines[:1])
    if theirs.left and theirs.status is not None:
        yield "left", f"{len(theirs.left)} of its processes were still running after it had ended"
    cut = [rank for rank in range(ours.world_size)
           if rank not in theirs.journals or not first_of(theirs)[rank].all("end")]
    twice = [rank for rank, starts in theirs.journals.items() if len(starts) > 1]
    if theirs.status == 0 and cut and (len(cut) > 1 or theirs.left) and not twice:
        yield "cut", f"it ends with status 0, but rank {cut[0]} had not come to its end"
    elif theirs.journals and set(theirs.journals) != set(ours.journals):
        named = ", ".join(map(str, theirs.journals))
        yield "ranks", f"{len(ours.journals)} ranks should train, and these did: {named}"
    if twice and set(theirs.journals) >= set(ours.journals):
        yield "forks", f"several processes were rank {twice[0]}"
    waiting = {rank: journal.waits_for() for rank, journal in first_of(theirs).items()}
    if theirs.status != 0 and any(waiting.values()):
        places = {what: [rank for rank in waiting if waiting[rank] == what] for what in waiting.values()}
        yield "waits", "; ".join(f"{ranks(there)} {'was' if len(there) == 1 else 'were'} " +
                                 (f"waiting in {what}" if what else "not waiting") for what, there in places.items())
    calls = {rank: journal.collectives() for rank, journal in first_of(theirs).items()}
    for number, call in enumerate(calls.get(0, [])):
        others = {rank: c[number] for rank, c in calls.items() if number < len(c) and c[number] != call}
        for rank, other in others.items():
            yield "order", f"collective {number} of rank 0 is {call}, of rank {rank} {other}"
            return
    if complete(theirs):
        for rank, journal in first_of(theirs).items():
            if journal.all("group") and not journal.all("leave") and step not in ALONE:
                yield "destroy", f"rank {rank} ends without process_group_destroy"
                return


def check_device(step, ours, theirs):
    """each rank opens the device of its local rank"""
    for rank, journal in first_of(theirs).items():
        index, due = journal.one("model").get("local_rank"), first_of(ours)[rank].one("model")["local_rank"]
        if index is not None and index != due:
            yield "device", f"rank {rank} opens device {index}, but its local rank is {due}"
            return


def check_group(step, ours, theirs):
    """the ranks know each other, and begin with rank 0's weights"""
    for rank, journal in first_of(theirs).items():
        if not journal.all("group"):
            yield "group", f"rank {rank} is in no process group"
            return
        before = journal.until(0, ("optim_step",))
        count = int(journal.one("model").get("parameters", 0))
        sent = [e for e in before
                if e.word == "start" and e.about[1] == "broadcast" and int(e.values["count"]) >= count]
        if journal.steps and not sent:
            yield "broadcast", f"rank {rank} gets no weights before its first step"
            return
        if sent and any(e.values["root"] != "0" for e in sent):
            yield "root", "the weights that all start with are not rank 0's"
            return


def check_own_model(step, ours, theirs):
    """each rank begins with weights of its own"""
    for rank, journal in first_of(theirs).items():
        mine, due = journal.one("model"), first_of(ours)[rank].one("model")
        if mine and not near(mine["weights"], due["weights"]):
            yield "own_weights", f"rank {rank} begins with other weights than in our program"
            return


def check_rows(step, ours, theirs):
    """each rank trains on its rows, in a different order in each epoch"""
    mine, due = ({rank: j.epochs() for rank, j in first_of(run).items()} for run in (theirs, ours))
    if not complete(theirs):  # compare as far as it came
        due = {rank: {epoch: due[rank].get(epoch, [])[:len(rows)] for epoch, rows in epochs.items()}
               for rank, epochs in mine.items()}
    many, few = (len(first_of(run)[0].steps[0].rows) if first_of(run).get(0) and first_of(run)[0].steps else 0 for run in (theirs, ours))
    if many == few * len(due) and len(due) > 1:
        yield "world_size", f"rank 0 has {many} rows in a step, not {few}: as if it were alone"
        return
    if mine == due or not any(mine.values()):
        if complete(theirs) and not any(mine.values()):
            yield "metrics", "no rank has finished a step, or told metrics_step so"
        return
    known = False
    for rank, epochs in mine.items():
        orders = [rows for rows in epochs.values() if len(rows) == len(epochs[min(epochs)])]
        if len(orders) > 1 and all(rows == orders[0] for rows in orders):
            yield "set_epoch", f"rank {rank} has the same rows in the same order in every epoch"
            known = True
            break
    start = {rank: epochs[min(epochs)] for rank, epochs in mine.items() if epochs}
    size, whole = len(start), len(set(sum(start.values(), [])))
    total = int(first_of(ours)[0].one("batch")["of"])
    if any(rows == sorted(rows) and len(rows) > 9 for rows in start.values()):
        yield "shuffle", "the rows are not shuffled"
        return
    twins = [(a, b) for a in start for b in start if a < b and start[a] == start[b]]
    if twins:
        name = "own_seed" if step in OWN_ROWS else "sampler_rank"
        a, b = twins[0]
        yield name, f"ranks {a} and {b} train on the same {len(start[a])} rows, in the same order"
    elif step in OWN_ROWS:
        if any(len(rows) != total for rows in start.values()) and complete(theirs):
            yield "whole_set", f"rank 0 trains on {len(start[0])} rows in an epoch, in this step on all {total}"
        elif not known:
            yield "own_seed", "the order of a rank's rows is not that of its own seed"
    elif any(len(rows) >= total for rows in start.values()):
        yield "sampler_rank", f"each rank trains on all {total} rows in an epoch, not on its share"
    elif whole < total and whole < sum(map(len, start.values())) - size:
        yield "sampler_seed", f"together the ranks train on {whole} of the {total} rows, on some of them twice"
    elif len(start[0]) != len(due[0][min(due[0])]):
        yield "drop_last", f"rank 0 trains on {len(start[0])} rows in an epoch, not on {len(due[0][min(due[0])])}"
    elif {e for r in mine.values() for e in r} != {e for r in due.values() for e in r}:
        yield "epochs", f"epochs {sorted(mine[0])} are trained, not {sorted(due[0])}"
    elif not known:
        rank = next(r for r in mine if mine[r] != due.get(r))
        yield "rows", f"rank {rank} has other rows than in our program"


def gradients_sent(entries):
    """The all_reduces of gradients among the entries of a step, with their places."""
    return [(place, e) for place, e in enumerate(entries)
            if e.word == "start" and e.about[1] == "all_reduce" and e.values["type"] == "float32"]


def place_of(entries, *words, last=False):
    places = [place for place, entry in enumerate(entries) if entry.word in words]
    return (places[-1] if last else places[0]) if places else None


def check_steps(step, ours, theirs):
    """in each step, gradients are cleared, computed, sent and used in this order"""
    for rank, journal in first_of(theirs).items():
        before = []  # what came since the last optim_step; at the start all gradients are 0
        for mine, due in zip(journal.steps[:2], first_of(ours)[rank].steps):
            cleared = mine is journal.steps[0] or any(e.word == "zero_grad" for e in before)
            averaged = value_of(mine, "grads") is not None and near(value_of(mine, "grads"), value_of(due, "grads"))
            faults = list(faults_of_step(step, mine.entries, due.entries, cleared, averaged))
            before = mine.entries[place_of(mine.entries, "optim_step") or 0:]
            for name, text in faults:
                yield name, f"{text} (rank {rank}, step {mine.number})"
            if faults:
                return


def faults_of_step(step, mine, due, cleared, averaged):
    backward, update = place_of(mine, "backward"), place_of(mine, "optim_step")
    clear, last = place_of(mine, "zero_grad"), place_of(mine, "gradient", last=True)
    cleared = cleared or (clear is not None and backward is not None and clear < backward)
    wiped = backward is not None and any(e.word == "zero_grad" for e in mine[backward:update])
    if update is None:
        yield "optim_step", "the weights take no step"
        return
    if not cleared or backward is None:
        yield "zero_grad", "the gradients of the step before are not cleared before the backward pass"
    elif wiped:
        yield "zero_grad", "the gradients are cleared after the backward pass, before the weights take their step"
    if step in ALONE or backward is None:
        return
    sent, numel = gradients_sent(mine), sum(int(e.values["count"]) for _, e in gradients_sent(due))
    count = sum(int(e.values["count"]) for _, e in sent)
    if not sent:
        others = sorted({e.about[1] for e in mine if e.word == "start" and e.values.get("type") == "float32" and e.about[1] != "barrier"})
        if averaged and others:
            yield "other_calls", f"the gradients are averaged, but not by all_reduce: by {' and '.join(others)}"
        else:
            yield "all_reduce", "the ranks do not average their gradients"
        return
    if count < numel:
        yield "partial", f"{count} of the {numel} gradients are averaged"
    elif count >= 2 * numel - numel // 2:
        yield "twice", f"{count} numbers are averaged, but there are {numel} gradients"
    if sent[0][0] > update:
        yield "late", "the weights take their step before the gradients are averaged"
    elif sent[-1][0] < backward:
        yield "early", "gradients are averaged before the backward pass has computed them"
    elif any(e.word == "wait" and e.about[0] == s.about[0] for _, s in sent for e in mine[update:]) or \
            not all(any(e.word == "wait" and e.about[0] == s.about[0] for e in mine) for _, s in sent):
        yield "finalize", "the weights take their step while gradients are still on their way"
    ahead = sum(place < place_of(due, "gradient", last=True) for place, _ in gradients_sent(due))
    if ahead and not any(place < last for place, _ in sent):
        yield "overlap", "nothing is sent before the backward pass has ended"
    elif ahead and any(e.word == "wait" for e in mine[backward:last]):
        yield "blocking", "the backward pass waits for gradients to come back"


def value_of(step, name):
    """A value of the step's line, or of the optimizer's; None: there is none."""
    optimizer = next((e.values for e in step.entries if e.word == "optim_step"), {})
    return step.values.get(name, optimizer.get(name))


def check_values(step, ours, theirs):
    """losses, gradients and weights are ours on every rank, step by step"""
    starts = first_of(theirs)
    rounds = list(zip(*(journal.steps for journal in starts.values())))
    if step not in ALONE:
        for ranks in rounds:
            if len({s.values["crc"] for s in ranks}) > 1:
                yield "replicas", f"after step {ranks[0].number} the ranks have different weights"
                break
        if rounds:
            norm, due = (float(first_of(run)[0].steps[0].values["grads"]) for run in (theirs, ours))
            if near(norm, due * len(starts)):
                yield "mean", f"in step 1 the gradients are {len(starts)} times as large as their mean"
            elif near(norm * len(starts), due):
                yield "mean_twice", f"in step 1 the gradients are 1/{len(starts)} of their mean"
    for rank, journal in starts.items():
        for mine, due in zip(journal.steps, first_of(ours)[rank].steps):
            masks = [Counter(e.about[0] for e in s.entries if e.word == "dropout") for s in (mine, due)]
            if masks[0] != masks[1]:
                how = "with other" if masks[0] else "without"
                yield "model_train", f"rank {rank} trains {how} dropout from step {mine.number} on"
                return
            wiped = place_of(mine.entries, "zero_grad", last=True) or 0
            for name in ("lr", "loss", "grads", "weights"):
                if name == "grads" and wiped > (place_of(mine.entries, "optim_step") or 0):
                    continue  # cleared again: their length is 0
                got, expected = value_of(mine, name), value_of(due, name)
                if got is not None and not near(got, expected):
                    yield ("lr" if name == "lr" else "values"), \
                        f"rank {rank} has {NAMES[name]} {got} in step {mine.number}, ours has {expected}"
                    return


def check_evaluation(step, ours, theirs):
    """an evaluation counts each row as often as it should"""
    mine, due = ([[sum((batch.rows for batch in batches), []) for batches in journal.evaluations]
                  for journal in first_of(run).values()] for run in (theirs, ours))
    entries = [e for j in first_of(theirs).values() for batches in j.evaluations for b in batches for e in b.entries]
    if complete(theirs) and {len(e) for e in mine} != {len(due[0])}:
        yield "evaluate", f"the ranks make {listed({len(e) for e in mine})} evaluations, ours make {len(due[0])}"
    elif any(e.word == "dropout" for e in entries):
        yield "model_eval", "units are dropped during the evaluation"
    elif any(e.word == "start" for j in first_of(theirs).values() for batches in j.evaluations for b in batches[:-1] for e in b.entries):
        yield "evaluate_loop", "between two batches of an evaluation the ranks wait for each other"
    for rows in zip(*mine):
        count = Counter(sum(rows, []))
        if step in OWN_ROWS:
            if any(len(part) != TEST_ROWS for part in rows):
                yield "evaluate_whole", f"each rank evaluates all {TEST_ROWS} rows in this step"
                return
        elif any(len(part) == TEST_ROWS for part in rows):
            yield "evaluate_share", f"each rank evaluates all {TEST_ROWS} rows: each row counts {len(rows)} times"
            return
        elif max(count.values()) > 1:
            yield "evaluate_twice", f"{sum(n > 1 for n in count.values())} rows are evaluated twice"
            return
        elif len(count) < TEST_ROWS:
            yield "evaluate_missing", f"only {len(count)} of the {TEST_ROWS} rows are evaluated"
            return
    printed = {rank: j.all("test") for rank, j in first_of(theirs).items()}
    expected = {rank: j.all("test") for rank, j in first_of(ours).items()}
    printing, due = ([rank for rank in tests if tests[rank]] for tests in (printed, expected))
    if complete(theirs) and printing != due:
        yield "evaluate_print", f"the result is printed by {ranks(printing)}, and should be by {ranks(due)}"
    for rank in printed:
        for entry, other in zip(printed[rank], expected.get(rank, [])):
            for name in ("loss", "accuracy"):
                if not near(entry.values[name], other.values[name]):
                    yield "evaluate_sum", f"the evaluation of rank {rank} has {name} {entry.values[name]}, ours has {other.values[name]}"
                    return


def check_saves(step, ours, theirs):
    """the right rank saves, and what is saved is there"""
    mine, due = ({rank: Counter(e.about[0] for e in journal.all("save")) for rank, journal in first_of(run).items()}
                 for run in (theirs, ours))
    if not complete(theirs):
        return
    savers, expected = ([rank for rank in saves if saves[rank]] for saves in (mine, due))
    if savers != expected:
        names = sorted({name for rank in set(savers) - set(expected) for name in mine[rank]})
        yield "save_rank", f"checkpoints are written by {ranks(savers)}, and should be by {ranks(expected)}" + \
            (f" (see {', '.join(names)})" if names else "")
    for rank in expected:
        missing, extra = due[rank] - mine.get(rank, Counter()), mine.get(rank, Counter()) - due[rank]
        for names, name, text in (missing, "save_missing", "does not save"), (extra, "save_extra", "also saves"):
            if names and savers == expected:
                yield name, f"rank {rank} {text} {', '.join(sorted(names))}"
                return
    files = set(ours.files(ours.saved)) - set(theirs.files(theirs.saved))
    if files and savers == expected:
        yield "files", f"there is no {', '.join(sorted(files))} in the folder of checkpoints"


def check_disks(step, ours, theirs):
    """one rank of each node copies the data to the node's disk, and the others wait for it"""
    for node in ("node0", "node1") if theirs.journals else ():
        copies = [line for line in theirs.err.splitlines() if "] copied " in line and f"/{node} " in line]
        if len(theirs.files(theirs.folder / "disks" / node)) < 4 or not copies:
            yield "scratch_node", f"{node}'s disk has no copy of the data"
            break
        if len(copies) > 1:
            yield "scratch_once", f"{len(copies)} ranks of {node} copy the data, and each copies all of it"
            break
    if complete(theirs) and "MB between nodes" not in theirs.err:
        yield "set_nodes", "the group does not know which ranks share a node"
    if complete(theirs) and " is host node" not in theirs.err:
        yield "dist_env_log", "no rank says on which node it is"
    for rank, journal in first_of(theirs).items():
        before = journal.until(0, ("model", "broadcast"))
        if theirs.journals and not any(e.word == "start" and e.about[1] == "barrier" for e in before):
            yield "barrier", f"rank {rank} does not wait until the copy is complete"
            break


def shapes(run):
    """{a printed line with # for numbers: [the numbers of each such line]}"""
    lines = {}
    for line in run.out.replace(str(run.saved), "FOLDER").splitlines():
        lines.setdefault(re.sub(NUMBER, "#", line), []).append(re.findall(NUMBER, line))
    return {shape: sorted(numbers) for shape, numbers in lines.items()}


def filled(shape, numbers):
    """A line with its numbers."""
    for number in numbers:
        shape = shape.replace("#", number, 1)
    return shape


def check_output(step, ours, theirs):
    """it prints what ours prints, numbers included"""
    if complete(theirs):
        yield from check_lines(step, ours, theirs)


def check_lines(step, ours, theirs):
    """the lines of standard output are ours"""
    mine, due = shapes(theirs), shapes(ours)
    for name, text, one, other in (("lines_missing", "it does not print", due, mine),
                                   ("lines_extra", "it prints too much", mine, due)):
        for shape in one:
            count = len(one[shape]) - len(other.get(shape, []))
            if count > 0:
                yield name, f"{text}: {shape} ({count} time{'s' * (count > 1)}; # is any number)"
                return
    for shape in due:
        for got, expected in zip(mine[shape], due[shape]):
            if not all(near(a, b) or abs(float(a) - float(b)) < 2e-4 for a, b in zip(got, expected)):
                yield "numbers", f"it prints \"{filled(shape, got)}\", and ours \"{filled(shape, expected)}\""
                return


def work_of(journal):
    """How often it computes, and how much it sends."""
    return {"makes {} forward passes": len(journal.all("forward")),
            "makes {} backward passes": len(journal.all("backward")),
            "makes {} steps of the optimizer": len(journal.all("optim_step")),
            "sends {} gradients": sum(int(entry.values["count"]) for _, entry in gradients_sent(journal.entries))}


def check_work(step, ours, theirs):
    """each rank computes and sends as often as in our program"""
    due = {rank: work_of(journal) for rank, journal in first_of(ours).items()}
    mine = {rank: work_of(journal) for rank, journal in first_of(theirs).items()}
    for what in due[0]:
        more = [rank for rank in mine if mine[rank][what] > due[rank][what]]
        if more:
            yield "work", f"rank {more[0]} {what.format(mine[more[0]][what])}, ours {due[more[0]][what]}"
