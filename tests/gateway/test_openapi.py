"""The OpenAPI document has every path and field, and no request that it allows makes the gateway fail."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2

from services.gateway.app import make_app
from services.gateway.config import GatewayConfig
from services.gateway.gateway import Gateway
from services.gateway.openai.completions.request import CompletionRequest
from tests.gateway.harness.running_gateway import RunningGateway


async def test_every_path_is_in_the_openapi_document():
    app = make_app(Gateway(GatewayConfig(targets=("127.0.0.1:1",))), ())
    paths = {str(getattr(route, "path", "")) for route in app.routes}
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app), base_url="http://gateway", timeout=60
    ) as client:
        told = (await client.get("/openapi.json")).json()
    assert {path.replace("{name:path}", "{name}") for path in paths} == told["paths"].keys()
    fields = told["components"]["schemas"]["CompletionRequest"]["properties"]
    assert fields.keys() == CompletionRequest.model_fields.keys()
    references = [one.split('"')[0] for one in json.dumps(told).split('"#/components/schemas/')[1:]]
    assert {*references} <= told["components"]["schemas"].keys()


def test_no_value_of_a_field_makes_the_gateway_fail(chat_gateway: RunningGateway):
    """Each field in turn with values of every type: it is refused or answered."""
    told = httpx2.get(f"{chat_gateway.url}/openapi.json", timeout=60).json()["components"]["schemas"]
    values: list[Any] = [1 << 65, ["a"], {"a": 1}]
    needed = {"prompt": "a", "max_tokens": 1}
    asked = [(name, value) for name in told["CompletionRequest"]["properties"] for value in values]
    with httpx2.Client(base_url=chat_gateway.url, timeout=60) as client, ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda one: client.post("/v1/completions", json={**needed, one[0]: one[1]}), asked)
        for (name, value), answer in zip(asked, answers, strict=True):
            assert answer.status_code in (200, 400, 404, 409), (name, value, answer.text)
