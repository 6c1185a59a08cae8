"""Subscribers: those who follow the KV events of the first model by a contract."""

from collections.abc import Callable
from contextlib import aclosing

from google.protobuf.message import Message

from services.service.admission import Admission, Work
from services.service.errors import ReaderStalledError, RpcError, UnavailableError, UnimplementedError
from services.target.api.servicer import Context, GenerationServicer
from services.target.api.stream_writer import StreamWriter
from services.target.generation.engine_interface import Engine
from services.target.generation.journal_reader import JournalReader
from services.target.kv_events.follow import Followed, follow

_MOST_SUBSCRIBERS = 16


class Subscribers:
    """They do not load a model, and are ended when another one takes its place."""

    def __init__(self, generation: GenerationServicer) -> None:
        self._generation = generation
        self._admission = Admission(Work.SUBSCRIBERS, _MOST_SUBSCRIBERS, _MOST_SUBSCRIBERS // 2)

    async def send(
        self,
        start: int | None,
        context: Context,
        write: Callable[[Followed], Message],
        fail: Callable[[RpcError], Message] | None = None,
    ) -> None:
        """Write batches as messages, from a number on as `follow` has it; raises RpcError.

        Without `fail` a failure after the headers is raised too, else it is the last message.
        """
        engine = self._generation.serving().engine
        if (journal := engine.journal) is None:
            raise UnimplementedError("this server sends no events of its KV cache: it was started without --kv-events")
        with self._admission.admit(1, self._generation.callers.of(context)):
            try:
                async with self._generation.writer(context) as writer:
                    await writer.write_headers()
                    try:
                        await self._send(engine, journal, start, writer, write)
                    except ReaderStalledError:
                        raise
                    except RpcError as error:
                        if fail is None:
                            raise
                        await writer.write(fail(error))
            except ReaderStalledError as error:
                raise UnavailableError("the subscriber has taken nothing for too long: subscribe again") from error

    async def _send(
        self,
        engine: Engine,
        journal: JournalReader,
        start: int | None,
        writer: StreamWriter,
        write: Callable[[Followed], Message],
    ) -> None:
        async with aclosing(follow(journal, start)) as batches:
            self._check_engine(engine)
            async for batch in batches:
                self._check_engine(engine)  # else the server would wait for this call when it ends
                if batch is not None:
                    await writer.write(write(batch))

    def _check_engine(self, engine: Engine) -> None:
        """Raise UnavailableError if another engine is served now, or none."""
        if self._generation.serving().engine is not engine:
            raise UnavailableError("the model was loaded again: subscribe again")
