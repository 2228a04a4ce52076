#!/usr/bin/env python3
"""Usage: teach/quiz.py CHAPTER [NUMBER]  (make quiz-02: asks, runs the experiment, and shows both)
       teach/quiz.py list              all quizzes: how many questions are answered right
       teach/quiz.py record [CHAPTER]...  runs the experiments, and keeps what they print for the site, where nothing runs
Answers are read from the terminal or from a pipe, a line for each; an empty line means that you do not know. A question
answered right is not asked again until all are. A quiz is a file teach/quiz/CHAPTER.txt; a line is a word and its text:
    ask      begins a question, and goes on with the next line of this word
    choose   the words of which the answer is one; without it, the answer is a number
    run      a command of the experiment, run as tools/docs.py runs those of the documents
    prints   a line that the command above printed when it was recorded
    read     finds the answer in its output: a regular expression with a group; its last match is taken
    within   how far from it a number may be and still be right (0)
    needs    what the experiment needs, as in tools/docs.py; if it is missing, the answer below is shown
    answer   what the experiment says, and because: why"""
import os
import re
import shutil
import signal
import sys
import tempfile
import textwrap
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import docs

TOP = Path(docs.ROOT)
LAB = Path(os.environ.get("LAB", TOP / "lab")).absolute()
NUMBER = re.compile(r"[-+]?(\d[\d,]*\.?\d*|\.\d+)(e[-+]?\d+)?")


def fail(text):
    print(f"teach/quiz.py: {text}", file=sys.stderr)
    sys.exit(2)


def names():
    return sorted(path.stem for path in (TOP / "teach/quiz").glob("*.txt"))


def chapters():
    """Key and title of each, in the order of docs/README.md, without the reference pages."""
    table = re.findall(r"^\| \[(.*?)\]\((.*?)\.md\).*\| (.*) \|$", (TOP / "docs/README.md").read_text(), re.M)
    for title, page, time in table:
        if time != "to look things up":
            yield page[:2] if page[:2].isdigit() else page, title


class Question:
    def __init__(self, lines):
        self.lines = lines
        self.choices = self.text("choose").split()
        self.within = float(self.text("within") or 0)

    def all(self, word):
        return [text for key, text in self.lines if key == word]

    def text(self, word, between=" "):
        return between.join(self.all(word))

    def excuse(self):
        """Why the experiment cannot be run here, or None."""
        return docs.missing(self.text("needs"))

    def experiment(self):
        """Runs it and shows each command with what it prints; returns the answer in that, or None."""
        printed = []
        for _, lines in self.outputs(lambda command: print(f"$ {command}", flush=True)):
            print("".join(f"{line}\n" for line in lines), end="", flush=True)
            printed += lines
        return self.found(printed)

    def found(self, printed):
        """The answer in what the commands have printed, or None."""
        found = re.findall(self.text("read"), "\n".join(printed), re.M)
        return found[-1] if found else None

    def outputs(self, begin=lambda command: None):
        """Runs the commands one after the other; yields each with the lines that it prints. Calls `begin` before each."""
        with tempfile.TemporaryDirectory() as folder:
            docs.mirror(folder)
            for command in self.all("run"):
                begin(command)
                yield command, docs.show(command, folder)

    def record(self):
        """Runs the experiment, and puts what it prints below its commands; not if it cannot be run here."""
        if self.excuse():
            return
        outputs = dict(self.outputs())
        self.lines = [new for word, text in self.lines if word != "prints"
                      for new in [(word, text), *(("prints", line) for line in outputs.get(text, ()) if word == "run")]]

    def understood(self, line):
        """The answer in what was typed: one of the words, or a number; None if it is none."""
        if self.choices:
            return next((word for word in self.choices if word.lower() == line.strip().lower()), None)
        match = NUMBER.search(line)
        return float(match[0].replace(",", "")) if match else None

    def is_right(self, line, found):
        given, due = self.understood(line), self.understood(found)
        if self.choices or given is None:
            return given == due
        return abs(given - due) <= self.within * (1 + 1e-9)

    def verdict(self, line, found):
        """A line about what was typed, and what the experiment says."""
        near = f" ({self.within:g} more or less will do)" if self.within else ""
        if not line.strip():
            return f"The experiment says {found}."
        if self.is_right(line, found):
            return f"You said {line.strip()}, the experiment says {found}: right."
        return f"You said {line.strip()}, but the experiment says {found}{near}."


class Quiz:
    def __init__(self, name):
        if name not in names():
            fail(f"'{name}' is none of {' '.join(names())}")
        self.name, self.questions = name, []
        question = []
        for line in (TOP / f"teach/quiz/{name}.txt").read_text().splitlines():
            word, _, text = line.partition(" ")
            if word == "ask" and any(key != "ask" for key, _ in question):
                self.questions.append(Question(question))
                question = []
            question.append((word, text))
        self.questions.append(Question(question))
        self.file = LAB / f"quiz_{name}/answers.txt"

    def answered(self):
        """{number of each question that was answered: (is it right, what was typed)}"""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return {int(number): (verdict, text) for number, verdict, text in (line.split(" ", 2) for line in lines)}

    def num_right(self):
        return sum(verdict == "right" for verdict, _ in self.answered().values())

    def note(self, number, is_right, line):
        answers = self.answered()
        answers[number] = ("right" if is_right else "wrong", line.strip())
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text("".join(f"{n} {verdict} {text}\n" for n, (verdict, text) in sorted(answers.items())))

    def ask(self, number):
        """Asks, runs, shows both. False at the end of the input."""
        question = self.questions[number - 1]
        print(f"\nQuestion {number} of {len(self.questions)}\n" + wrapped(question.text("ask", "\n")))
        form = " or ".join(question.choices) or "a number"
        line = read_line(f"Your answer ({form}): ")
        while line is not None and line.strip() and question.understood(line) is None:
            line = read_line(f"That is not {form}. Your answer: ")
        if line is None:
            return False

        print()
        if question.excuse():
            print(f"The experiment is not run, since {question.excuse()} here. Elsewhere it says:")
            found = question.text("answer")
        else:
            found = question.experiment()
        print()
        if found is None or question.understood(found) is None:
            print("The experiment gave no answer, so something is wrong with it. Run its commands by hand.")
        else:
            self.note(number, question.is_right(line, found), line)
            print(question.verdict(line, found))
            print(wrapped(question.text("because", "\n")))
        return True

    def run(self, numbers):
        right = {number for number, (verdict, _) in self.answered().items() if verdict == "right"}
        numbers = numbers or sorted(set(range(1, len(self.questions) + 1)) - right)
        if not numbers:
            print(f"You have answered all {len(self.questions)} questions. Here they are again.")
            numbers = range(1, len(self.questions) + 1)
        for number in numbers:
            if not self.ask(number):
                print("\nThere are no more answers to read.")
                break
        left = len(self.questions) - self.num_right()
        print(f"\nRight: {self.num_right()} of {len(self.questions)}." +
              (f" The others once more: make quiz-{self.name}" if left else ""))


def record(name):
    """Writes the quiz again, with what its experiments print now."""
    questions = Quiz(name).questions
    for question in questions:
        question.record()
    lines = [f"{word} {text}\n" for question in questions for word, text in question.lines]
    (TOP / f"teach/quiz/{name}.txt").write_text("".join(lines))


def wrapped(text):
    """On a terminal, the text with lines that break at words."""
    width = shutil.get_terminal_size().columns
    return "\n".join(textwrap.fill(line, width) for line in text.split("\n")) if sys.stdout.isatty() else text


def read_line(prompt):
    """A line that the user types, or the next one of the pipe, which is shown; None at the end."""
    try:
        line = input(prompt)
    except EOFError:
        return None
    if not sys.stdin.isatty():
        print(line)
    return line


def main():
    word, *rest = sys.argv[1:] or [""]
    if word == "list":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as in: make quiz | head
        print("\n".join(f"{name}  {Quiz(name).num_right()} of {len(Quiz(name).questions)}" for name in names()))
    elif word == "record":
        for name in rest or names():
            record(name)
    elif word and not word.startswith("-") and len(rest) <= 1:
        quiz = Quiz(f"0{word}" if f"0{word}" in names() else word)  # quiz-2 is quiz-02
        if rest and rest[0] not in map(str, range(1, len(quiz.questions) + 1)):
            fail(f"quiz {word} has the questions 1 to {len(quiz.questions)}")
        try:
            quiz.run([int(number) for number in rest])
        except KeyboardInterrupt:
            print()
            sys.exit(130)
    else:
        fail(__doc__)


if __name__ == "__main__":
    main()
