# Usage: awk -f tools/linked.awk -v program=P MAP     From the linker's map of a program: a rule for make that names the
# objects of libraries in it. From a map of another form: one that names the library.
match($0, /^[^ ]*\.a\([^)]*\.o\)/) {
    member = substr($0, 1, RLENGTH - 1)
    sub(/.*\(/, "", member)
    if (!seen[member]++) members = members " %/" member
}
END {
    print program ": " (members ? "$(filter" members ",$(IN_LIBRARIES))" : "$(BUILD)/libcommon.a")
}
