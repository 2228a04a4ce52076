# A launcher's messages about a failed job.

# cause [FILE]: the first failure, as a line: "rank 1 on node 0 (HOST): exit status 3: MESSAGE". A build without extras
# prints such a line itself; extras/watch prints a table.
cause() {
    awk '/^ddprun: rank [0-9]+ on node / { sub(/^ddprun: /, ""); print; exit }
        /^  node    : / { node = $3 " (" $4 "): " }
        /^  rank    : / { rank = "rank " $3 " on node " }
        /^  ended   : / { end = substr($0, 13) }
        /^  ended   : Signal / { end = "killed by " substr($5, 2, length($5) - 2) }
        /^  message : / { message = ": " substr($0, 13) }
        END { if (rank != "") print rank node end message }' "$@"
}

has_extras() {
    ! grep -qx EXTRAS=0 "${BUILD:-build}/parts"
}
