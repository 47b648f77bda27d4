"""What the network heard in a file, small enough to keep: signs of the locating code's stream, from which any key's
marks can be located without listening again.

A matched filter adds up a tile's hops with one sign, so two hops together and one bit of them keep most of it: 3.5 MB
for an hour of audio. Hoeffding's bound holds for any values, so it holds for signs too.
"""

from collections.abc import Sequence

import pyarrow as pa

from ideaw.catalogue.job import Job
from ideaw.catalogue.manifest import Entry
from ideaw.catalogue.rows import Cost, Row
from ideaw.catalogue.settings import ScanOptions
from ideaw.catalogue.storage import Storage
from ideaw.engine.network import Network
from ideaw.engine.search import KeepEvidence
from ideaw.errors import IdeawError
from ideaw.keys import Key
from ideaw.results import Detection

HEARD_SCHEMA = pa.schema([])


class EvidenceRecorder:
    def begin(self, index: int) -> KeepEvidence: ...
    def rows(self, entries: list[Entry]) -> list[Row]: ...


class CacheSearcher:
    def __init__(self, folder: Storage, network: Network, keys: Sequence[Key], options: ScanOptions) -> None: ...
    def search(self, entry: Entry) -> tuple[Detection, Cost]: ...


def check_cache(earlier: Job, job: Job, folder: Storage) -> None:
    raise IdeawError("")
