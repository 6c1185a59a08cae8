"""MessageReader: converts the token ids of an answer into the parts of a message."""

from collections.abc import Iterable

from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from services.target.message.argument_types import ArgumentTypes
from services.target.message.channel_parser import ChannelParser
from services.target.message.deltas import Delta
from services.target.message.message_parser import MessageParser
from services.target.message.syntax import MessageSyntax
from services.target.message.thought import PromptThought
from services.target.output.detokenizer import Detokenizer


class MessageReader:
    """Decodes the ids to text, in which marks that are control tokens are spelled out, and parses it."""

    def __init__(
        self,
        request: Request,
        tokenizer: Tokenizer,
        syntax: MessageSyntax,
        types: ArgumentTypes,
        thought: PromptThought,
        *,
        has_form: bool,
    ) -> None:
        """Reads the received part of the answer first, which may take long.

        `types` are those of the tools' arguments, `thought` is the state of the reasoning at the end of the prompt, and
        `has_form` is whether a text that is no call has a form.
        """
        syntax = syntax if types.tools or syntax.has_channels else syntax.without_tools()
        self._stop_ids = request.stops.token_ids
        self._detokenizer = Detokenizer(
            tokenizer,
            request.stops.strings,
            show_special=request.output.show_special_tokens,
            shown_ids=frozenset(syntax.mark_ids.values()),
            min_tokens=request.stops.min_tokens,
            include_stop=request.stops.include_stop,
        )
        self._parser = (
            ChannelParser(thought, types)
            if syntax.has_channels
            else MessageParser(syntax, types, is_thinking=thought is PromptThought.OPEN, has_form=has_form)
        )
        for token_id in request.received:
            self.push([token_id])

    def push(self, token_ids: Iterable[int]) -> list[Delta]:
        """Take further ids of the answer; returns the deltas that are certain with them."""
        return self._parser.feed("".join(map(self._text_of, token_ids)))

    def finish(self, text: str) -> list[Delta]:
        """Take the end; returns the remaining deltas. `text` is the answer's text that came with its end."""
        deltas = self._parser.feed(text or self._detokenizer.finish())
        return deltas + self._parser.finish()

    def _text_of(self, token_id: int) -> str:
        if token_id in self._stop_ids:
            return self._detokenizer.push_stop_token(token_id)
        return self._detokenizer.push(token_id)[0]
