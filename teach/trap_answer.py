"""What a learner answers about a trap (answer.txt), and how an answer is wrong. The symptom comes first: it is copied from what
run.sh has printed, so a line that was found by searching the source alone is no answer."""
import re

FIELDS = {"symptom": "Which line of the output (run.sh keeps it in output.txt) shows that something is wrong: copy it",
          "rank": "Which rank is at fault: its number, or all",
          "line": "Which line: copy it; if it is missing, write it as it should be",
          "cause": "Why: one of the names below"}


def squeezed(text):
    return " ".join(text.split())


def lines_of(text):
    return [squeezed(line) for line in text.splitlines() if line.strip()]


def answer_of(text):
    """{field: what is written there} in answer.txt."""
    lines = [line.partition(":") for line in text.splitlines() if not line.startswith("#")]
    return {field.strip(): squeezed(written) for field, _, written in lines if written.strip()}


def signs(symptom, output):
    """The lines of the output that show the symptom: the first and the last of whatever the expression matches, from any line on."""
    lines, begin, output = [], 0, output + "\n"
    while found := re.compile(symptom, re.M).search(output, begin):
        whole = lines_of(output[output.rfind("\n", 0, found.start()) + 1:output.find("\n", found.end() - 1)])
        lines += [whole[0], whole[-1]]
        begin = output.find("\n", found.start()) + 1
    return lines


def fault_of_symptom(trap, written):
    path = trap.folder / "output.txt"
    output = path.read_text(errors="replace") if path.exists() else ""
    due = signs(trap.one("symptom"), output)
    if not output:
        return f"what does it print? Nobody has run it yet: sh {trap.folder}/run.sh"
    if not due:
        return f"no output so far shows the symptom: sh {trap.folder}/run.sh without options"
    if written not in lines_of(output):
        return f"the symptom is no line of {path}: copy it from there"
    return None if written in due else "this line of the output is right, or follows from an earlier one: compare it with its neighbours"


def fault_of_rank(trap, written):
    due = trap.one("rank").split("|")
    if written in due:
        return None
    if not re.fullmatch(r"\d+( and \d+)*|all", written):
        return "the rank is a number, or the word all"
    if written == "all":
        return "not all ranks do it: compare what they print, or what they wait for"
    return f"rank {written} is not the only one: what do the others do?" if "all" in due and len(due) == 1 else \
        f"rank {written} does what it should: which one differs from the others?"


def fault_of_line(trap, written):
    if re.match(f".*({trap.one('line')})", written):
        return None
    broken, ours = (written in lines_of(text) for text in (trap.broken(), trap.ours()))
    if broken and ours:
        return "the line is the same in the right program: the fault is elsewhere"
    return f"the line is neither in {trap.file} nor in the right program: copy all of it" if not broken else "the line is not the one at fault"


def fault_of_cause(trap, written):
    if written == trap.cause:
        return None
    meaning = dict(text.split(": ", 1) for text in trap.causes()).get(written)
    return f"the cause {written} means that {meaning}: is that what the output shows?" if meaning else \
        f"the cause {written} is none of the names in answer.txt"


def faults(trap, answer):
    """Yields, for each field, how it is wrong, or None."""
    judges = {"symptom": fault_of_symptom, "rank": fault_of_rank, "line": fault_of_line, "cause": fault_of_cause}
    for field in FIELDS:
        yield field, judges[field](trap, answer[field]) if field in answer else f"answer.txt has no {field} yet"
