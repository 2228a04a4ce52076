"""Usage: links.py FOLDER      Every link of a site of files leads to a file, and to a place in it, that are there; what
the browser loads by itself lies in the folder, too."""
import glob, html.parser, os, sys, urllib.parse

LOADS = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("object", "data")}


class Reader(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.add(value)
            elif (tag, name) in LOADS or (tag, name) == ("a", "href") or name == "action":
                self.links.append((tag, name, value))


def main():
    top = os.path.abspath(sys.argv[1])
    pages = {path: Reader(path) for path in glob.glob(top + "/**/*.html", recursive=True)}
    bad, number = [], 0
    for path, page in pages.items():
        for tag, name, value in page.links:
            address, number = urllib.parse.urlsplit(value), number + 1
            if address.scheme or value.startswith("//"):
                if (tag, name) in LOADS and address.scheme != "data":
                    bad.append(f"{path}: the browser would fetch {value}")
                elif address.scheme not in ("http", "https", "mailto", "data"):
                    bad.append(f"{path}: {value}")
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(address.path))) if address.path else path
            place = urllib.parse.unquote(address.fragment)
            if not os.path.isfile(target) or not target.startswith(top):
                bad.append(f"{path}: there is no {value}")
            elif place and "=" not in place and target in pages and place not in pages[target].ids:
                bad.append(f"{path}: there is no place {value}")
    for path in glob.glob(top + "/**/*.css", recursive=True):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        bad += [f"{path}: fetches {word}" for word in ("@import \"http", "@import url(", "url(http", "url(//", 'url("http') if word in text]
    print(f"{len(pages)} pages, {number} links, {len(bad)} of them dead")
    print("\n".join(line.replace(top + "/", "") for line in bad[:40]))
    assert len(pages) > 100 and number > 10000, "this is not the site"
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
