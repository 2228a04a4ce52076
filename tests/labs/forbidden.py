#!/usr/bin/env python3
"""Usage: tests/labs/forbidden.py
Is there a wrong program for whatever a lab's text demands or forbids? Prints the lines of forbidden.txt whose words are not in the
text, or whose mistake no program makes, and the sentences with "must", "not", "only" and the like that have no line."""
import re
import sys

sys.dont_write_bytecode = True
from rows import TOP, rows_of

FORBIDS = re.compile(r"\b(must|never|not|no|only|at most|alone|nothing|longer|once|the same)\b")


def text_of(lab):
    """What the learner reads, each rung a sentence."""
    lines = (TOP / f"teach/lab/{lab}.txt").read_text().splitlines()
    parts = [re.sub(r"^rung \d: (.*)", r"\1.", line).strip() for line in lines if line.startswith(("  ", "rung "))]
    return " ".join(parts)


def faults():
    rows = rows_of("forbidden.txt")
    made = {(lab, mistake) for lab, mistake, _ in rows_of("programs.txt") + rows_of("library.txt")}
    for lab, mistake, words in rows:
        if words not in text_of(lab):
            yield f"{lab}.txt does not say: {words}"
        if mistake != "-" and (lab, mistake) not in made:
            yield f"no program of lab-{lab} makes this mistake: {mistake} ({words})"
    for lab in dict.fromkeys(lab for lab, *_ in rows):
        text, sentence = text_of(lab), 0
        places = [text.find(words) for name, _, words in rows if name == lab]
        for end in [*(found.end() for found in re.finditer(r"[.:;](?= )", text)), len(text)]:
            if FORBIDS.search(text[sentence:end]) and not any(sentence <= place < end for place in places):
                yield f"lab-{lab}: no line for: {text[sentence:end].strip()}"
            sentence = end


found = list(faults())
print(*found, sep="\n")
sys.exit(found != [])
