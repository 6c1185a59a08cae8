"""Client: talks to Outrider from ordinary Python."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import grpc
from google.protobuf.message import Message

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
from outrider.stream import Stream
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

Answer = TypeVar("Answer")


class Client:
    """A connection to one or several servers that hold the same models. Threads may share it.

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
        """
        self._channels: list[grpc.Channel] = []
        is_encrypted = credentials is not None
        options = channel_options(channel_arguments, is_encrypted=is_encrypted, connect_timeout=connect_timeout)
        metadata = token_metadata(token, addresses, is_encrypted=is_encrypted)

        def connect(address: str) -> Server[GenerationServiceStub]:
            if credentials is None:
                channel = grpc.insecure_channel(address, options)
            else:
                channel = grpc.secure_channel(address, credentials, options)
            self._channels.append(channel)
            return Server(GenerationServiceStub(channel), metadata)

        self._routes_by_prefix = route_by_prefix
        policy = RetryPolicy(max_retries, max_backoff, max_lost_retries, connect_timeout)
        self._pool = Pool(addresses, connect, policy)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; streams still open raise Cancelled."""
        self._pool.close()
        for channel in self._channels:
            channel.close()

    def stream(self, prompt: Prompt, *, timeout: float | None = None, **options: Unpack[GenerateOptions]) -> Stream:
        """Continue a prompt, chunk by chunk; the time runs from here.

        Raises TypeError and InvalidArgument at once for what cannot even be sent.
        """
        request = build_stream_request(prompt, options)
        metadata = prefix_metadata(request) if self._routes_by_prefix else ()
        return Stream(self._pool, new_generation(request, self._pool.attempts(timeout)), metadata)

    def generate(self, prompt: Prompt, *, timeout: float | None = None, **options: Unpack[GenerateOptions]) -> Result:
        """Continue a prompt and return the whole. It is streamed underneath, so that nothing is lost with a server."""
        with self.stream(prompt, timeout=timeout, **options) as stream:
            for _ in stream:
                pass
            return stream.result

    def verify(self, proof: Proof, *, timeout: float | None = None) -> Verdict:
        """Return whether an answer (`Result.proof`) is what the model gives; raises FingerprintMismatch if no server
        has its fingerprint, DeadlineExceeded if time runs out before the verdict, and ValueError if the proof lacks
        something.
        """
        verification = Verification(proof)
        with Stream(self._pool, Generation(verification.request, self._pool.attempts(timeout))) as stream:
            try:
                for chunk in stream:
                    if (verdict := verification.take(chunk, stream.started)) is not None:
                        return verdict
            except InvalidArgument as error:
                return verification.refused(error)
            return verification.end(stream.result)

    def score(
        self,
        prompt: Prompt,
        choices: Sequence[TextToScore],
        *,
        timeout: float | None = None,
        **options: Unpack[ScoreOptions],
    ) -> Scores:
        """Return the log-probability of each choice after a prompt; raises like `stream` for an invalid request."""
        request = build_score_request(prompt, choices, options)
        return parse_scores(self._call(lambda stub: stub.Score, request, timeout))

    def embed(
        self, inputs: Sequence[TextToEmbed], *, timeout: float | None = None, **options: Unpack[EmbedOptions]
    ) -> Embeddings:
        """Make a vector of each text; raises as `stream` for what cannot even be sent."""
        request = build_embed_request(inputs, options)
        return parse_embeddings(self._call(lambda stub: stub.Embed, request, timeout))

    def create_session(
        self, prompt: Prompt, *, timeout: float | None = None, **options: Unpack[SessionOptions]
    ) -> Session:
        """Have a server hold the beginning of prompts; raises as `stream` for what cannot even be sent."""
        request = build_session_request(prompt, options)
        return parse_session(self._call(lambda stub: stub.CreateSession, request, timeout).session)

    @contextmanager
    def session(
        self, prompt: Prompt, *, timeout: float | None = None, **options: Unpack[SessionOptions]
    ) -> Iterator[Session]:
        """As `create_session`, for as long as the block runs."""
        session = self.create_session(prompt, timeout=timeout, **options)
        try:
            yield session
        finally:
            with suppress(NotFound):  # its time may be over
                self.delete_session(session.name, model=session.model, timeout=timeout)

    def get_session(self, name: str, *, model: str | None = None, timeout: float | None = None) -> Session:
        """Tell of a session, with its tokens; raises NotFound."""
        request = GetSessionRequest(name=name, model=model, token_ids=True)
        return parse_session(self._call(lambda stub: stub.GetSession, request, timeout).session)

    def list_sessions(self, *, model: str | None = None, timeout: float | None = None) -> tuple[Session, ...]:
        """The caller's sessions, the oldest first, without their tokens."""
        request = ListSessionsRequest(model=model)
        return parse_sessions(self._call(lambda stub: stub.ListSessions, request, timeout))

    def delete_session(self, name: str, *, model: str | None = None, timeout: float | None = None) -> None:
        """End a session; raises NotFound."""
        self._call(lambda stub: stub.DeleteSession, DeleteSessionRequest(name=name, model=model), timeout)

    def tokenize(
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
        return parse_encoding(self._call(lambda stub: stub.Tokenize, request, timeout))

    def detokenize(
        self,
        token_ids: Sequence[int],
        *,
        show_special_tokens: bool | None = None,
        model: str | None = None,
        timeout: float | None = None,
    ) -> Decoding:
        """Decode token ids."""
        request = build_detokenize_request(token_ids, show_special_tokens, model)
        return parse_decoding(self._call(lambda stub: stub.Detokenize, request, timeout))

    def model_info(self, *, model: str | None = None, timeout: float | None = None) -> ModelInfo:
        """Describe a model, by default the server's first, and the limits of the server."""
        request = GetModelInfoRequest(model=model)
        return parse_model_info(self._call(lambda stub: stub.GetModelInfo, request, timeout))

    def list_models(self, *, timeout: float | None = None) -> tuple[ServedModel, ...]:
        """The server's models, that one first which is asked where a call names none."""
        return parse_models(self._call(lambda stub: stub.ListModels, ListModelsRequest(), timeout))

    def _call(
        self,
        method: "Callable[[GenerationServiceStub], grpc.UnaryUnaryMultiCallable[Any, Answer]]",
        request: Message,
        timeout: float | None,
    ) -> Answer:
        attempts = self._pool.attempts(timeout)
        while True:
            server = self._pool.servers[attempts.address]
            try:
                answer = method(server.stub)(request, timeout=attempts.time_left(), metadata=server.metadata)
            except grpc.RpcError as failure:
                pause = attempts.failed(as_error(failure))
            else:
                attempts.answered()
                return answer
            self._pool.preferred = attempts.address
            time.sleep(pause)
