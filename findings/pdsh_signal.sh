#!/bin/sh
# Tool:  pdsh 2.34 of Debian 12 (pdsh -S -R exec)
# Guess: -S, the largest of the commands' statuses, is not 0 if a signal ends a node's command: 137, as by clush.
# Seen:  such a node counts as 0. So a training that ran out of memory on one node or on all ended well.
# > n1 exits with 3: pdsh 3, clush 3
# > SIGKILL ends n1: pdsh 0, clush 137
# > SIGKILL ends all: pdsh 0, clush 137
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
pdsh -V 2>/dev/null | grep -q '^pdsh-2\.34' || cannot "another pdsh, or none"
install ClusterShell==1.10.1

cat >"$tmp/train" <<'EOF'
#!/bin/sh
case $1 in
*"$2"*) eval "$3" ;;
esac
EOF
chmod +x "$tmp/train"
# both TEXT NODE COMMAND: the two launchers' statuses if NODE (n: all) runs COMMAND
both() {
    pdsh=0 clush=0
    pdsh -S -R exec -w 'n[0-1]' "$tmp/train" %h "$2" "$3" 2>"$tmp/errors" || pdsh=$?
    clush -S -R exec -w 'n[0-1]' "'$tmp/train' %h $2 '$3'" 2>>"$tmp/errors" || clush=$?
    echo "$1: pdsh $pdsh, clush $clush"
}
{
    both "n1 exits with 3" n1 "exit 3"
    # shellcheck disable=SC2016 # the command's own number
    both "SIGKILL ends n1" n1 'kill -KILL $$'
    # shellcheck disable=SC2016
    both "SIGKILL ends all" n 'kill -KILL $$'
} | verdict
