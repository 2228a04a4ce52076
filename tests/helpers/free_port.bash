# free_port: one that nobody listens on, below those that connections are given (from 32768 up): between
# here and the moment a test uses it, no other test's connection gets it.
free_port() {
    local port
    while
        port=$(shuf -i 12000-30000 -n 1)
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
    do :; done
    echo "$port"
}
