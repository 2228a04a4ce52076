#!/bin/sh
# Usage: ./setup.sh [--check | --minimal | --checks | --slurm | --browser]   Installs what the project needs and is missing.
#   --check    only says what is missing; exit status 1 if the project cannot be built
#   --minimal  leaves out what only tests need, and what is optional
#   --checks   adds what the slower checks need: make check-fuzz
#   --slurm    adds Slurm, for a cluster of step 04 on this machine
#   --browser  adds Chromium, for make check-browser
# Uses the distribution's package manager, with sudo where needed. CUDA is never installed.
set -eu
cd "$(dirname "$0")"
. tools/parts.sh

kinds='required tests optional'
check=no
case ${1:-} in
'') ;;
--check) check=yes ;;
--minimal) kinds=required ;;
--checks) kinds="$kinds checks" ;;
--slurm) kinds="$kinds slurm" ;;
--browser) kinds="$kinds browser" ;;
--help | -h) sed -n '2,/^set/ { /^set/d; s/^# //; p; }' "$0" && exit 0 ;;
*) echo "$0: $1: it is --check, --minimal, --checks, --slurm, --browser or nothing" >&2 && exit 2 ;;
esac

export DEBIAN_FRONTEND=noninteractive # apt-get shall ask nothing

say() {
    echo "setup: $*"
}

# Names the parts of a kind that are missing; their packages are in $packages then.
look_for() {
    packages='' missing=no
    while IFS='|' read -r kind name probe without names; do
        if [ "$kind" = "$1" ] && ! $probe >/dev/null; then
            missing=yes by_hand=''
            case $names in 'by hand'*) by_hand="; to get it $names" names='' ;; esac
            say "$name is missing ($kind): without it, $without$by_hand"
            packages="$packages${names:+ $names}"
        fi
    done <<END
$(parts)
END
    [ $missing = no ]
}

# Gets those that are files (URL#SHA256), checked, and names them in $packages as they lie here.
fetch_files() {
    wanted=$packages packages=''
    for package in $wanted; do
        case $package in *#*)
            [ -n "${fetched:-}" ] || { fetched=$(mktemp -d) && trap 'rm -rf "$fetched"' EXIT; }
            file=${package##*/} file=$fetched/${file%#*}
            # shellcheck disable=SC2031 # PATH is as it was
            env "PATH=$PATH:/usr/lib/apt" apt-helper download-file "${package%#*}" "$file" \
                "SHA256:${package#*#}" || return
            package=$file ;;
        esac
        packages="$packages $package"
    done
}

# Some distributions start the daemons of what they install. 04_slurm_multinode starts its own, so those
# that were not there before shall not run, nor start with the machine.
note_services() {
    new_services=''
    for service in munge slurmctld slurmd; do
        case " $packages " in *" $service "*) ;; *) continue ;; esac
        systemctl cat "$service" >/dev/null 2>&1 || new_services="$new_services $service"
    done
}

# shellcheck disable=SC2086 # several words
stop_services() {
    sudo=$(echo "$install" | grep -ow '^sudo') || sudo=''
    [ -z "$new_services" ] || $sudo systemctl disable --now $new_services >/dev/null 2>&1 || true
}

# shellcheck disable=SC2086 # the manager's command and the packages are several words each
install_packages() {
    if [ -z "$install" ]; then
        say 'no apt, dnf, yum, pacman, apk or zypper here: install it by hand'
        return 1
    elif [ "$(id -u)" -ne 0 ] && [ "${install#sudo }" = "$install" ]; then
        command=$install$packages
        case $packages in *#*) command=$0 ;; esac
        say "this takes root, and there is no sudo: let root run '$command'"
        return 1
    fi
    refresh=''
    case $install in *apt-get*) refresh="${install% install -y} update" ;; esac
    say "${refresh:+$refresh && }$install$packages"
    note_services
    if ! $refresh || ! fetch_files || ! $install $packages; then
        say 'that failed, for the reason above: is this machine online?'
        return 1
    fi
    stop_services
}

if musl; then
    say "this machine's C library is musl, which is not supported: build in the Debian of the Dockerfile"
    exit 1
fi
status=0 complete=yes
for kind_wanted in $kinds; do
    look_for "$kind_wanted" && continue
    if [ $check = no ] && [ -n "$packages" ] && install_packages; then
        look_for "$kind_wanted" && continue
        say 'it is installed, but where? It must be in PATH (module load mpi), and not too old'
    fi
    complete=no
    [ "$kind_wanted" != required ] || status=1
done
[ $complete = no ] || say 'everything is there; now type make'
exit $status
