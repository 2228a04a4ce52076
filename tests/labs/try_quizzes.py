#!/usr/bin/env python3
"""Usage: tests/labs/try_quizzes.py [CHAPTER]...
Each question of each quiz, or of these: does the experiment give the answer that the explanation states? Is that answer
right, and are others told to be wrong?"""
import contextlib
import io
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "teach"))
import quiz


def judged(question, found):
    """Yields what is wrong with the verdicts on answers, where the experiment says found."""
    stated = question.text("answer")
    if question.choices:
        right, wrong = [stated, f" {stated.upper()} "], [word for word in question.choices if word != stated]
    else:
        value = float(stated)
        far = max(2 * question.within, abs(value) / 100, 0.01)
        right, wrong = [stated, f"about {value:,}", f"{stated} of them"], [f"{value + far:.9g}", f"{value - far:.9g}"]
    for line in right:
        if not question.verdict(line, found).endswith(": right."):
            yield f"should be right: {line}"
    for line in [*wrong, "no idea"]:
        verdict = question.verdict(line, found)
        if not verdict.startswith(f"You said {line}, but the experiment says {found}"):
            yield f"is not told to be wrong: {line}: {verdict}"


def faults(question):
    stated = question.text("answer")
    if question.excuse():
        print(f"    not run: {question.excuse()}")
        yield from judged(question, stated)
        return
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        found = question.experiment()
    if found is None or question.understood(found) is None or not question.is_right(stated, found):
        yield f"the experiment says {found}, the explanation {stated}:\n{shown.getvalue()}"
        return
    if shown.getvalue().count("\n") > 12 + len(question.all("run")):
        yield f"it prints too much:\n{shown.getvalue()}"
    yield from judged(question, found)


def main():
    wrong = 0
    for name in sys.argv[1:] or quiz.names():
        for number, question in enumerate(quiz.Quiz(name).questions, 1):
            began = time.time()
            found = list(faults(question))
            print(f"{'WRONG' if found else 'ok   '} {name} {number} ({time.time() - began:.1f} s)", *found, sep="\n  ", flush=True)
            wrong += bool(found)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
