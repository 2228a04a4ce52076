#!/bin/sh
# Usage: ./setup.sh [-y] [--check] [--minimal] [--checks] [--slurm] [--browser] [--play]   Installs what the project needs and is missing.
#   -y         does not ask first; nor does it where no terminal can answer
#   --check    only says what is missing; exit status 1 if the project cannot be built
#   --minimal  leaves out what only tests need, and what is optional
#   --checks   adds what the slower checks need: make check-fuzz
#   --slurm    adds Slurm, for a cluster of step 04 on this machine
#   --browser  adds Chromium and Firefox, for make check-browser
#   --play     adds what compiles the programs for a browser: make play
# Uses the distribution's package manager, with sudo where needed. CUDA is never installed.
set -eu
CDPATH='' cd "$(dirname "$0")"
. tools/parts.sh

self=$0${*:+ $*} kinds='required tests optional' more='' check=no ask=no
[ ! -t 0 ] || [ ! -t 1 ] || ask=yes
for option in "$@"; do
    case $option in
    -y) ask=no ;;
    --check) check=yes ;;
    --minimal) kinds=required ;;
    --checks | --slurm | --browser | --play) more="$more ${option#--}" ;;
    --help | -h) sed -n '2,/^set/ { /^set/d; s/^# //; p; }' "$0" && exit 0 ;;
    *) echo "$0: $option: it is -y, --check, --minimal, --checks, --slurm, --browser, --play or nothing" >&2 && exit 2 ;;
    esac
done

export DEBIAN_FRONTEND=noninteractive # apt-get shall ask nothing

say() {
    printf 'setup: '
    echo "$*" | wrap 7
}

# Names the parts of a kind that are missing; they are in $missing then, and their packages in $packages.
look_for() {
    packages='' missing=''
    while IFS='|' read -r kind name probe without names; do
        if [ "$kind" = "$1" ] && ! $probe >/dev/null; then
            missing="$missing${missing:+, }$name" by_hand=''
            case $names in 'by hand'*) by_hand="; to get it $names" names='' ;; esac
            say "$name is missing ($kind): without it, $without$by_hand"
            packages="$packages${names:+ $names}"
        fi
    done <<END
$parts
END
    [ -z "$missing" ]
}

# Gets those that are files (URL#SHA256), checked, and names them in $packages as they lie here.
fetch_files() {
    wanted=$packages packages=''
    for package in $wanted; do
        case $package in *#*)
            [ -n "${fetched:-}" ] || { fetched=$(mktemp -d) && trap 'rm -rf "$fetched"' EXIT && trap 'exit 130' HUP INT TERM; }
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

# May what is missing be installed? If nobody is asked, it may.
allowed() {
    if [ -z "$install" ]; then
        say 'no apt, dnf, yum, pacman, apk or zypper here: install it by hand'
        return 1
    fi
    names=$(echo "$all_packages" | tr ' ' '\n' | sed '/^$/d; s|.*/\(.*\)#.*|\1|' | sort -u | tr '\n' ' ')
    if [ "$(id -u)" -ne 0 ] && [ "${install#sudo }" = "$install" ]; then
        command="$install ${names% }"
        case $all_packages in *#*) command=$self ;; esac
        say "this takes root, and there is no sudo: let root run '$command'"
        return 1
    fi
    [ $ask = yes ] || return 0
    say "$install ${names% }"
    printf 'setup: go ahead? [Y/n; Y after 60 s] '
    # shellcheck disable=SC2016 # the inner shell's variable
    answer=$(timeout --foreground 60 sh -c 'read -r answer || exit 1; echo "$answer"') && status=0 || status=$?
    [ $status -eq 0 ] || echo
    case $status:$answer in 124: | 0: | 0:[Yy]*) status=0 && return ;; esac # 1 is Ctrl-D
    say "nothing is installed; missing: ${all_missing#, }. '$self --check' says what for, '$self -y' gets it"
    exit 1
}

# shellcheck disable=SC2086 # the manager's command and the packages are several words each
install_packages() {
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
parts=$(parts) status=0 incomplete='' all_missing='' all_packages=''
for kind_wanted in $kinds$more; do
    look_for "$kind_wanted" && continue
    incomplete="$incomplete $kind_wanted" all_missing="$all_missing, $missing" all_packages="$all_packages$packages"
done
if [ $check = no ] && [ -n "$all_packages" ] && allowed; then
    kinds=$incomplete incomplete=''
    for kind_wanted in $kinds; do
        look_for "$kind_wanted" >/dev/null && continue
        if [ -n "$packages" ] && install_packages; then
            look_for "$kind_wanted" && continue
            say 'it is installed, but where? It must be in PATH (module load mpi), and not too old'
        fi
        incomplete="$incomplete $kind_wanted"
    done
fi
case $incomplete in '') say 'everything is there; now type make' ;; *' required'*) status=1 ;; esac
exit $status
