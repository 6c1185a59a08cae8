"""ContractAnswering: answers a request of a contract with the generation service."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Protocol

from google.protobuf.message import Message

from outrider.v1 import generation_pb2
from services.service.errors import ReaderStalledError, RpcError
from services.target.api.servicer import Context, GenerationServicer, Responses
from services.target.api.stream_writer import StreamWriter
from services.target.contracts.abortable_calls import AbortableCall, CallAbortedError
from services.target.contracts.gbnf import GbnfReader


class ContractAnswers(Protocol):
    """Writes the events of a generation as messages of a contract."""

    @property
    def may_be_long(self) -> bool:
        """Whether a message may have log-probabilities for many tokens."""

    def read(self, response: generation_pb2.StreamGenerateResponse) -> Iterator[Message]:
        """The messages of an event; raises RpcError for an end that is a failure."""

    def abort(self) -> Iterator[Message]:
        """The ends of all samples that have not ended."""

    def fail(self, error: RpcError) -> Iterator[Message]:
        """The messages that report a failure; raises it if the contract has none."""


class ContractAnswering:
    """The limits and checks of the generation service apply to these calls too."""

    def __init__(self, generation: GenerationServicer) -> None:
        self._generation, self._gbnf = generation, GbnfReader()

    async def answer(
        self,
        message: generation_pb2.StreamGenerateRequest,
        answers: ContractAnswers,
        call: AbortableCall,
        context: Context,
    ) -> None:
        """Write the answers to a request; raises RpcError if it is not accepted."""
        async with self._generation.writer(context) as writer:
            try:
                async with AsyncExitStack() as stack:
                    responses = await call.wait(lambda: self._open(message, stack, context))
                    try:
                        while response := await call.wait(lambda: anext(responses, None)):
                            await _write(answers, partial(answers.read, response), writer)
                    except ReaderStalledError:
                        raise
                    except RpcError as error:
                        await _write(answers, partial(answers.fail, error), writer)
            except CallAbortedError:
                await _write(answers, answers.abort, writer)

    async def _open(
        self, message: generation_pb2.StreamGenerateRequest, stack: AsyncExitStack, context: Context
    ) -> Responses:
        if message.grammar.lark:
            admissions = (await self._generation.enter(context, message.model)).admissions
            with admissions.text_calls.admit(1, self._generation.callers.of(context)):
                message.grammar.lark = await self._gbnf.to_lark(message.grammar.lark)
        return await stack.enter_async_context(self._generation.generation(message, context))


async def _write(answers: ContractAnswers, read: Callable[[], Iterator[Message]], writer: StreamWriter) -> None:
    """Write messages; if they may have many log-probabilities, they are made off the event loop."""
    messages = await asyncio.to_thread(lambda: [*read()]) if answers.may_be_long else read()
    for answer in messages:
        await writer.write(answer)
