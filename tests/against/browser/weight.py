"""Usage: weight.py SITE      What a browser loads for each page: HTML, styles, scripts and frames, without pictures; 400 kB at most.
Prints the heaviest. What only the page of a search needs is not counted."""
import glob, os, re, sys

MOST = 400 * 1000
SEARCH = ("searchindex.js", "texts.js", "searchtools.js", "language_data.js")


TAG = re.compile(r"<(?:link|script|iframe)\b[^>]*>")
LOADS = re.compile(r'<link[^>]* rel="(?:stylesheet|preload)"[^>]* href="([^"]*)"|<link[^>]* href="([^"]*)"[^>]* rel="(?:stylesheet|preload)"|<(?:script|iframe)[^>]* src="([^"]*)"')


def weight(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    own, total = os.path.dirname(path), len(text.encode())
    loads = [found and next(filter(None, found.groups())) for found in map(LOADS.match, TAG.findall(text))]
    for target in {os.path.normpath(os.path.join(own, re.split("[?#]", one)[0])) for one in loads if one and "//" not in one}:
        if os.path.basename(target) not in SEARCH:
            total += weight(target) if target.endswith(".html") else os.path.getsize(target)
    return total


def main():
    pages = glob.glob(sys.argv[1] + "/**/*.html", recursive=True)
    assert len(pages) > 100, "this is not the site"
    found = sorted(((weight(path), os.path.relpath(path, sys.argv[1])) for path in pages), reverse=True)
    for size, path in found[:5]:
        print(f"{size / 1000:.0f} kB: {path}")
    print(f"index.html: {dict((path, size) for size, path in found)['index.html'] / 1000:.0f} kB")
    return 1 if found[0][0] > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
