"""The OpenAPI document is complete, and requests made from it never fail the service."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from miv.service import ServiceSettings, create_app
from tests.service.serving import served, vectors_folder

schemathesis = pytest.importorskip("schemathesis")


def test_every_address_documents_its_refusals_and_examples(tmp_path: Path) -> None:
    document = create_app(ServiceSettings((str(vectors_folder(tmp_path)),), token="a-token-of-some-length")).openapi()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert {"400", "401", "403"} <= set(operation["responses"]), where
            assert operation["security"] == ([] if path in ("/healthz", "/readyz") else [{"token": []}]), where
            if method in ("post", "put"):
                assert {"413", "415", "422", "503"} <= set(operation["responses"]), where
                assert operation["requestBody"]["content"]["application/json"]["example"], where
    assert "http" not in str(document["paths"])  # nothing is loaded from elsewhere


def _try_everything(address: str, cases: int) -> int:
    """Send generated requests, right ones and wrong ones, and check every answer against the document."""
    from schemathesis import checks
    from schemathesis.generation import GenerationMode

    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    operations = [one.ok() for one in schema.get_all_operations()]
    sent = 0
    wanted = [
        checks.not_a_server_error,
        checks.CHECKS.get_one("status_code_conformance"),
        checks.CHECKS.get_one("content_type_conformance"),
        checks.CHECKS.get_one("response_schema_conformance"),
    ]
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        for operation in operations:

            @settings(
                max_examples=-(-cases // 8),  # those without parameters are tried once
                deadline=None,
                database=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.explicit, Phase.generate],
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def tries(case: object) -> None:
                nonlocal sent
                sent += 1
                body = getattr(case, "body", None)
                # A random name would hide everything behind a 404.
                if mode is GenerationMode.POSITIVE and isinstance(body, dict) and "model" in body:  # noqa: B023
                    body["model"] = "vectors"
                response = case.call(timeout=60)  # type: ignore[attr-defined]
                case.validate_response(response, checks=wanted)  # type: ignore[attr-defined]

            with suppress(Unsatisfiable):  # a request without parameters cannot be wrong
                tries()
    return sent


@pytest.mark.slow
def test_five_thousand_requests_made_from_the_document(tmp_path: Path) -> None:
    cases = int(os.environ.get("MIV_CASES", "5000"))
    with served(
        str(vectors_folder(tmp_path, channels=1)),
        "miv/digits",
        galleries=tmp_path / "galleries",
    ) as address:
        sent = _try_everything(address, cases)
        print(f"{sent} requests")
        assert sent >= cases
