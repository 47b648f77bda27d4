"""`ideaw resolve`: C2PA's Soft Binding Resolution API on this machine."""

from ideaw.cli import console, options, serving
from ideaw.cli.extras import extra
from ideaw.service.settings import DEFAULT_HOST, Limits

DEFAULT_RESOLVER_PORT = 8018


def resolve(
    registry: options.RecordsUrl,
    host: serving.Host = DEFAULT_HOST,
    port: serving.Port = DEFAULT_RESOLVER_PORT,
    model: options.Model = None,
    key: options.KeyFile = None,
    token_file: serving.TokenFile = None,
    names: serving.Names = None,
    proxies: serving.Proxies = None,
    workers: serving.Workers = None,
    max_mb: serving.MaxMegabytes = serving.DEFAULT_MAX_MEGABYTES,
    max_seconds: serving.MaxSeconds = Limits.seconds,
    job_seconds: serving.JobSeconds = Limits.job_seconds,
    queue: serving.Queue = Limits.waiting,
    rate: serving.Rate = Limits.stranger_requests_per_minute,
) -> None:
    """Lead ids, fingerprints and audio to the manifests in a registry, over C2PA's API; `verify --service` asks it."""
    with extra("serve", "the resolution of marks"):
        from ideaw.service import server
        from ideaw.service.app import create_resolver
    limits = serving.limits_of(max_mb, max_seconds, job_seconds, queue, rate)
    settings = serving.settings_of(host, port, model, key, token_file, names, proxies, workers, limits, registry)
    server.run(settings, lambda address: console.say(f"{address} is ready; Ctrl-C stops it"), create_resolver)
