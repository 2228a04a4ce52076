"""What is handed in: the files of the labs, from a folder or a zip, and what is refused before anything is compiled."""
import contextlib
import difflib
import json
import os
import re
import resource
import select
import signal
import stat
import subprocess
import time
import zipfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
MOST_SOURCE = 256 << 10  # bytes of a file
MOST_ENTRIES = 10_000  # of a zip
CAPSTONE = ("capstone.c", "01.c", "02.c", "03.c", "04.c", "05.c")


class Refused(Exception):
    """One line for the student: what, where, what to do."""


class Near(Refused):
    """The file is there, perhaps, under nearly its name: not a wrong program."""


def student(path):
    """Whose submission it is: the zip's name, or that of the folder in which lab/ lies. No spreadsheet takes it for a formula."""
    path = Path(path)
    name = path.parent.name if path.name == "lab" else path.name if path.is_dir() else path.stem
    return re.sub(r"[^\w .@+-]|^[=+@-]", "_", name)


def nearly(names, lab):
    """A file that may be meant for this lab, though nothing says so; or None."""
    name, known = files_of(lab)[0], known_labs()
    files = {file for other in known for file in files_of(other)} - {name}
    for path in sorted(names):
        folder, _, end = plainly(path).rpartition("/")
        if end in files or folder.rpartition("/")[2] in set(known) - {lab}:
            continue  # another lab's
        if difflib.get_close_matches(end, [name], 1, 0.85):
            return path
    return None


def files_of(lab):
    """The names of a lab's files."""
    return CAPSTONE if lab == "capstone" else (f"{lab}.c",) if (TOP / "teach/lab" / lab).is_dir() else ("train.c",)


def known_labs():
    """In the order of the walk."""
    listed = subprocess.run(["teach/lab.sh", "list"], cwd=TOP, check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in listed.splitlines()]


def spelled(path):
    """A path as we write it: Windows' tools pack lab\\02b\\train.c, others a leading slash."""
    return re.sub(r"/(?:\./|/)+", "/", "/" + path.replace("\\", "/")).removeprefix("/")


def plainly(path):
    """The same without what tools and hands change in a name: Train.C, train (1).c, "train - Copy.c", train.c.txt."""
    folder, _, name = spelled(path).lower().rpartition("/")
    name = re.sub(r"(?: ?\(\d+\)| - copy| copy| ?-? ?kopie)+(?=\.)", "", name.removesuffix(".txt"))
    return f"{folder}/{name}" if folder else name


def chosen(names, lab, name, labs):
    """Which of these paths is the lab's file, as it is spelled there: by its right name; else the only one of nearly that name."""
    for same in spelled, plainly:
        places = {}
        for path in names:
            places.setdefault(same(path), []).append(path)
        place = place_of(places, lab, name, labs)
        if place is None:
            continue
        if len(set(places[place])) > 1:
            raise Near(f"{lab}/{name} may be {' or '.join(sorted(places[place])[:3])}: hand in one, named {lab}/{name}")
        return places[place][0]
    return None


def place_of(names, lab, name, labs):
    """Which of these paths is the lab's file: lab/LAB/NAME, LAB/NAME, else one that lies up to three folders deep; or, if no
    other lab of the assignment has such a file, NAME alone, as platforms keep a single file. None: there is none."""
    for path in f"lab/{lab}/{name}", f"{lab}/{name}":
        if path in names:
            return path
    found = [path for path in names if re.fullmatch(rf"(?:[^/]+/){{0,3}}{re.escape(lab)}/{re.escape(name)}", path)]
    if len(found) > 1:
        raise Near(f"{lab}/{name} is there {len(found)} times ({', '.join(sorted(found)[:3])}): hand in one")
    alone = name in names and sum(name in files_of(other) for other in labs) == 1
    return found[0] if found else name if alone else None


def files_in(top):
    """The paths of what is in a folder, up to four folders deep; no link is followed, and not all of a huge tree is looked at."""
    found, folders = [], [""]
    while folders and len(found) < MOST_ENTRIES:
        folder = folders.pop(0)
        with contextlib.suppress(OSError), os.scandir(os.path.join(top, folder)) as entries:
            for entry in entries:
                found.append(f"{folder}{entry.name}")
                if entry.is_dir(follow_symlinks=False) and folder.count("/") < 4:
                    folders.append(f"{folder}{entry.name}/")
    return found


def from_folder(top, path):
    """The bytes of top/path. No link is followed on the way."""
    descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in path.split("/"):
            following = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = following
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"{path} is no regular file: hand in the file itself")
        if found.st_size > MOST_SOURCE:
            raise Refused(f"{path} has {found.st_size} bytes, and {MOST_SOURCE} are allowed")
        return os.read(descriptor, MOST_SOURCE + 1)
    except OSError as error:
        raise Refused(f"{path}: {os.strerror(error.errno)}: hand in the file itself, not a link") from None
    finally:
        os.close(descriptor)


def from_zip(archive, path):
    """The bytes of an entry. Nothing is unpacked."""
    entries = [entry for entry in archive.infolist() if entry.filename == path]
    if len(entries) > 1:
        raise Refused(f"the zip has {path} {len(entries)} times: hand in one")
    kind = entries[0].external_attr >> 16
    if kind and not stat.S_ISREG(kind) and stat.S_IFMT(kind):
        raise Refused(f"{path} is no regular file: hand in the file itself, not a link")
    if entries[0].flag_bits & 1:
        raise Refused(f"{path} is encrypted")
    with archive.open(entries[0]) as file:  # the entry's own word about its size is not believed
        text = file.read(MOST_SOURCE + 1)
    if len(text) > MOST_SOURCE:
        raise Refused(f"{path} has more than the {MOST_SOURCE} bytes that are allowed")
    return text


def read(path, labs, near=None):
    """{lab: {name: bytes}} of those labs of which there is a file. `near` gets those of which one of nearly that name is there."""
    if os.path.isdir(path):
        return found_in(files_in(path), labs, lambda name: from_folder(path, name), near)
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise Refused(f"{path} is neither a folder nor a zip: {error}") from None
    if len(archive.infolist()) > MOST_ENTRIES:
        raise Refused(f"the zip has {len(archive.infolist())} entries: hand in your folder lab/ alone")
    try:
        return found_in(archive.namelist(), labs, lambda name: from_zip(archive, name), near)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError) as error:
        raise Refused(f"the zip is damaged: {error}") from None


def found_in(names, labs, text_of, near):
    names, found = [name for name in names if not name.startswith("__MACOSX/")], {}
    for lab in labs:
        try:
            places = {name: chosen(names, lab, name, labs) for name in files_of(lab)}
            if not any(places.values()) and (path := nearly(names, lab)):
                raise Near(f"there is no {lab}/{files_of(lab)[0]}; is it {path}? Name it {lab}/{files_of(lab)[0]} and hand it in again")
        except Near as reason:
            if near is None:
                raise
            near[lab] = str(reason)
            continue
        if any(places.values()):
            found[lab] = {name: text_of(place) for name, place in places.items() if place is not None}
    return found


# Every alternative takes what it has looked at: so a text is scanned once, also where a comment or a string does not end.
TOKEN = re.compile(r"""/\*(?:.*?\*/|.*)|//[^\n]*|\s+|("(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|.)""", re.S)
SPLICE = re.compile(r"\\[ \t\v\f\r]*\n")  # as gcc joins lines
FORBIDDEN = re.compile(r"_*asm_*|__has_include\w*|__has_embed|_Pragma|__builtin_apply\w*|%:%:|##")
HEADER = re.compile(r'"[\w/]+\.h"|<[\w/]+\.h>')


def tokens(text):
    return [token for token in TOKEN.findall(SPLICE.sub("", text)) if token]


def without_comments(text):
    """The text after the first steps of a compiler: lines are joined, and a comment is a space."""
    return TOKEN.sub(lambda found: found[0] if found[1] or found[0].isspace() else " " + "\n" * found[0].count("\n"), SPLICE.sub("", text))


def shape(text):
    """The tokens, each name replaced by the number of its first appearance: renaming does not change it."""
    seen = {}
    return [str(seen.setdefault(token, len(seen))) if token[0].isalpha() or token[0] == "_" else token for token in tokens(text)]


def refuse(lab, name, text, ours):
    """Refuses what cannot be a student's own work in C. `ours` is our solution, its name and text; None: it may be like ours."""
    try:
        text = text.decode()
    except UnicodeDecodeError:
        raise Refused(f"{lab}/{name} is no text in UTF-8") from None
    if "\0" in text or "??" in text:
        raise Refused(f"{lab}/{name} has zero bytes or trigraphs: write plain C")
    if word := next(filter(FORBIDDEN.fullmatch, tokens(text)), None):
        raise Refused(f"{lab}/{name} uses {word}: write plain C")
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        line = line.strip()
        if re.search(r"\.incbin|##|%:%:", line):
            raise Refused(f"{lab}/{name}:{number}: {line[:60]}: write plain C")
        if not line.startswith(("#", "%:")):
            continue
        word, _, rest = line.lstrip("#%:").strip().replace("\t", " ").replace("\v", " ").replace("\f", " ").partition(" ")
        if found := re.match(r'(include)(["<].*)', word):  # no space between them
            word, rest = found[1], found[2] + rest
        if word in ("embed", "include_next", "import"):
            raise Refused(f"{lab}/{name}:{number}: {line[:60]}: write plain C")
        if word == "include" and not HEADER.fullmatch(rest.strip()):
            raise Refused(f"{lab}/{name}:{number}: only headers may be included, by their own names")
    if ours and shape(text) == shape(ours[1]):
        raise Refused(f"{lab}/{name} is {ours[0]} in other words at most: hand in your own work (if it is, tell your teacher)")


# The text of a stranger is looked at in a process of its own, which may take so long and no longer.
SECONDS, MEMORY = 20, 2 << 30


def apart(look):
    """What look() returns, as JSON knows it, or the Refused that it raises."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        answer = ["refused", "it cannot be read"]
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            answer = ["seen", look()]
        except Refused as reason:
            answer = ["refused", str(reason)]
        except BaseException as error:  # memory, recursion
            answer[1] += f": {type(error).__name__}"
        finally:
            with open(writing, "w") as pipe:
                json.dump(answer, pipe)
            os._exit(0)
    os.close(writing)
    end, text = time.monotonic() + SECONDS, b""
    try:
        while select.select([reading], [], [], max(0, end - time.monotonic()))[0] and (part := os.read(reading, 1 << 20)):
            text += part
        kind, answer = json.loads(text)
    except ValueError:
        raise Refused(f"it takes more than {SECONDS} seconds to read, or cannot be read") from None
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if kind == "refused":
        raise Refused(answer)
    return answer
