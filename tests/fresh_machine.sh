#!/bin/sh
# Usage: [MIRROR=http://...] tests/fresh_machine.sh SUITE DIR LOG      (root) A bare Debian or Ubuntu in DIR; SUITE "" is this
# machine's own release. Its packages come from the mirror that apt's own sources name.
set -eu
refuse() {
    echo "tests/fresh_machine.sh: $*" >&2
    exit 1
}

[ "$(id -u)" -eq 0 ] || refuse 'only root can make a machine'
command -v debootstrap >/dev/null || refuse 'needs debootstrap: apt-get install debootstrap'
# shellcheck source=/dev/null
suite=${1:-$(. /etc/os-release && echo "${VERSION_CODENAME:-}")}
# shellcheck disable=SC2016 # apt's variables, not ours
mirror=${MIRROR:-$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' | awk -v suite="$suite" '
    $1 == suite && !found { print $2; found = 1 }')}
[ -n "$mirror" ] || refuse "found no mirror of \"$suite\" among apt's sources: name one, MIRROR=http://..."
script=''
[ -e "/usr/share/debootstrap/scripts/$suite" ] || script=gutsy # all Ubuntus since are made as that one
# Of these parts of its archive Debian has the first only, and Ubuntu has both as it comes.
# shellcheck disable=SC2086 # $script may be no word at all
debootstrap --variant=minbase --components=main,universe "$suite" "$2" "$mirror" $script >"$3" 2>&1 ||
    refuse "debootstrap failed: $(tail -n 1 "$3")"
