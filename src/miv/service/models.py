"""The models of the service: loaded and warmed up in the background, each with its own thread."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from miv.backbones.pairs import Judge
from miv.data.samples import read_samples
from miv.errors import MIVError, unknown_name
from miv.evaluation.runs import refuse_unfinished
from miv.files.instances import is_folder
from miv.files.json import card_about
from miv.files.weights import find_verifier
from miv.runtime import available_cores
from miv.service.batching import RequestBatcher, verify_batch
from miv.service.errors import RefusedRequest
from miv.service.metrics import ServiceMetrics
from miv.service.settings import ServiceSettings
from miv.verifier.network import Verifier
from miv.verifier.saving import shipped_folder, verifier_fingerprint


def served_names(models: Sequence[str]) -> list[str]:
    """The names of models in requests, never the path of a folder; one that is given twice or unknown is an error."""
    named: dict[str, str] = {}
    for model in models:
        if not is_folder(model):
            shipped_folder(model)  # raises for one that the package should have, but has not
        name = Path(model).resolve().name if Path(model).is_dir() else model
        if name in named:
            raise MIVError(f"Two models have the name {name}: {named[name]} and {model}. Leave out or rename one.")
        named[name] = model
    return list(named)


class LoadedModel:
    """A verifier under the name it is served by, with a thread of its own; ``folder`` has its card and samples."""

    def __init__(
        self, name: str, verifier: Verifier, settings: ServiceSettings, metrics: ServiceMetrics, folder: Path | None
    ) -> None:
        self.name, self.verifier = name, verifier
        self.about = None if folder is None else card_about(find_verifier(folder))
        self.samples = [] if folder is None else read_samples(folder)
        self.kind = verifier.backbone.kind
        self.can_check = self.kind == "text" and find_spec("sentencex") is not None
        threads = settings.threads or max(1, available_cores() // settings.workers)
        limits = settings.limits if settings.batching else replace(settings.limits, together=1)
        waits, taken = metrics.waiting.labels(name).set, metrics.batches.labels(name).observe
        batcher = RequestBatcher(partial(verify_batch, verifier), name, limits, threads, waits, taken)
        self.run, self.stop = batcher.run, batcher.stop

    @cached_property
    def fingerprint(self) -> str:
        """Equal for verifiers that give equal logits: those that can search the same gallery."""
        return verifier_fingerprint(self.verifier)


def _warm_up(verifier: Verifier) -> None:
    """Verify a tiny exemplar, so that the first request is as fast as the others."""
    form, backbone = verifier.instances, verifier.backbone
    if backbone.kind == "text":
        verifier.verify("a text", ["another text"])
    elif form is not None:
        verifier.verify(np.zeros(form.shape, np.uint8), [np.full(form.shape, 255, np.uint8)])
    elif backbone.is_identity:
        verifier.verify(np.zeros(backbone.channels, np.float32), np.ones((1, backbone.channels), np.float32))


def _only(names: Sequence[str]) -> str:
    """The one model that a request can mean that names none."""
    if len(names) != 1:
        raise RefusedRequest(422, f"model is missing. Expected one of {', '.join(names)}.")
    return names[0]


class ServedModels:
    """All models by name; requests are refused with 503 until they are loaded."""

    def __init__(self, settings: ServiceSettings, metrics: ServiceMetrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.names = served_names(settings.models)
        self._loaded: dict[str, LoadedModel] = {}
        self._failure: Exception | None = None
        self._loading: threading.Thread | None = None

    @property
    def are_ready(self) -> bool:
        return len(self._loaded) == len(self.names)

    def __iter__(self) -> Iterator[LoadedModel]:
        return iter([self.named(name) for name in self.names])

    def named(self, name: str | None) -> LoadedModel:
        """The model of a request; it may be left out if there is only one."""
        if name is None:
            name = _only(self.names)
        if name not in self.names:
            raise RefusedRequest(404, str(unknown_name("model", name, self.names)))
        if name not in self._loaded and self._failure is not None:
            raise RefusedRequest(503, f"The model {name} could not be loaded: {self._failure}")
        if name not in self._loaded:
            raise RefusedRequest(503, f"The model {name} is being loaded. Try again in a second.")
        return self._loaded[name]

    def checking(self, name: str | None) -> LoadedModel:
        """The model of a check; it may be left out if only one can check."""
        able = [model.name for model in self if model.can_check]
        if not able:
            raise RefusedRequest(422, "No model here can check answers. Serve one of texts, such as miv/judge.")
        judges = [model.name for model in self if model.can_check and isinstance(model.verifier.backbone, Judge)]
        model = self.named(_only(judges or able) if name is None else name)
        if not model.can_check:
            raise RefusedRequest(422, f"The model {name} cannot check answers. Expected one of {', '.join(able)}.")
        return model

    def load(self) -> None:
        for name, model in zip(self.names, self.settings.models, strict=True):
            refuse_unfinished(Path(model))
            verifier = Verifier.from_pretrained(model)
            _warm_up(verifier)
            folder = Path(model) if is_folder(model) else shipped_folder(model)
            self._loaded[name] = LoadedModel(name, verifier, self.settings, self.metrics, folder)
            self.metrics.ready.set(len(self._loaded))

    def load_in_background(self, failed: Callable[[Exception], None], ready: Callable[[float], None]) -> None:
        """Load all models in a thread; requests are refused with the error if that fails. See ``create_app``."""

        def load() -> None:
            start = time.perf_counter()
            try:
                self.load()
            except Exception as error:
                self._failure = error
                failed(error)
            else:
                ready(time.perf_counter() - start)

        self._loading = threading.Thread(target=load, name="loading", daemon=True)
        self._loading.start()

    def stop(self) -> None:
        """End the threads of the models, after the work that waits."""
        if self._loading is not None:
            self._loading.join()  # a process that ends while torch loads weights crashes
        for model in self._loaded.values():
            model.stop()
