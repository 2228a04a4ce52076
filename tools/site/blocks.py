"""How the blocks of a page look: commands have a prompt, what they print has its ranks in their colours, and a quotation
of a source has the file's name above and line numbers that are links."""
import re

import diffs

INSIDE = re.compile(r"(?<=<pre>).*(?=</pre>)", re.S)
NO_PROMPT = re.compile(r"\s|#|(?:done|fi|esac|[})]|[A-Z]+)$|$")  # the rest of a loop or a document, a comment, an empty line
VARIES = {"numbers": "other numbers on your machine", "order": "in any order"}


def typed(code):
    """Commands, as HTML: a prompt before each (site.css draws it, so it is not copied)."""
    lines, more = [], False
    for line in code.split("\n"):
        text = re.sub(r"<[^>]*>", "", line)
        if not more and not NO_PROMPT.match(text):
            line = '<span class="typed"></span>' + line
        more = text.endswith("\\")
        lines.append(line)
    return "\n".join(lines)


def printed(code):
    """What is printed, as HTML: a rank's tag in its colour."""
    return re.sub(r"\[rank (\d+)[^]\n]*\]", lambda tag: f'<span style="color:var(--rank-{int(tag[1]) % 8}-ink)">{tag[0]}</span>', code)


def highlight(pygments_bridge):
    """Makes Sphinx's highlighter call these."""
    plain = pygments_bridge.highlight_block

    def highlight_block(self, source, lang, *rest, **more):
        block = plain(self, source, lang, *rest, **more)
        look = {"sh": typed, "text": printed}.get(lang)
        return INSIDE.sub(lambda code: look(code[0]), block, count=1) if look else block
    pygments_bridge.highlight_block = highlight_block


def figure(words, where, block):
    """A quotation with its place above, in one line of HTML: Markdown ends at an empty one."""
    link = f'<a href="{where[0]}">{where[1]}</a>' if where else ""
    return f'<figure class="quote"><figcaption><span>{words}</span>{link}</figcaption>{block}</figure>'


def source(name, first, count, page):
    """Lines of a source; PAGE is its page."""
    lines = diffs.highlighted(name)[first - 1:first - 1 + count]
    return '<div class="highlight rows quoted code">' + "".join(
        f'<div><a class="line" tabindex="-1" href="{page}#L{number}">{number}</a><code>{diffs.line_html(tokens)}</code></div>'
        for number, tokens in enumerate(lines, first)) + "</div>"


def varies(notes):
    return '<p class="from">' + ", ".join(VARIES[word] for word in notes.split(", ")) + "</p>"
