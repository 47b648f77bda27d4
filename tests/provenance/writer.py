"""A process that allots and records in several threads, and says of each id when it is done."""

import os
import sys
import threading

from ideaw import Registry
from tests.provenance.conftest import record_of


def say(*words: object) -> None:
    """One line, in one piece, at once."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def write(url: str, count: int) -> None:
    """Allot ids as a writer of its own, and record every other one."""
    with Registry(url) as registry:
        for place in range(count):
            number = registry.allot()
            say("allotted", number)
            if place % 2:
                registry.record(record_of(number))
                say("recorded", number)


if __name__ == "__main__":
    threads = [threading.Thread(target=write, args=(sys.argv[1], int(sys.argv[3]))) for _ in range(int(sys.argv[2]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
