# until_true SECONDS COMMAND...: fails if COMMAND does not succeed by then. (Only a failing test reaches this limit; on a busy
# machine everything takes many times as long.)
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -le "$end" ] || return 1
        sleep 0.05
    done
}
