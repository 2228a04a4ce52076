#!/usr/bin/env python3
"""Usage: tests/house/reading.py [--write]      Is what common/README.md says about files so?

The rows of the first reading are "| [file](link) | lines | what is in it |": --write puts the right numbers of lines
there. "[file](link): `name` and `name`" says that these names are in the file. Prints the length of the whole
("5,812 lines in 49 files", which the README quotes, too), and what is wrong.
"""
import os, re, sys

README = 'common/README.md'
NAMES = re.compile(r'\]\(([^()]+\.c)\): (`\w+`(?: and `\w+`)*)')
ROW = re.compile(r'^\| \[(.+?)\]\((.+?)\) \| ([\d,]+) \|', re.M)


def content(link):
    return open(os.path.join('common', link)).read()


def lines_of(link):
    return len(content(link).splitlines())


os.chdir(os.path.join(os.path.dirname(__file__), "..", ".."))
text = open(README).read()
links = [link for _, link, _ in ROW.findall(text)]
named = NAMES.findall(text)
wrong = [f'{link}: no such file' for link in links + [link for link, _ in named] if not os.path.isfile(os.path.join('common', link))]
wrong += [f'{link}: listed twice' for link in set(links) if links.count(link) > 1]
if not wrong:
    wrong = [f'{link}: has no {name}' for link, names in named for name in re.findall(r'`(\w+)`', names)
             if not re.search(rf'\b{name}\b', content(link))]
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
