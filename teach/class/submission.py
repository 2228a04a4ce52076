"""What is handed in: the files of the labs, from a folder or a zip, and what is refused before anything is compiled."""
import contextlib
import os
import re
import stat
import subprocess
import zipfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
MOST_SOURCE = 256 << 10  # bytes of a file
MOST_ENTRIES = 10_000  # of a zip
CAPSTONE = ("capstone.c", "01.c", "02.c", "03.c", "04.c", "05.c")


class Refused(Exception):
    """One line for the student: what, where, what to do."""


def files_of(lab):
    """The names of a lab's files."""
    return CAPSTONE if lab == "capstone" else (f"{lab}.c",) if (TOP / "teach/lab" / lab).is_dir() else ("train.c",)


def known_labs():
    """In the order of the walk."""
    listed = subprocess.run(["teach/lab.sh", "list"], cwd=TOP, check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in listed.splitlines()]


def chosen(names, lab, name, labs):
    """Which of these paths is the lab's file: lab/LAB/NAME, LAB/NAME, else one that lies up to three folders deep; or, if no
    other lab of the assignment has such a file, NAME alone, as platforms keep a single file. None: there is none."""
    for path in f"lab/{lab}/{name}", f"{lab}/{name}":
        if path in names:
            return path
    found = [path for path in names if re.fullmatch(rf"(?:[^/]+/){{0,3}}{re.escape(lab)}/{re.escape(name)}", path) and not path.startswith("__MACOSX/")]
    if len(found) > 1:
        raise Refused(f"{lab}/{name} is there {len(found)} times ({', '.join(sorted(found)[:3])}): hand in one")
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


def read(path, labs):
    """{lab: {name: bytes}} of those labs of which there is a file."""
    if os.path.isdir(path):
        return found_in(files_in(path), labs, lambda name: from_folder(path, name))
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise Refused(f"{path} is neither a folder nor a zip: {error}") from None
    if len(archive.infolist()) > MOST_ENTRIES:
        raise Refused(f"the zip has {len(archive.infolist())} entries: hand in your folder lab/ alone")
    try:
        return found_in(archive.namelist(), labs, lambda name: from_zip(archive, name))
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError) as error:
        raise Refused(f"the zip is damaged: {error}") from None


def found_in(names, labs, text_of):
    places = {(lab, name): chosen(names, lab, name, labs) for lab in labs for name in files_of(lab)}
    found = {}
    for (lab, name), place in places.items():
        if place is not None:
            found.setdefault(lab, {})[name] = text_of(place)
    return found


TOKEN = re.compile(r"""/\*.*?\*/|//[^\n]*|\s+|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|.)""", re.S)


def tokens(text):
    return [token for token in TOKEN.findall(text.replace("\\\n", "")) if token]


def shape(text):
    """The tokens, each name replaced by the number of its first appearance: renaming does not change it."""
    seen = {}
    return [str(seen.setdefault(token, len(seen))) if re.match(r"[A-Za-z_]", token) else token for token in tokens(text)]


def refuse(lab, name, text, ours):
    """Refuses what cannot be a student's own work in C. `ours` is our solution, its name and text; None: it may be like ours."""
    try:
        text = text.decode()
    except UnicodeDecodeError:
        raise Refused(f"{lab}/{name} is no text in UTF-8") from None
    if "\0" in text or "??" in text:
        raise Refused(f"{lab}/{name} has zero bytes or trigraphs: write plain C")
    words = tokens(text)
    for word in words:
        if re.fullmatch(r"_*asm_*|__has_include|__has_embed|_Pragma|__builtin_apply\w*", word):
            raise Refused(f"{lab}/{name} uses {word}: write plain C")
    for number, line in enumerate(text.replace("\\\n", "").splitlines(), 1):
        if re.match(r"\s*(#|%:)\s*(embed|include_next|import)\b", line) or re.search(r"\.incbin|##", line):
            raise Refused(f"{lab}/{name}:{number}: {line.strip()[:60]}: write plain C")
        if found := re.match(r"\s*(?:#|%:)\s*include\b(.*)", line):
            header = re.fullmatch(r'\s*(?:"([\w/]+\.h)"|<([\w/]+\.h)>)\s*(?:/\*.*|//.*)?', found[1])
            if not header:
                raise Refused(f"{lab}/{name}:{number}: only headers may be included, by their own names")
    if ours and shape(text) == shape(ours[1]):
        raise Refused(f"{lab}/{name} is {ours[0]} in other words at most: hand in your own work (if it is, tell your teacher)")
