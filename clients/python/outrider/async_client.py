"""AsyncClient: talks to Outrider from asyncio."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import grpc
import grpc.aio
from google.protobuf.message import Message

from outrider.async_stream import AsyncStream
from outrider.chat.encode import Conversation
from outrider.chat.options import ChatOptions
from outrider.embedding import Embeddings, EmbedOptions, TextToEmbed, build_embed_request, parse_embeddings
from outrider.errors import InvalidArgument, NotFound, as_error
from outrider.generate_options import GenerateOptions
from outrider.generation import Generation
from outrider.proof import Proof
from outrider.request import (
    Prompt,
    build_detokenize_request,
    build_stream_request,
    build_tokenize_request,
)
from outrider.response import parse_decoding, parse_encoding, parse_model_info
from outrider.samples import new_generation
from outrider.scoring import ScoreOptions, Scores, TextToScore, build_score_request, parse_scores
from outrider.served_model import ServedModel, parse_models
from outrider.servers.channel import ChannelOption, channel_options, token_metadata
from outrider.servers.pool import Pool, Server, prefix_metadata
from outrider.servers.retry import RetryPolicy
from outrider.session import Session, SessionOptions, build_session_request, parse_session, parse_sessions
from outrider.types import Decoding, Encoding, ModelInfo, Result
from outrider.v1.generation_pb2 import (
    DeleteSessionRequest,
    GetModelInfoRequest,
    GetSessionRequest,
    ListModelsRequest,
    ListSessionsRequest,
)
from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from outrider.verification import Verdict, Verification

if TYPE_CHECKING:
    from outrider.v1.generation_pb2_grpc import GenerationServiceAsyncStub

Answer = TypeVar("Answer")


class AsyncClient:
    """A connection to one or several servers that hold the same models, for the event loop that it is made in.

    Every call raises OutriderError or one of its subclasses. `timeout` is in seconds, for all attempts together.
    """

    def __init__(
        self,
        *addresses: str,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | None = None,
        max_retries: int = 10,
        max_backoff: float = 5.0,
        max_lost_retries: int = 1,
        connect_timeout: float | None = None,
        channel_arguments: Sequence[ChannelOption] = (),
        route_by_prefix: bool = False,
        hedge_after: float | None = None,
    ) -> None:
        """Connect to addresses such as "localhost:50051", the first one first; in the clear without credentials. A
        `token` shows who calls; raises ValueError where it would leave this machine in the clear.

        A call that reaches no server is tried again, and a stream resumed, until every address has failed `max_retries`
        more times in a row without a token arriving. The pauses grow to `max_backoff` seconds. A call may be what its
        server died of: one whose connection breaks before anything has arrived is tried `max_lost_retries` more times,
        on the next server, and then raises ServerLost. A full server is asked again when it says, after the others. A
        call that could connect to no server for `connect_timeout` seconds, which also bound each attempt to connect,
        raises Unavailable; a stream that has begun is still resumed. None stands for 3 seconds while the client has not
        reached any server yet, and its addresses may be wrong (an attempt to connect to a silent one takes 20 seconds);
        then there is no limit, as a server may be restarting. `math.inf` waits for servers that start later too.

        With `route_by_prefix` each stream carries a hash of its prompt's beginning, by which proxies choose a server.
        A stream without further tokens for `hedge_after` seconds, before the first one too, is also asked of the next
        address: since both give the same bytes, it continues with the one that is ahead, and the other is cancelled.
        """
        if hedge_after is not None and not hedge_after > 0:
            raise ValueError(f"hedge_after must be above 0 seconds, not {hedge_after}")
        self._hedge_after = hedge_after
        self._channels: list[grpc.aio.Channel] = []
        is_encrypted = credentials is not None
        options = channel_options(channel_arguments, is_encrypted=is_encrypted, connect_timeout=connect_timeout)
        metadata = token_metadata(token, addresses, is_encrypted=is_encrypted)

        def connect(address: str) -> "Server[GenerationServiceAsyncStub]":
            if credentials is None:
                channel = grpc.aio.insecure_channel(address, options)
            else:
                channel = grpc.aio.secure_channel(address, credentials, options)
            self._channels.append(channel)
            return Server(GenerationServiceStub(channel), metadata)

        self._routes_by_prefix = route_by_prefix
        policy = RetryPolicy(max_retries, max_backoff, max_lost_retries, connect_timeout)
        self._pool = Pool(addresses, connect, policy)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; streams still open raise Cancelled."""
        self._pool.close()
        for channel in self._channels:
            await channel.close()

    def stream(
        self,
        prompt: Prompt,
        *,
        timeout: float | None = None,
        traceparent: str | None = None,
        **options: Unpack[GenerateOptions],
    ) -> AsyncStream:
        """Continue a prompt, chunk by chunk; the time runs from here. It is a part of that trace, by default of the
        program's own if it has one.

        Raises TypeError and InvalidArgument at once for what cannot even be sent.
        """
        request = build_stream_request(prompt, options)
        if self._hedge_after is not None and not request.sampling.HasField("seed"):
            request.sampling.seed = secrets.randbits(64)  # both servers need the same one
        metadata = prefix_metadata(request) if self._routes_by_prefix else ()
        generation = new_generation(request, self._pool.attempts(timeout))
        return AsyncStream(self._pool, generation, metadata, traceparent, self._hedge_after)

    async def generate(
        self, prompt: Prompt, *, timeout: float | None = None, **options: Unpack[GenerateOptions]
    ) -> Result:
        """Continue a prompt and return the whole. It is streamed underneath, so that nothing is lost with a server."""
        async with self.stream(prompt, timeout=timeout, **options) as stream:
            async for _ in stream:
                pass
            return stream.result

    async def verify(self, proof: Proof, *, timeout: float | None = None) -> Verdict:
        """Return whether an answer (`Result.proof`) is what the model gives; raises FingerprintMismatch if no server
        has its fingerprint, DeadlineExceeded if time runs out before the verdict, and ValueError if the proof lacks
        something.
        """
        verification = Verification(proof)
        async with AsyncStream(self._pool, Generation(verification.request, self._pool.attempts(timeout))) as stream:
            try:
                async with aclosing(stream.__aiter__()) as chunks:
                    async for chunk in chunks:
                        if (verdict := verification.take(chunk, stream.started)) is not None:
                            return verdict
            except InvalidArgument as error:
                return verification.refused(error)
            return verification.end(stream.result)

    async def score(
        self,
        prompt: Prompt,
        choices: Sequence[TextToScore],
        *,
        timeout: float | None = None,
        **options: Unpack[ScoreOptions],
    ) -> Scores:
        """Return the log-probability of each choice after a prompt; raises like `stream` for an invalid request."""
        request = build_score_request(prompt, choices, options)
        return parse_scores(await self._call(lambda stub: stub.Score, request, timeout))

    async def embed(
        self, inputs: Sequence[TextToEmbed], *, timeout: float | None = None, **options: Unpack[EmbedOptions]
    ) -> Embeddings:
        """Make a vector of each text; raises as `stream` for what cannot even be sent."""
        request = build_embed_request(inputs, options)
        return parse_embeddings(await self._call(lambda stub: stub.Embed, request, timeout))

    async def create_session(
        self, prompt: Prompt, *, timeout: float | None = None, **options: Unpack[SessionOptions]
    ) -> Session:
        """Have a server hold the beginning of prompts; raises as `stream` for what cannot even be sent."""
        request = build_session_request(prompt, options)
        return parse_session((await self._call(lambda stub: stub.CreateSession, request, timeout)).session)

    @asynccontextmanager
    async def session(
        self, prompt: Prompt, *, timeout: float | None = None, **options: Unpack[SessionOptions]
    ) -> AsyncIterator[Session]:
        """As `create_session`, for as long as the block runs."""
        session = await self.create_session(prompt, timeout=timeout, **options)
        try:
            yield session
        finally:
            with suppress(NotFound):  # its time may be over
                await self.delete_session(session.name, model=session.model, timeout=timeout)

    async def get_session(self, name: str, *, model: str | None = None, timeout: float | None = None) -> Session:
        """Tell of a session, with its tokens; raises NotFound."""
        request = GetSessionRequest(name=name, model=model, token_ids=True)
        return parse_session((await self._call(lambda stub: stub.GetSession, request, timeout)).session)

    async def list_sessions(self, *, model: str | None = None, timeout: float | None = None) -> tuple[Session, ...]:
        """The caller's sessions, the oldest first, without their tokens."""
        request = ListSessionsRequest(model=model)
        return parse_sessions(await self._call(lambda stub: stub.ListSessions, request, timeout))

    async def delete_session(self, name: str, *, model: str | None = None, timeout: float | None = None) -> None:
        """End a session; raises NotFound."""
        await self._call(lambda stub: stub.DeleteSession, DeleteSessionRequest(name=name, model=model), timeout)

    async def tokenize(
        self,
        text: str | Conversation,
        *,
        add_special_tokens: bool | None = None,
        model: str | None = None,
        timeout: float | None = None,
        **options: Unpack[ChatOptions],
    ) -> Encoding:
        """Encode text or a conversation, which may have tools and so on, as the model would see it."""
        request = build_tokenize_request(text, add_special_tokens, options, model)
        return parse_encoding(await self._call(lambda stub: stub.Tokenize, request, timeout))

    async def detokenize(
        self,
        token_ids: Sequence[int],
        *,
        show_special_tokens: bool | None = None,
        model: str | None = None,
        timeout: float | None = None,
    ) -> Decoding:
        """Decode token ids."""
        request = build_detokenize_request(token_ids, show_special_tokens, model)
        return parse_decoding(await self._call(lambda stub: stub.Detokenize, request, timeout))

    async def model_info(self, *, model: str | None = None, timeout: float | None = None) -> ModelInfo:
        """Describe a model, by default the server's first, and the limits of the server."""
        request = GetModelInfoRequest(model=model)
        return parse_model_info(await self._call(lambda stub: stub.GetModelInfo, request, timeout))

    async def list_models(self, *, timeout: float | None = None) -> tuple[ServedModel, ...]:
        """The server's models, that one first which is asked where a call names none."""
        return parse_models(await self._call(lambda stub: stub.ListModels, ListModelsRequest(), timeout))

    async def _call(
        self,
        method: "Callable[[GenerationServiceAsyncStub], grpc.aio.UnaryUnaryMultiCallable[Any, Answer]]",
        request: Message,
        timeout: float | None,
    ) -> Answer:
        attempts = self._pool.attempts(timeout)
        while True:
            server = self._pool.servers[attempts.address]
            try:
                answer = await method(server.stub)(request, timeout=attempts.time_left(), metadata=server.metadata)
            except grpc.RpcError as failure:
                pause = attempts.failed(as_error(failure))
            else:
                attempts.answered()
                return answer
            self._pool.preferred = attempts.address
            await asyncio.sleep(pause)
