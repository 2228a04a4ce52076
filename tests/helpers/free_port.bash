# free_port: a port without a listener, below the ephemeral ports (from 32768 up), so that no other
# test's connection gets it before the test uses it.
free_port() {
    local port
    while
        port=$(shuf -i 12000-30000 -n 1)
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
    do :; done
    echo "$port"
}
