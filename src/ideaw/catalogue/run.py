"""A job from its beginning, or from where it was left: refused before any work, or done to its end."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ideaw.catalogue.cache import check_cache
from ideaw.catalogue.dispatch import Dispatcher, Workers
from ideaw.catalogue.engines.local import LocalWorkers
from ideaw.catalogue.job import Job, Kind, check_same, read_job, require_job, write_job
from ideaw.catalogue.manifest import Manifest, freeze, list_source, read_manifest, with_messages
from ideaw.catalogue.marking import check_markable
from ideaw.catalogue.progress import JobProgress, Plan, show_progress
from ideaw.catalogue.settings import DEFAULT_SHARD_SIZE, HERE, Engine, MarkOptions, ScanOptions
from ideaw.catalogue.shards import count_errors, done_shards
from ideaw.catalogue.storage import Storage
from ideaw.catalogue.work import WorkerSpec, WorkOrder, versions_here
from ideaw.engine.network import Network, available_cores
from ideaw.errors import IdeawError
from ideaw.keys import Key
from ideaw.models import find_model


def run_job(
    source: str,
    out: str,
    options: ScanOptions | MarkOptions,
    *,
    keys: Sequence[Key],
    model: str | None = None,
    messages: str | None = None,
    engine: Engine = HERE,
    shard_size: int = DEFAULT_SHARD_SIZE,
    retry_errors: bool = False,
) -> JobProgress:
    """Do a job, or what is left of it.

    Args:
        source: what is searched or marked: see `list_source`; for a scan of a cache, the folder of the earlier scan.
        out: folder of the job, on a disk or in a bucket.
        options: how files are searched or marked.
        keys: whose marks are looked for; the one to mark with.
        model: name of a packaged model, or path of a model folder (None: the default).
        messages: the table of messages to mark with.
        engine: which processes do the work.
        shard_size: files in a part.
        retry_errors: do files again that were errors.

    Returns:
        What this run did.

    Raises:
        IdeawError: before any work, if something is wrong with what was given; later if parts cannot be written.
    """
    if engine.name == "local" and engine.address is not None:
        raise IdeawError(f"{engine.address} is an address of Ray; give --engine ray with it")
    folder, network = Storage(out), Network(find_model(model), threads=1)
    folder.check_kind()
    kind: Kind = "mark" if isinstance(options, MarkOptions) else "scan"
    fingerprints = tuple(key.fingerprint for key in keys)
    here = versions_here(network.weights_id)
    job = Job(
        *(kind, source, here.ideaw, here.schema, network.files.source, here.weights, fingerprints, options, messages)
    )
    known = read_job(folder)
    if known is not None:
        check_same(known, job, folder)
        if not (orders := list(_orders(folder, retry_errors))):
            return JobProgress(Plan(Manifest(folder).num_files, 0))
    spec = WorkerSpec(folder.url, job, tuple(key.hex() for key in keys))
    with _workers(spec, engine) as (workers, count):
        if known is None:
            _begin(job, folder, shard_size)
            orders = list(_orders(folder, retry_errors))
        manifest = Manifest(folder)
        plan = Plan(manifest.num_files, sum(manifest.shard_files(order.shard) for order in orders))
        with show_progress(JobProgress(plan)) as progress:
            Dispatcher(workers, count, here, progress.update).run(orders)
    folder.clear_work()
    return progress


def _begin(job: Job, folder: Storage, shard_size: int) -> None:
    """Freeze the manifest, and write the job behind it: where there is a job, its manifest is complete."""
    if done_shards(folder):
        raise IdeawError(f"{folder.url} holds parts and no job; give another folder")
    folder.check_writable()
    if isinstance(job.options, ScanOptions) and job.options.heard is not None:
        earlier = Storage(job.options.heard)
        check_cache(require_job(earlier), job, earlier)
        table, shard_size = read_manifest(earlier), Manifest(earlier).shard_files(0)
    else:
        table = list_source(job.source, folder.url)
    if isinstance(job.options, MarkOptions):
        table = with_messages(table, job.messages or "")
        check_markable(table, job.options.message_kind)
    freeze(table, folder, shard_size)
    write_job(job, folder)


def _orders(folder: Storage, retry_errors: bool) -> Iterator[WorkOrder]:
    """What is left to do."""
    done = done_shards(folder)
    for shard in range(Manifest(folder).num_shards):
        if shard not in done:
            yield WorkOrder(shard)
        elif retry_errors and count_errors(folder, shard):
            yield WorkOrder(shard, only_errors=True)


@contextmanager
def _workers(spec: WorkerSpec, engine: Engine) -> Iterator[tuple[Workers, int]]:
    """The workers of an engine, and how many there are to be."""
    if engine.name == "local":
        with LocalWorkers(spec) as local:
            yield local, engine.workers or available_cores()
        return
    from ideaw.catalogue.engines.on_ray import RayWorkers

    with RayWorkers(spec, engine.address, engine.workers) as actors:
        yield actors, actors.count
