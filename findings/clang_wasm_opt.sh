#!/bin/sh
# Tool:  clang 14.0.6 of Debian 12, linking for wasm32; binaryen 108
# Guess: an -O2 in the command that links changes nothing, since the objects are compiled.
# Seen:  where binaryen is installed, clang then runs wasm-opt over the module, without a word: the functions' names are
#        gone, and a later pass of wasm-opt that takes functions by their names finds none.
# > linked without -O2: has the name answer_to_all
# > linked with -O2: has not
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
clang --version 2>/dev/null | grep -q 'version 14\.0\.6' || cannot "no clang 14.0.6"
wasm-opt --version 2>/dev/null | grep -q 'version 108' || cannot "no binaryen 108"

cat >"$tmp/answer.c" <<'EOF'
__attribute__((noinline)) int answer_to_all(int x) { return x * x + 1; }
int _start(int x) { return answer_to_all(x) + answer_to_all(x + 1); }
EOF
clang --target=wasm32 -O2 -c -o "$tmp/answer.o" "$tmp/answer.c" || cannot "clang does not compile for wasm32"
# linked OPTION...: is the function's name in the module?
linked() {
    clang --target=wasm32 "$@" -nostdlib -o "$tmp/answer.wasm" "$tmp/answer.o" 2>"$tmp/errors" || cannot "no wasm-ld"
    if grep -q answer_to_all "$tmp/answer.wasm"; then echo "has the name answer_to_all"; else echo "has not"; fi
}
printf 'linked without -O2: %s\nlinked with -O2: %s\n' "$(linked)" "$(linked -O2)" | verdict
