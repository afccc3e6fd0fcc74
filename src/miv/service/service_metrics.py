"""Metrics for Prometheus. With several workers, each writes to files of a shared folder, and any of them can answer."""

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess
from prometheus_client.process_collector import ProcessCollector

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServiceMetrics:
    """The counters of one app."""

    def __init__(self) -> None:
        self._is_shared = bool(os.environ.get(SHARED_FOLDER))
        self._registry = registry = CollectorRegistry()
        if not self._is_shared:
            ProcessCollector(registry=registry)
        self.requests = Counter("miv_requests", "Answered requests.", ("method", "route", "status"), registry=registry)
        self.seconds = Histogram(
            "miv_request_seconds", "Time per request.", ("route",), registry=registry, buckets=_SECONDS
        )
        self.received = Counter("miv_received_bytes", "Bytes of requests.", ("route",), registry=registry)
        self.exemplars = Counter("miv_exemplars", "Verified exemplars.", ("model",), registry=registry)
        self.batches = Histogram(
            "miv_batch_requests",
            "Requests verified together.",
            ("model",),
            registry=registry,
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
        )
        self.waiting = Gauge(
            "miv_waiting_requests",
            "Requests that wait for a model.",
            ("model",),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.ready = Gauge("miv_models_ready", "Loaded models.", registry=registry, multiprocess_mode="livemin")

    def text(self) -> bytes:
        """All metrics in Prometheus' text format, summed over the workers."""
        if not self._is_shared:
            return generate_latest(self._registry)
        summed = CollectorRegistry()
        multiprocess.MultiProcessCollector(summed)
        return generate_latest(summed)
