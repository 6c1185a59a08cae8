"""Pages of other origins cannot make a gateway on this machine generate, unless they are allowed to."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.server import RunningTarget

PAGE = "https://a.example"
BODY = b'{"prompt": "a", "max_tokens": 1}'
OURS = ["localhost", "LOCALHOST:8000", "app.localhost:1", "127.0.0.1:8000", "[::1]:8000", "10.1.2.3", "localhost."]
OTHERS = ["a.example", "a.example:8000", "localhost.a.example", "127.0.0.1.a.example", "", "a b", "::1", "[::1", "[x]"]


@pytest.fixture(scope="module")
def named(demo: RunningTarget) -> Iterator[RunningGateway]:
    """A gateway with a name of its own, which a page may call."""
    with RunningGateway(demo.address, allowed_hosts=("llm.example",), cors_origins=(PAGE,)) as running:
        yield running


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/messages", "/tokenize"])
def test_content_types_that_any_page_may_send_are_refused(gateway: RunningGateway, path: str, content_type: str | None):
    headers = {} if content_type is None else {"content-type": content_type}
    answer = httpx2.post(f"{gateway.url}{path}", content=BODY, headers=headers, timeout=60)
    error = answer.json()["error"]
    assert (answer.status_code, error["message"]) == (
        415,
        f"Content-Type: is {content_type or ''!r}; allowed: application/json",
    )


def test_json_may_have_a_charset(gateway: RunningGateway):
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert httpx2.post(f"{gateway.url}/v1/completions", content=BODY, headers=headers, timeout=60).status_code == 200


@pytest.mark.parametrize("host", OURS)
def test_local_names_and_addresses_are_accepted_hosts(gateway: RunningGateway, host: str):
    assert httpx2.get(f"{gateway.url}/v1/models", headers={"host": host}, timeout=60).status_code == 200


@pytest.mark.parametrize("host", OTHERS)
def test_another_name_is_refused_whatever_is_asked(gateway: RunningGateway, host: str):
    """As of a page that has bound its name to this machine's address."""
    for path in ("/v1/completions", "/v1/nothing"):
        answer = httpx2.post(f"{gateway.url}{path}", content=BODY, headers={"host": host}, timeout=60)
        assert (answer.status_code, answer.json()["error"]["param"]) == (403, "Host")
        assert "--allowed-hosts" in answer.json()["error"]["message"]


def test_names_are_added_and_a_page_still_calls_by_them_only(named: RunningGateway):
    asked = {"content-type": "application/json", "origin": PAGE}
    for host, status in (("llm.example", 200), ("localhost", 200), ("other.example", 403)):
        answer = httpx2.post(f"{named.url}/v1/completions", content=BODY, headers={**asked, "host": host}, timeout=60)
        assert answer.status_code == status
        assert answer.headers.get("access-control-allow-origin") == (PAGE if status == 200 else None)


@pytest.mark.parametrize("settings", [{"allowed_hosts": ("*",)}, {"listen": "0.0.0.0:0", "insecure": True}])
def test_any_host_is_accepted_where_allowed_or_exposed(demo: RunningTarget, settings: dict[str, object]):
    with RunningGateway(demo.address, **settings) as gateway:
        assert httpx2.get(f"{gateway.url}/health", headers={"host": "a.example"}, timeout=60).status_code == 200
