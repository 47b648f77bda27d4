"""What Prometheus is told: requests, jobs, the queue; nothing that says who asked or what was in the audio."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

JOB_SECONDS_BUCKETS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)


class Metrics:
    """The counters of one service."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "ideaw_requests", "Requests answered, by route and status", ["route", "status"], registry=registry
        )
        self.job_seconds = Histogram(
            "ideaw_job_seconds", "Time of a job in a worker", ["job"], buckets=JOB_SECONDS_BUCKETS, registry=registry
        )
        self.waiting = Gauge("ideaw_jobs_waiting", "Jobs that wait for a worker", registry=registry)
        self.busy = Gauge("ideaw_workers_busy", "Workers that are doing a job", registry=registry)
        self.uploads = Gauge("ideaw_uploads", "Requests whose bodies are arriving", registry=registry)
        self.killed = Counter(
            "ideaw_workers_replaced", "Workers replaced, by what ended them", ["reason"], registry=registry
        )

    def text(self) -> bytes:
        """All of them in Prometheus's text format."""
        return generate_latest(self._registry)
