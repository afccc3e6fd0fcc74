"""Who may ask, what every answer carries, and when the service refuses to start."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from miv.errors import MIVError
from miv.service import ServiceSettings
from tests.service.serving import ready_client, vector_exemplars, vectors_folder

TOKEN = "correct-horse-battery"
BODY = {"exemplars": vector_exemplars(1)}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = vectors_folder(tmp_path_factory.mktemp("models"))
    with ready_client(folder, token=TOKEN, allowed_hosts=("miv.example.org",)) as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield client


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong-horse-battery", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
def test_a_wrong_token_is_refused(client: TestClient, given: str) -> None:
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/verify"), ("GET", "/metrics"), ("GET", "/v1/none")):
        response = client.request(method, path, headers={"Authorization": given})
        assert response.status_code == 401, path
        assert response.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in response.text


def test_the_page_and_health_need_no_token(client: TestClient) -> None:
    for path in ("/", "/healthz", "/readyz", "/openapi.json"):
        assert client.get(path, headers={"Authorization": ""}).status_code == 200


def test_pages_of_other_sites_read_nothing(client: TestClient) -> None:
    for path, status in (("/v1/models", 403), ("/v1/galleries", 403), ("/", 200)):
        assert client.get(path, headers={"Sec-Fetch-Site": "cross-site"}).status_code == status
    assert client.get("/v1/models", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("miv.example.org", 200),
        ("evil.example.org", 400),
        ("localhost.evil.org", 400),
        ("localhost@evil.org", 400),
        ("localhost:80:80", 400),
        ("", 400),
    ],
)
def test_only_known_hosts_are_answered(client: TestClient, host: str, status: int) -> None:
    assert client.get("/v1/models", headers={"Host": host}).status_code == status


def test_a_service_on_all_addresses_answers_to_each_but_not_to_other_names(tmp_path: Path) -> None:
    hosts = {"192.0.2.2:8000": 200, "[2001:db8::1]:80": 200, "evil.example.org": 400, "192.0.2.2.evil.org": 400}
    with ready_client(vectors_folder(tmp_path), host="0.0.0.0", token=TOKEN) as client:
        assert {host: client.get("/", headers={"Host": host}).status_code for host in hosts} == hosts


def test_an_unknown_name_is_refused_with_the_option_that_allows_it(client: TestClient) -> None:
    refused = client.get("/", headers={"Host": "Miv.Other.org:8000"}).json()["error"]["message"]
    assert "Miv.Other.org:8000" in refused
    assert "--allowed-host miv.other.org" in refused


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://evil.example.org"}, 403),
        ({"Origin": "http://localhost:9999"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://localhost", "Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_pages_of_other_sites_may_not_send(client: TestClient, headers: dict[str, str], status: int) -> None:
    response = client.post("/v1/verify", json=BODY, headers=headers)
    assert response.status_code == status
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_every_answer_has_the_headers_of_a_careful_service(client: TestClient) -> None:
    for path in ("/", "/v1/models", "/v1/none", "/page/none.js"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers


@pytest.mark.parametrize("path", ["/page/../web_app.py", "/page/..%2fweb_app.py", "/page//etc/passwd", "/page/%00"])
def test_no_name_leads_out_of_the_page(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_other_addresses_need_a_token() -> None:
    with pytest.raises(MIVError, match="--token-file"):
        ServiceSettings(("miv/digits",), host="0.0.0.0")
    ServiceSettings(("miv/digits",), host="0.0.0.0", token=TOKEN)
    for token in ("", "short", "two lines, which no\nheader can carry", "é" * 20):
        with pytest.raises(MIVError, match=r"one line of at least 16 .*openssl rand -hex 24"):
            ServiceSettings(("miv/digits",), host="0.0.0.0", token=token)
