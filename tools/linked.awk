# Usage: awk -f tools/linked.awk -v program=P MAP     Prints a make rule from the linker's map of a program: it names the
# objects of libraries that are linked in. If the map has another format, it names the library.
match($0, /^[^ ]*\.a\([^)]*\.o\)/) {
    member = substr($0, 1, RLENGTH - 1)
    sub(/.*\(/, "", member)
    if (!seen[member]++) members = members " %/" member
}
END {
    print program ": " (members ? "$(filter" members ",$(IN_LIBRARIES))" : "$(BUILD)/libcommon.a")
}
