"""PromptEncoder: encodes prompts to token ids, off the event loop."""

import array
import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from services.engine.awaited_worker import AwaitedWorker
from services.engine.text.tokenizer import Tokenizer
from services.engine.worker_process import WorkerError, WorkerLimits
from services.target.prompt.chat_template import ChatTemplate, Conversation
from services.target.prompt.infill_text import InfillText

_SMALL_BYTES = 1 << 16  # encoded within some fifty milliseconds
_NUM_THREADS = 2
_GRACE_SECONDS = 1.0  # for a long text whose caller has gone: a new worker takes about as long to start
# 4 MB of the costliest text take some 7 s and 1.2 GB.
_LIMITS = WorkerLimits(cpu_seconds=20.0, seconds=60.0, memory=4 << 30, answer_bytes=64 << 20)


@dataclass(frozen=True, slots=True)
class PromptText:
    """A prompt given as text; `add_special_tokens` adds those that the checkpoint wants around a prompt."""

    text: str
    add_special_tokens: bool

    @property
    def num_bytes(self) -> int:
        """The size of the text in UTF-8."""
        return len(self.text.encode())


PromptSource = PromptText | InfillText | Conversation


class PromptError(ValueError):
    """A prompt cannot be encoded; the message has the reason."""


class TooManyTokensError(PromptError):
    """A prompt has more tokens than are allowed."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__(f"is {num_tokens} tokens long")


class PromptEncoder:
    """Short texts are encoded on threads, where the tokenizer releases the GIL; long ones, one at a time, in a worker
    process that is killed when its caller has gone. Templates run in a worker process too.

    Call it on one event loop; its threads and worker end with it.
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
        """The ids of a prompt; raises ChatTemplateError, and PromptError if they are more than `most` or take too much
        time or memory.
        """
        loop = asyncio.get_running_loop()
        if not isinstance(source, PromptText | InfillText):
            rendered = await loop.run_in_executor(self._renderer, source.render, self._chat_template)
            source = PromptText(rendered, add_special_tokens=False)
        if source.num_bytes > _SMALL_BYTES:
            return await self._encode_long(source, most)
        return await loop.run_in_executor(self._threads, self._encode, source, most)

    def _encode(self, source: PromptText | InfillText, most: int) -> tuple[int, ...]:
        if isinstance(source, InfillText):
            ids = source.encode(self._tokenizer)
        else:
            ids = self._tokenizer.encode(source.text, add_special_tokens=source.add_special_tokens)
        if len(ids) > most:
            raise TooManyTokensError(len(ids))
        return tuple(ids)

    async def _encode_long(self, source: PromptText | InfillText, most: int) -> tuple[int, ...]:
        form = {"pieces": source.pieces} if isinstance(source, InfillText) else {"text": source.text}
        question = {**form, "add_special_tokens": source.add_special_tokens, "most": most}
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
