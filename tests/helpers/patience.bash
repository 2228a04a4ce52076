# patience SECONDS: so many on an idle machine, and the more of them, the busier it is. For timeouts that are due, so that
# a test waits for them: processes that have to start first must have done so by then.
patience() {
    awk -v seconds="$1" '{ split($4, running, "/"); load = $1 > running[1] ? $1 : running[1]; print int(seconds * (1 + load / 6)) }' /proc/loadavg
}
