#!/usr/bin/env python3
"""Usage: tests/house/reading.py [--write]      Is what common/README.md says about files so?

The rows of the first reading are "| [file](link) | lines | what is in it |": --write puts the right numbers of lines
there. "[file](link): `name` and `name`" says that these names are in the file. What a chapter walks under "Under the
hood" is listed for that chapter or an earlier one. Prints the length of the whole ("5,812 lines in 49 files", which
the README quotes, too), and what is wrong.
"""
import glob, os, re, sys

README = 'common/README.md'
NAMES = re.compile(r'\]\(([^()]+\.c)\): (`\w+`(?: and `\w+`)*)')
ROW = re.compile(r'^\| \[(.+?)\]\((.+?)\) \| ([\d,]+) \|', re.M)
CHAPTER = re.compile(r'^\*\*(0\d) ', re.M)
HOOD = re.compile(r'^## Under the hood.*?(?=^## |\Z)', re.M | re.S)


def content(link):
    return open(os.path.join('common', link)).read()


def lines_of(link):
    return len(content(link).splitlines())


def walks_unlisted(text):
    """The files of common/ that a chapter walks and the list has for no chapter up to it."""
    in_common = {os.path.basename(path) for path in glob.glob('common/**/*.[ch]', recursive=True)}
    parts = CHAPTER.split(text)  # the text before the first chapter, then "01", its rows, "02", ...
    listed, hoods, wrong = set(), 0, []
    for chapter, rows in zip(parts[1::2], parts[2::2]):
        listed |= {os.path.basename(link) for _, link, _ in ROW.findall(rows)}
        for document in glob.glob(f'docs/{chapter}_*.md'):
            for hood in HOOD.findall(open(document).read()):
                hoods += 1
                walked = set(re.findall(r'\w+\.[ch]\b', hood))
                wrong += [f'{document}: walks {name}, which {README} lists for no chapter up to {chapter}'
                          for name in sorted(walked & in_common - listed)]
            named = set(re.findall(r'\w+\.[ch]\b', open(document).read()))
            wrong += [f'{document}: does not name {name}, which {README} lists for it'
                      for name in sorted({os.path.basename(link) for _, link, _ in ROW.findall(rows)} - named)
                      if name.endswith('.c')]
    return wrong if hoods >= 5 else wrong + [f'{hoods} chapters have a part "Under the hood", not 5']


os.chdir(os.path.join(os.path.dirname(__file__), "..", ".."))
text = open(README).read()
links = [link for _, link, _ in ROW.findall(text)]
named = NAMES.findall(text)
wrong = [f'{link}: no such file' for link in links + [link for link, _ in named] if not os.path.isfile(os.path.join('common', link))]
wrong += [f'{link}: listed twice' for link in set(links) if links.count(link) > 1]
if not wrong:
    wrong = [f'{link}: has no {name}' for link, names in named for name in re.findall(r'`(\w+)`', names)
             if not re.search(rf'\b{name}\b', content(link))]
    wrong += walks_unlisted(text)
    whole = f'{sum(map(lines_of, links)):,} lines in {len(links)} files'
    right = ROW.sub(lambda row: f'| [{row[1]}]({row[2]}) | {lines_of(row[2])} |', text)
    right = re.sub(r'[\d,]+ lines in \d+ files', whole, right)
    print(whole)
    if '--write' in sys.argv:
        open(README, 'w').write(right)
    elif right != text:
        wrong += [f'{README}: other numbers of lines; make docs puts the right ones there']
if wrong or not links:
    sys.exit('\n'.join(wrong))
