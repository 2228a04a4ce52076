"""What is handed in: the files of the labs, from a folder or a zip, and what is refused before anything is compiled."""
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


def from_folder(top, lab, name):
    """The bytes of top/[lab/]LAB/NAME; None: it is not there. No link is followed on the way."""
    for parts in ((lab, name), ("lab", lab, name)):
        descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                following = os.open(part, flags, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = following
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise Refused(f"{'/'.join(parts)} is no regular file: hand in the file itself")
            if found.st_size > MOST_SOURCE:
                raise Refused(f"{'/'.join(parts)} has {found.st_size} bytes, and {MOST_SOURCE} are allowed")
            return os.read(descriptor, MOST_SOURCE + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Refused(f"{'/'.join(parts)}: {os.strerror(error.errno)}: hand in the file itself, not a link") from None
        finally:
            os.close(descriptor)
    return None


def from_zip(archive, lab, name):
    """The bytes of the entry [.../]LAB/NAME; None: there is none. Nothing is unpacked."""
    entries = [entry for entry in archive.infolist() if re.fullmatch(rf"(?:[^/]+/){{0,3}}{re.escape(lab)}/{re.escape(name)}", entry.filename)
               and not entry.filename.startswith("__MACOSX/")]
    if not entries:
        return None
    if len(entries) > 1:
        raise Refused(f"the zip has {lab}/{name} {len(entries)} times: hand in one")
    kind = entries[0].external_attr >> 16
    if kind and not stat.S_ISREG(kind) and stat.S_IFMT(kind):
        raise Refused(f"{entries[0].filename} is no regular file: hand in the file itself, not a link")
    if entries[0].flag_bits & 1:
        raise Refused(f"{entries[0].filename} is encrypted")
    with archive.open(entries[0]) as file:  # the entry's own word about its size is not believed
        text = file.read(MOST_SOURCE + 1)
    if len(text) > MOST_SOURCE:
        raise Refused(f"{entries[0].filename} has more than the {MOST_SOURCE} bytes that are allowed")
    return text


def read(path, labs):
    """{lab: {name: bytes}} of those labs of which there is a file."""
    if not os.path.isdir(path):
        try:
            archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError) as error:
            raise Refused(f"{path} is neither a folder nor a zip: {error}") from None
        if len(archive.infolist()) > MOST_ENTRIES:
            raise Refused(f"the zip has {len(archive.infolist())} entries: hand in your folder lab/ alone")
        try:
            found = {lab: {name: from_zip(archive, lab, name) for name in files_of(lab)} for lab in labs}
        except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError) as error:
            raise Refused(f"the zip is damaged: {error}") from None
    else:
        found = {lab: {name: from_folder(path, lab, name) for name in files_of(lab)} for lab in labs}
    found = {lab: {name: text for name, text in files.items() if text is not None} for lab, files in found.items()}
    return {lab: files for lab, files in found.items() if files}


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
