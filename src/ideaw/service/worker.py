"""A process that does one job after the other, from stdin to stdout: `python -m ideaw.service.worker [MODEL]`.

It is a process of its own so that a job that takes too long, or a file that brings a decoder down, ends this and
nothing else. It ends by itself when the service does: its standard input is closed then, in whatever way that ended.
"""

import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import BinaryIO

import msgspec

from ideaw.service.jobs import Engine, Job, Outcome

ADDRESS_SPACE_BYTES = 4 << 30
"""What a worker may map: far more than any accepted request needs, and less than would hurt the machine."""

READY = b"ready\n"
"""Said once the model is loaded."""


def main() -> None:
    """Do jobs until standard input ends."""
    outcomes = _claim_stdout()
    _confine()
    engine = Engine(sys.argv[1] if len(sys.argv) > 1 else None)
    outcomes.write(READY)
    jobs: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    decode = msgspec.json.Decoder(Job).decode
    while True:
        outcome: Outcome = engine.do(decode(jobs.get()))
        outcomes.write(msgspec.json.encode(outcome) + b"\n")


def _claim_stdout() -> BinaryIO:
    """Standard output for outcomes alone: decoders that print send it to stderr from here on."""
    outcomes = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return outcomes


def _confine() -> None:
    """Leave it to the service when to stop, and bound the memory."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _listen(jobs: "SimpleQueue[bytes]") -> None:
    """Pass on what is asked; end the process at once, in the middle of a job too, when nobody asks any more."""
    for line in sys.stdin.buffer:
        jobs.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
