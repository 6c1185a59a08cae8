"""Everything that the clients offer beside streams."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

import outrider
from tests.harness.servers.client_drivers import PROMPT, WHOLE
from tests.harness.servers.scripted_server import EOS, Fault, ScriptedServer, text_of

Calls = outrider.Client | outrider.AsyncClient


async def _value(value: object) -> object:
    return await value if isinstance(value, Awaitable) else value


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Callable[..., Calls]:
    return outrider.Client if request.param == "sync" else outrider.AsyncClient


async def test_generate(connect: Callable[..., Calls]) -> None:
    with ScriptedServer(Fault(at=4)) as server:
        client = connect(server.address)
        result = await _value(client.generate(PROMPT, max_tokens=20))
        await _value(client.close())
    assert list(result.token_ids) == WHOLE[:20]
    assert result.text == text_of(WHOLE[:20], is_whole=True)
    assert (result.finish_reason, result.resumed) == (outrider.FinishReason.MAX_TOKENS, 1)


async def test_tokenize_and_detokenize(connect: Callable[..., Calls]) -> None:
    with ScriptedServer() as server:
        client = connect(server.address)
        encoding = await _value(client.tokenize("é!"))
        chat = await _value(client.tokenize([outrider.Message("user", "a"), {"role": "user", "content": "b"}]))
        decoding = await _value(client.detokenize(encoding.token_ids[:1]))
        await _value(client.close())
    assert encoding == outrider.Encoding((0xC3, 0xA9, 0x21), (b"\xc3", b"\xa9", b"!"))
    assert chat.token_ids == (97, 98)
    assert decoding == outrider.Decoding("\ufffd", b"\xc3")


async def test_scores_come_from_another_server_where_one_is_lost(connect: Callable[..., Calls]) -> None:
    with ScriptedServer(Fault("arrival")) as one, ScriptedServer() as two:
        client = connect(one.address, two.address, max_backoff=0.05)
        answer = await _value(client.score(PROMPT, ["b", "aa", "a"], priority=2))
        await _value(client.close())
    assert answer.scores[0] == outrider.TextScore(-98.0, (98,), (-98.0,), (99,))
    assert (answer.best, answer.model, answer.fingerprint) == (2, "toy", "f1")


async def test_bad_choices_to_score_are_refused_before_sending(connect: Callable[..., Calls]) -> None:
    client = connect("localhost:1")
    for choices, options, said in (
        ("text", {}, "the choices are texts or lists of token ids"),
        ([3], {}, "token_ids.ids"),
        (["a"], {"temperature": 1.0}, "unknown option 'temperature'; the options are add_special_tokens"),
    ):
        with pytest.raises(TypeError, match=said):
            await _value(client.score(PROMPT, choices, **options))
    with pytest.raises(outrider.InvalidArgument, match=r"token_ids\.ids"):
        await _value(client.score(PROMPT, [[-1]]))
    await _value(client.close())


async def test_vectors_come_from_another_server_where_one_is_lost(connect: Callable[..., Calls]) -> None:
    with ScriptedServer(Fault("arrival")) as one, ScriptedServer() as two:
        client = connect(one.address, two.address, max_backoff=0.05)
        answer = await _value(client.embed(["b", "ab"], pooling="mean", dimensions=2, priority=2))
        await _value(client.close())
    assert answer.embeddings == (outrider.Embedding((98.0,), 1, 0), outrider.Embedding((97.0, 98.0), 2, 0))
    assert (answer.prompt_tokens, answer.model, answer.fingerprint) == (3, "toy", "f1")


async def test_bad_inputs_to_embed_are_refused_before_sending(connect: Callable[..., Calls]) -> None:
    client = connect("localhost:1")
    for inputs, options, error, said in (
        ("text", {}, TypeError, "the inputs are texts or lists of token ids"),
        (["a"], {"temperature": 1.0}, TypeError, "unknown option 'temperature'; the options are add_special_tokens"),
        ([[-1]], {}, outrider.InvalidArgument, r"token_ids\.ids"),
        (["a"], {"pooling": "max"}, outrider.InvalidArgument, "'max' is none of last, mean, cls"),
    ):
        with pytest.raises(error, match=said):
            await _value(client.embed(inputs, **options))
    await _value(client.close())


async def test_model_info(connect: Callable[..., Calls]) -> None:
    with ScriptedServer() as server:
        client = connect(server.address)
        info = await _value(client.model_info())
        await _value(client.close())
    assert (info.name, info.vocab_size, info.eos_token_ids, info.fingerprint) == ("toy", 257, (EOS,), "f1")
    assert (info.fingerprint_parts.noise_version, info.limits.max_stop_strings) == (3, 4)
    assert not info.has_chat_template


async def test_calls_are_tried_again_and_elsewhere(connect: Callable[..., Calls]) -> None:
    with ScriptedServer(Fault("arrival")) as one, ScriptedServer(Fault("arrival")) as two:
        client = connect(one.address, two.address, max_backoff=0.05)
        assert (await _value(client.tokenize("a"))).token_ids == (97,)
        await _value(client.close())


async def test_calls_give_up(connect: Callable[..., Calls]) -> None:
    with ScriptedServer() as server:
        server.stop()
        client = connect(server.address, max_retries=1, max_backoff=0.05)
        with pytest.raises(outrider.Unavailable):
            await _value(client.model_info())
        with pytest.raises(outrider.DeadlineExceeded):
            await _value(client.model_info(timeout=0))
        await _value(client.close())


async def test_other_errors_are_raised_at_once(connect: Callable[..., Calls]) -> None:
    with ScriptedServer(Fault("arrival", grpc.StatusCode.UNAUTHENTICATED, "who are you")) as server:
        client = connect(server.address)
        with pytest.raises(outrider.OutriderError, match="who are you") as caught:
            await _value(client.tokenize("a"))
        await _value(client.close())
    assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("addresses", "options", "error", "message"),
    [
        ((), {}, ValueError, "at least one address"),
        ((["a:1", "b:2"],), {}, TypeError, "an address is text"),
        (("a:1",), {"max_retries": -1}, ValueError, "max_retries must be at least 0, not -1"),
        (("a:1",), {"max_backoff": float("nan")}, ValueError, "max_backoff must be at least 0, not nan"),
    ],
)
async def test_bad_settings(
    connect: Callable[..., Calls], addresses: tuple, options: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        connect(*addresses, **options)


def test_threads_share_a_client() -> None:
    with (
        ScriptedServer(*[Fault(at=n) for n in range(8)]) as server,
        outrider.Client(server.address) as client,
        ThreadPoolExecutor(4) as threads,
    ):
        results = list(threads.map(lambda _: client.generate(PROMPT), range(16)))
    assert {result.token_ids for result in results} == {tuple(WHOLE)}
    assert sum(result.resumed for result in results) == 8


async def test_models_are_listed(connect: Callable[..., Calls]) -> None:
    with ScriptedServer() as server:
        client = connect(server.address)
        info, (toy, large) = await _value(client.model_info()), await _value(client.list_models())
        await _value(client.close())
    assert toy == outrider.ServedModel("toy", outrider.ModelState.READY, info)
    assert large == outrider.ServedModel("large", outrider.ModelState.LOADING, None)
