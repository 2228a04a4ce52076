#!/bin/sh
# Tool:  qemu-user 7.2 of Debian 12 (1:7.2+dfsg-7+deb12u18+b3)
# Guess: prctl(PR_SET_CHILD_SUBREAPER), which Linux has had since 3.4, is passed on to the kernel.
# Seen:  a program under qemu-user gets EINVAL, so that a launcher cannot adopt its ranks' orphans there.
# > native: 0
# > under qemu-user 7.2: EINVAL
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
command -v cc >/dev/null || cannot "no cc"
command -v dpkg-deb >/dev/null || cannot "no dpkg-deb: the package is Debian's"
[ "$(uname -sm)" = "Linux x86_64" ] || cannot "the package is that of x86-64"

(cd "$tmp" && apt-get download -q 'qemu-user=1:7.2+dfsg-7+deb12u18+b3' >apt 2>&1) || cannot "apt-get has no such qemu-user"
dpkg-deb -x "$tmp"/qemu-user_*.deb "$tmp/qemu"
cat >"$tmp/subreaper.c" <<'EOF'
#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>

int main(void)
{
    int result = prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    puts(result == 0 ? "0" : errno == EINVAL ? "EINVAL" : "another error");
    return 0;
}
EOF
cc -static -o "$tmp/subreaper" "$tmp/subreaper.c" || cannot "cc has no static C library"
qemu=$tmp/qemu/usr/bin/qemu-x86_64
"$qemu" --version >"$tmp/version" 2>&1 || cannot "qemu-x86_64 does not start: $(head -n 1 "$tmp/version")"
printf 'native: %s\nunder qemu-user 7.2: %s\n' "$("$tmp/subreaper")" "$("$qemu" "$tmp/subreaper")" | verdict
