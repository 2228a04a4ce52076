#!/usr/bin/env python3
"""Usage: on_terminal.py COLUMNS COMMAND...      Runs a command in a terminal of this many columns, and prints what it shows.

Types what $TYPE has, if anything. Ends with the command's status. Carriage returns stay; the terminal's own "\\r\\n" become "\\n".
"""
import fcntl
import os
import pty
import signal
import struct
import sys
import termios


def main():
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python has changed that
        os.environ["TERM"] = "xterm-256color"
        os.execvp(sys.argv[2], sys.argv[2:])
    os.write(terminal, os.environ.get("TYPE", "").encode())
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        shown += piece
    sys.stdout.buffer.write(shown.replace(b"\r\n", b"\n"))
    sys.stdout.flush()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
