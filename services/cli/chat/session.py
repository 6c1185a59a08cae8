"""ChatSession: sends questions to a server, and prints the answers."""

import contextlib
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

from outrider import Cancelled, Client, GenerateOptions, InvalidArgument, Message, ModelInfo, OutriderError, Stream
from services.cli.calls.result_text import summary
from services.cli.chat.dialogue import Dialogue
from services.cli.chat.parameters import Parameters
from services.cli.terminal import Terminal

_ROOM_FOR_ANSWER = 1 / 4  # of the context, if max_tokens is not set


class ChatSession:
    """One conversation with the model of a server."""

    def __init__(
        self, client: Client, model: ModelInfo, dialogue: Dialogue, parameters: Parameters, *, goes_on: bool
    ) -> None:
        """With `goes_on` Ctrl-C ends only the current answer, not the program."""
        self.dialogue = dialogue
        self.parameters = parameters
        self._client = client
        self._model = model
        self._goes_on = goes_on

    def ask(self, question: str, out: Terminal, err: Terminal) -> bool:
        """Stream the answer to a question, and then its figures; returns False, after an error to `err`, without one.

        With `goes_on` Ctrl-C ends the answer, and the text so far stays in the conversation; without it
        KeyboardInterrupt is raised. Messages that no longer fit the context are dropped once there is an answer.
        """
        self.dialogue.add(Message("user", question))
        answer: Message | None = None
        surplus = 0
        try:
            surplus = self.dialogue.surplus(self._fits)
            answer = self._answer(self.dialogue.without(surplus), out, err)
        except InvalidArgument as error:
            err.refusal(error)
        except (OutriderError, TypeError) as error:
            err.error(str(error))
        except KeyboardInterrupt:
            err.note("cancelled")
            if not self._goes_on:
                raise
        finally:
            if answer is None:
                self.dialogue.take_back()
            else:
                self._keep(answer, surplus, err)
        return answer is not None

    def _answer(self, messages: list[Message], out: Terminal, err: Terminal) -> Message:
        asked: GenerateOptions = {**self.parameters.options, "token_records": True, "message_deltas": True}
        with self._client.stream(messages, **asked) as stream, self._ctrl_c_cancels(stream):
            try:
                for chunk in stream:
                    out.chunk(chunk)
            except Cancelled:
                if not self._goes_on:
                    raise
                out.text("\n")
                err.note("cancelled")
                return Message("assistant", stream.received.text)
            out.text("\n")
            err.note(summary(stream.result))
            return stream.result.message or Message("assistant", stream.result.text)

    @contextlib.contextmanager
    def _ctrl_c_cancels(self, stream: Stream) -> Iterator[None]:
        """With `goes_on`, Ctrl-C cancels the call: KeyboardInterrupt inside grpc's locks can become another error.

        A thread cancels, since the signal may find this one with a lock that `cancel` takes.
        """
        if not self._goes_on:
            yield
            return
        previous = signal.signal(signal.SIGINT, lambda *_: threading.Thread(target=stream.cancel).start())
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)

    def _keep(self, answer: Message, surplus: int, err: Terminal) -> None:
        if surplus:
            err.note(f"the context is full: the oldest question{'s are' if surplus > 1 else ' is'} forgotten")
            self.dialogue.drop(surplus)
        self.dialogue.add(answer)

    def _fits(self, messages: list[Message]) -> bool:
        options = self.parameters.options
        asked = options.get("max_tokens") or int(self._model.context_length * _ROOM_FOR_ANSWER)
        variables = options.get("template_variables")
        try:
            encoding = self._client.tokenize(messages, model=options.get("model"), template_variables=variables)
        except InvalidArgument:  # it is longer than the context
            return False
        return len(encoding.token_ids) + asked <= self._model.context_length

    def save(self, path: Path) -> None:
        """Write the conversation to a new file, as a body for POST /v1/chat/completions; raises OSError."""
        messages = [{"role": message.role, "content": message.content} for message in self.dialogue.messages]
        body = {"model": self._model.name, "messages": messages, **self.parameters.options}
        with path.open("x") as file:
            json.dump(body, file, indent=2, ensure_ascii=False)
            file.write("\n")
