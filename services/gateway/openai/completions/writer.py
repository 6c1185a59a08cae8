"""CompletionWriter: writes completions as objects and events of OpenAI's API."""

import codecs
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from typing import Any

from outrider import ContentDelta, Result, Token
from services.gateway.generation.encoded_list import EncodedList
from services.gateway.generation.head import Head
from services.gateway.generation.piece import Piece
from services.gateway.generation.usage import metrics_of, usage_of
from services.gateway.generation.writer import Event, Json, choices_of
from services.gateway.openai.completions.request import CompletionRequest
from services.gateway.openai.finish import finish_reason, outrider_fields, stop_reason
from services.gateway.openai.token_text import token_logprob, token_text
from services.gateway.openai.usage_so_far import UsageSoFar


class TokenLogprobs:
    """Finds each token of one choice in its text, which begins with the prompt if that is echoed."""

    def __init__(self, prompt: str) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._prompt = prompt
        self._offset = 0

    def lists(self, tokens: Iterable[Token], *, of_prompt: bool, with_top: bool) -> dict[str, Any]:
        """Return the lists for the next tokens; the first token of a prompt has no log-probability."""
        tokens = tuple(tokens)
        if tokens and not of_prompt:
            self._offset = max(self._offset, len(self._prompt))
        places = [self._place(token, of_prompt) for token in tokens]
        return {
            "tokens": [text for text, _ in places],
            "token_logprobs": [token_logprob(token) for token in tokens],
            "top_logprobs": [_top(token) for token in tokens] if with_top else None,
            "text_offset": [offset for _, offset in places],
        }

    def _place(self, token: Token, of_prompt: bool) -> tuple[str, int]:
        """Return a token's text as the whole text shows it, and where that begins."""
        offset, name, text = self._offset, token_text(token), self._decoder.decode(token.bytes)
        is_at_edge = of_prompt and offset in {0, len(self._prompt)}
        if is_at_edge and not self._prompt.startswith(text, offset):  # the tokenizer has added it, or its blank
            is_shown = len(text) > 1 and text[0] == " " and self._prompt.startswith(text[1:], offset)
            name = text = text[1:] if is_shown else ""
        self._offset += len(text)
        return name, offset


def _top(token: Token) -> dict[str, float | None] | None:
    """Return the log-probabilities of the candidates and of the token itself; None if it has none."""
    if token.raw_logprob is None:
        return None
    candidates = {token_text(one): token_logprob(one) for one in token.candidates}
    return {**candidates, token_text(token): token_logprob(token)}


class CompletionWriter:
    """Each piece is one event; with `echo` the prompt precedes it, in several events if it is long."""

    def __init__(self, request: CompletionRequest, head: Head) -> None:
        self._request = request
        self._head = head
        self._usage = UsageSoFar(request, head)
        self._begun: set[int] = set()
        self._prompts = request.prompts()
        self._to_echo = set(range(head.num_choices)) if request.echo else set()
        echoed = (self._prompt_text(choice) if request.echo else "" for choice in range(head.num_choices))
        self._logprobs = [TokenLogprobs(prompt) for prompt in echoed]
        self._kept: dict[int, dict[str, Any]] = {}
        self._base = {
            "id": f"cmpl-{head.ticket.name}",
            "object": "text_completion",
            "created": head.ticket.created,
            "model": head.model,
            "system_fingerprint": head.fingerprint,
        }

    def piece(self, piece: Piece) -> Seq[Event]:
        """Return the events of a piece, if it adds text or has tokens to report."""
        self._usage.add(piece)
        logprobs = self._of_piece(piece)
        ids = self._ids(piece.token_ids)
        if piece.is_of_prompt:
            return self._echo(piece.choice, logprobs)
        events = self._echo(piece.choice)
        if isinstance(piece.delta, ContentDelta) or (logprobs is not None and piece.tokens) or any(ids.values()):
            text = piece.delta.text if isinstance(piece.delta, ContentDelta) else ""
            events.append(self._event(piece.choice, text, logprobs, **ids))
        return events

    def end(self, choice: int, result: Result) -> Seq[Event]:
        """Return the event of why a choice ended."""
        events = self._echo(choice)
        events.append(self._event(choice, "", None, **self._ids(()), **self._end(result)))
        return events

    def tail(self, results: Seq[Result]) -> Seq[Event]:
        """Return the event of the usage, if it was requested."""
        if not self._request.wants_usage:
            return ()
        return (Event({**self._base, "choices": [], "usage": usage_of(results), "metrics": metrics_of(results)}),)

    def keep(self, piece: Piece) -> None:
        """Keep the log-probabilities of a piece's tokens for `whole`."""
        for name, values in (self._of_piece(piece) or {}).items():
            columns = self._kept.setdefault(piece.choice, {})
            if values is None:
                columns[name] = None
            else:
                columns.setdefault(name, EncodedList()).extend(values)

    def whole(self, results: Seq[Result]) -> Json:
        """Return the whole answer as one object."""
        choices = [self._choice(index, result) for index, result in enumerate(choices_of(results))]
        return {**self._base, "choices": choices, "usage": usage_of(results), "metrics": metrics_of(results)}

    def _choice(self, index: int, result: Result) -> Json:
        text = self._prompt_text(index) + result.text if self._request.echo else result.text
        self.keep(Piece(index, ()))
        ids = {**self._prompt_ids(index), **self._ids(result.token_ids)}
        return {"index": index, "text": text, "logprobs": self._kept.get(index), **ids, **self._end(result)}

    def _end(self, result: Result) -> dict[str, Any]:
        ours = outrider_fields(result)
        return {"finish_reason": finish_reason(result), "stop_reason": stop_reason(result), "outrider": ours}

    def _event(self, choice: int, text: str, logprobs: Json | None, **more: object) -> Event:
        prompt_ids = {} if choice in self._begun else self._prompt_ids(choice)
        self._begun.add(choice)
        part = {"index": choice, "text": text, "logprobs": logprobs, "finish_reason": None, **prompt_ids, **more}
        return Event({**self._base, "choices": [part], **self._usage.fields(choice)})

    def _ids(self, token_ids: Iterable[int]) -> Json:
        return {"token_ids": [*token_ids]} if self._request.return_token_ids else {}

    def _prompt_ids(self, choice: int) -> Json:
        ids = self._head.prompt_of(choice).prompt_token_ids
        return {"prompt_token_ids": [*ids]} if self._request.return_token_ids else {}

    def _echo(self, choice: int, logprobs: Json | None = None) -> list[Event]:
        """Return the event of the prompt, unless it was sent, or of further log-probabilities of its tokens."""
        text = self._prompt_text(choice) if choice in self._to_echo else None
        self._to_echo.discard(choice)
        return [] if text is None and logprobs is None else [self._event(choice, text or "", logprobs)]

    def _of_piece(self, piece: Piece) -> Json | None:
        if self._request.logprobs is None:
            return None
        with_top = self._request.logprobs > 0
        return self._logprobs[piece.choice].lists(piece.tokens, of_prompt=piece.is_of_prompt, with_top=with_top)

    def _prompt_records(self, choice: int) -> tuple[Token, ...]:
        return self._head.prompt_records[choice // self._head.samples]

    def _prompt_text(self, choice: int) -> str:
        prompt = self._prompts[choice // self._head.samples]
        if isinstance(prompt, str):
            return prompt
        return b"".join(token.bytes for token in self._prompt_records(choice)).decode(errors="replace")
