# scaled_timeout SECONDS: prints this number on an idle machine, and a larger one on a busy machine. For timeouts that a test
# waits for: the processes that it starts must be running by then.
scaled_timeout() {
    awk -v seconds="$1" '{ split($4, running, "/"); load = $1 > running[1] ? $1 : running[1]; print int(seconds * (1 + load / 6)) }' /proc/loadavg
}
