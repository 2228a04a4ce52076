"""A chapter's quiz on its page: what to predict, then what the experiment printed when it was recorded (teach/quiz.py record).
Without scripts the experiment is folded; with them, it opens when a prediction is there (static/site.js)."""
import html
import re
import sys

from diffs import ROOT

sys.path.insert(0, f"{ROOT}/teach")
import quiz

PLACE = re.compile(r"^Predict first: `make quiz-(\w+)`.*?\n(?=\n)", re.M | re.S)


def words(lines):
    """Text as HTML in one line, because Markdown's HTML ends at an empty one."""
    return "&#10;".join(html.escape(line) for line in lines)


def question_html(number, question):
    if question.choices:
        form = "".join(f'<label><input type="radio" name="answer" value="{word}"> {word}</label>' for word in question.choices)
    else:
        form = '<label>Your answer: <input name="answer" inputmode="decimal" size="8" autocomplete="off"></label>'
    run = [f"$ {text}" if word == "run" else text for word, text in question.lines if word in ("run", "prints")]
    return (f'<form class="card" data-answer="{html.escape(question.text("answer"))}" data-within="{question.within:g}">'
            f'<p><b>{number}.</b> {words([question.text("ask")])}</p><p class="answer">{form} <button hidden>Predict, then run</button></p>'
            f'<details><summary>The experiment, as it was recorded</summary><pre>{words(run)}</pre><p class="verdict" role="status">'
            f'The experiment says {html.escape(question.text("answer"))}.</p><p>{words([question.text("because")])}</p></details></form>')


def quiz_html(name):
    """All questions of a quiz; '' if one of them was not recorded."""
    questions = quiz.Quiz(name).questions
    if not all(question.all("prints") for question in questions):
        return ""
    return '<div class="quiz">' + "".join(question_html(*pair) for pair in enumerate(questions, 1)) + "</div>\n"


def insert(page):
    """The page with each quiz below the paragraph that names it."""
    return PLACE.sub(lambda place: f"{place[0]}\n{quiz_html(place[1])}", page)
