"""runs one program for as long as whoever started us lives, however that ends"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading


def main(program: list[str]) -> int:
    """Run the program; end it with SIGTERM when standard input closes, which the death of our parent does."""
    child = subprocess.Popen(program, stdin=subprocess.DEVNULL)  # noqa: S603  what the demo gave us
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: child.terminate())

    def wait_for_parent() -> None:
        sys.stdin.buffer.read()
        child.terminate()

    threading.Thread(target=wait_for_parent, daemon=True).start()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
