"""ChatSession: asks a server, and shows what it answers."""

import json
from pathlib import Path

from outrider import Client, GenerateOptions, InvalidArgument, Message, ModelInfo, OutriderError
from services.cli.calls.result_text import summary
from services.cli.chat.dialogue import Dialogue
from services.cli.chat.parameters import Parameters
from services.cli.terminal import Terminal

_ROOM_FOR_ANSWER = 1 / 4  # of the context, where max_tokens does not say


class ChatSession:
    """One conversation with the model of a server."""

    def __init__(
        self, client: Client, model: ModelInfo, dialogue: Dialogue, parameters: Parameters, *, goes_on: bool
    ) -> None:
        """`goes_on` says whether Ctrl-C ends an answer alone."""
        self.dialogue = dialogue
        self.parameters = parameters
        self._client = client
        self._model = model
        self._goes_on = goes_on

    def ask(self, question: str, out: Terminal, err: Terminal) -> bool:
        """Stream the answer to a question, and then its figures; False where there is none, which `err` tells why.

        Where the session goes on, Ctrl-C ends the answer, and what there is of it stays in the conversation; elsewhere
        it raises KeyboardInterrupt. What no longer fits the context is forgotten once there is an answer without it.
        """
        self.dialogue.add(Message("user", question))
        answer: Message | None = None
        surplus = 0
        try:
            surplus = self.dialogue.surplus(self._fits)
            answer = self._answer(self.dialogue.behind(surplus), out, err)
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
        with self._client.stream(messages, **asked) as stream:
            try:
                for chunk in stream:
                    out.chunk(chunk)
            except KeyboardInterrupt:
                if not self._goes_on:
                    raise
                out.text("\n")
                err.note("cancelled")
                return Message("assistant", stream.received.text)
            out.text("\n")
            err.note(summary(stream.result))
            return stream.result.message or Message("assistant", stream.result.text)

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
        """Write a new file with the conversation as a body for POST /v1/chat/completions; raises OSError."""
        messages = [{"role": message.role, "content": message.content} for message in self.dialogue.messages]
        body = {"model": self._model.name, "messages": messages, **self.parameters.options}
        with path.open("x") as file:
            json.dump(body, file, indent=2, ensure_ascii=False)
            file.write("\n")
