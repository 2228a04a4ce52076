#!/usr/bin/env bats
# The recording of a terminal that README begins with (make cast), and the player that draws it.

@test "the recording is small, plays without a script, and ends with the same bytes" {
    [ "$(wc -c <docs/cast.svg)" -le 300000 ]
    run python3 -c '
import xml.etree.ElementTree as tree
svg = tree.parse("docs/cast.svg").getroot()
text = lambda group: "\n".join("".join(line.itertext()) for line in group if line.tag.endswith("text"))
pictures = [text(g) for g in svg.iter("{http://www.w3.org/2000/svg}g") if "transform" in g.attrib]
assert not list(svg.iter("{http://www.w3.org/2000/svg}script"))
for words in ("--inject kill:1:21", "killed by SIGKILL", "resumes from killed/snapshot_e1_s16", "cmp quiet/"):
    assert any(words in picture for picture in pictures), words
print(pictures[-1].split("\n")[-1])'
    echo "$output"
    [ "$output" = "the same bytes" ]
}

@test "the player wraps, scrolls, erases and goes back to a line's start, as a terminal does" {
    run env PYTHONPATH=tools python3 -B -c '
import cast
screen = cast.Screen()
screen.write("x" * (cast.COLUMNS + 2) + "\r\nhalf\rwh\x1b[K\n\x1b[38;5;33mblue\x1b[0m.")
print([len(row) for row in screen.rows], screen.rows[-1][0], screen.rows[-1][-1])
screen.write("\n" * 30)
print(len(screen.picture()))
frames = cast.frames_of(b"Script started\nab\ncd", "0.5 2\n9 3\n")
print(len(frames), round(frames[-1][0], 2), frames[0][1])'
    echo "$output"
    [ "${lines[0]}" = "[98, 2, 2, 5] ('b', 33) ('.', None)" ]
    [ "${lines[1]}" = 21 ]
    [ "${lines[2]}" = "3 1.62 [[('a', None), ('b', None)]]" ]
}
