"""PromptEncoder: prompts to token ids, beside everything else that the service does."""

import array
import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from services.engine.awaited_worker import AwaitedWorker
from services.engine.text.tokenizer import Tokenizer
from services.engine.worker_process import WorkerError, WorkerLimits
from services.target.prompt.chat_template import ChatTemplate
from services.target.prompt.conversation import Conversation

_SMALL_BYTES = 1 << 16  # encoded within some fifty milliseconds
_NUM_THREADS = 2
_GRACE_SECONDS = 1.0  # for a long text that nobody waits for: a new worker takes about as long to start
# 4 MB of the costliest text take some 7 s and 1.2 GB.
_LIMITS = WorkerLimits(cpu_seconds=20.0, seconds=60.0, memory=4 << 30, answer_bytes=64 << 20)


@dataclass(frozen=True, slots=True)
class Text:
    """A text; `add_special_tokens` puts around it what the checkpoint wants around a prompt."""

    text: str
    add_special_tokens: bool

    @property
    def num_bytes(self) -> int:
        """Its size."""
        return len(self.text.encode())


PromptSource = Text | Conversation


class PromptError(ValueError):
    """A prompt that cannot be encoded; the message says why."""


class TooManyTokensError(PromptError):
    """A prompt of more tokens than were asked for."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__(f"is {num_tokens} tokens long")


class PromptEncoder:
    """Short texts are encoded on threads of their own, where the tokenizer gives the GIL away; long ones, one after
    the other, in a worker that is killed where nobody waits for them. Templates run in a worker anyway.

    Call it on one event loop; its thread and worker end with it.
    """

    def __init__(self, tokenizer: Tokenizer, chat_template: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._chat_template = chat_template
        self._threads = ThreadPoolExecutor(_NUM_THREADS, "encode")
        self._renderer = ThreadPoolExecutor(1, "render")  # waits for the template's worker
        setup = {"description": tokenizer.description}
        worker = "services.target.prompt.text_encoder"
        self._worker = AwaitedWorker(worker, setup, _LIMITS, grace_seconds=_GRACE_SECONDS)

    async def encode(self, source: PromptSource, *, most: int) -> tuple[int, ...]:
        """The ids of a prompt; raises ChatTemplateError, and PromptError where they are more than `most`, or where
        that takes too much time or memory.
        """
        loop = asyncio.get_running_loop()
        if not isinstance(source, Text):
            rendered = await loop.run_in_executor(self._renderer, source.render, self._chat_template)
            source = Text(rendered, add_special_tokens=False)
        if source.num_bytes > _SMALL_BYTES:
            return await self._encode_long(source, most)
        return await loop.run_in_executor(self._threads, self._encode, source, most)

    def _encode(self, source: Text, most: int) -> tuple[int, ...]:
        ids = self._tokenizer.encode(source.text, add_special_tokens=source.add_special_tokens)
        if len(ids) > most:
            raise TooManyTokensError(len(ids))
        return tuple(ids)

    async def _encode_long(self, source: Text, most: int) -> tuple[int, ...]:
        question = {"text": source.text, "add_special_tokens": source.add_special_tokens, "most": most}
        try:
            return await self._worker.call(question, lambda answer: _read(answer, most))
        except WorkerError as error:
            raise PromptError(f"cannot be encoded: {error}") from error


def _read(answer: object, most: int) -> tuple[int, ...]:
    match answer:
        case {"num_tokens": int(num_tokens), "ids": str(ids)}:
            if num_tokens > most:
                raise TooManyTokensError(num_tokens)
            return tuple(array.array("I", base64.b64decode(ids)))
        case _:
            raise PromptError("cannot be encoded: the worker gives no ids")
