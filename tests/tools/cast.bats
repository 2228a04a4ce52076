#!/usr/bin/env bats
# The recording of a terminal that README begins with (make cast), and the player that draws it.

# Prints the last line of a recording's poster. Fails unless its first and last pictures are that, made of recorded rows.
poster_of() { # STORY (ROW, WORDS)...
    [ "$(wc -c <"docs/$1.svg")" -le 300000 ]
    python3 - "$@" <<'END'
import re, sys, xml.etree.ElementTree as tree
svg = tree.parse(f"docs/{sys.argv[1]}.svg").getroot()
rows = lambda group: ["".join(line.itertext()) for line in group if line.tag.endswith("text")]
pictures = [rows(g) for g in svg.iter("{http://www.w3.org/2000/svg}g") if "transform" in g.attrib]
assert not list(svg.iter("{http://www.w3.org/2000/svg}script"))
assert max(map(len, pictures)) <= 10 and max(len(row) for picture in pictures for row in picture) <= 60
style = next(svg.iter("{http://www.w3.org/2000/svg}style")).text
assert re.search(r"animation: play 12.0s .*play {\s*0.00%{transform:translateY\(0px\)}", style, re.S), style
poster = pictures[0]
assert poster == pictures[-1] and len(poster) == 10
for at, words in zip(sys.argv[2::2], sys.argv[3::2]):
    assert words in poster[int(at)], poster
recorded = {row for picture in pictures[1:-1] for row in picture}
assert recorded >= set(poster[:-2]), set(poster) - recorded
print(*poster, sep="\n")
END
}

@test "the recording is small, plays without a script, and begins and ends with its poster: equal losses, a kill, the same bytes" {
    run poster_of cast 1 "Test Epoch: 0 Loss: " 3 "--inject kill:1:21" 5 "killed by SIGKILL" 6 "resumes from killed/snapshot_e0_s16" \
        7 "done in " 8 "cmp {quiet,"
    echo "$output"
    [ "${lines[1]}" = "${lines[2]}" ]
    [ "${lines[9]}" = "the same bytes" ]
}

@test "a recording of a job in PyTorch, and of one that has a rank in C: the same losses" {
    run poster_of gloo 0 "run.sh 0 2" 3 "Test Epoch: 0 Loss: " 4 "run.sh 1 1" 8 "cmp <(sort python) <(sort mixed)"
    echo "$output"
    [ "$(printf '%s\n' "${lines[@]:1:3}")" = "$(printf '%s\n' "${lines[@]:5:3}")" ]
    [ "${lines[9]}" = "the same lines" ]
}

@test "the player wraps, scrolls, erases and goes back to a line's start, as a terminal does" {
    run env PYTHONPATH=tools python3 -B -c '
import cast
screen = cast.Screen()
screen.write("x" * (cast.COLUMNS + 2) + "\r\nhalf\rwh\x1b[K\n\x1b[38;5;33mblue\x1b[0m.")
print([len(row) for row in screen.rows], screen.rows[-1][0], screen.rows[-1][-1])
screen.write("\n" * 30)
print(len(screen.picture()))
frames, rows = cast.frames_of(b"Script started\nab\ncd", "0.5 2\n9 3\n", ())
print(len(frames), round(frames[-1][0], 2), frames[0][1], rows == frames[-1][1])
print([round(at, 2) for at, _ in cast.film(frames, [])])'
    echo "$output"
    [ "${lines[0]}" = "[60, 2, 2, 5] ('b', 33) ('.', None)" ]
    [ "${lines[1]}" = 10 ]
    [ "${lines[2]}" = "3 1.62 [[('a', None), ('b', None)]] True" ]
    [ "${lines[3]}" = "[0, 4.28, 9.83, 10.5]" ]
}
