#!/bin/sh
# Usage: teach/wrapped.sh COMMAND...    On a terminal, the command's long lines break at words, below the last column of text.
[ -t 1 ] || exec "$@"
exec 3>&1
size=$(stty size <&3 2>/dev/null) || :
width=${size##* }
[ "${width:-0}" -ge 40 ] || exec "$@"
status=$({ { "$@" 4>&- && echo 0 >&4 || echo $? >&4; } | while IFS= read -r line || [ -n "$line" ]; do
    head='' # up to the last two spaces of the line's first two thirds
    [ ${#line} -le "$width" ] || head=$(expr "$line" : "\(.\{0,$((width * 2 / 3))\}   *\)" || :)
    printf %s "$head"
    printf '%s\n' "${line#"$head"}" | fold -s -w $((width - ${#head})) | sed "s/ *\$//; 2,\$s/^/$(printf "%${#head}s")/"
done >&3; } 4>&1)
exit "$status"
