"""ServedModel: the facts of a model that its RPCs need; its description has the public ones."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.checkpoint.generation_defaults import GenerationDefaults
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.checkpoint.token_rules import TokenRules
from services.engine.forced_tokens import ForcedIds
from services.engine.grammar.process import GrammarProcess
from services.engine.lora.adapter import Adapter
from services.engine.text.token_search import TokenSearch
from services.engine.text.tokenizer import Tokenizer
from services.service.errors import InvalidRequestError, Violation
from services.service.limits import MAX_SAMPLES
from services.target.generation.engine_interface import Engine
from services.target.generation.fingerprint import Fingerprint
from services.target.message.syntax import MessageSyntax
from services.target.prompt.chat_template import ChatTemplate
from services.target.prompt.prompt_encoder import PromptEncoder

_LONGEST_SHOWN = 64  # characters of an unknown name in an error


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """The facts as of the last loading; they only change if the model's files do."""

    name: str
    architecture: str
    context_length: int  # tokens
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    fingerprint: Fingerprint
    has_chat_template: bool
    has_infill: bool
    head: str  # the name of the drafter that is attached to it; empty if none is
    adapted: Mapping[str, Fingerprint]  # by the names of its adapters


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One model as it is served; `context_length` is in tokens of prompt and answer together."""

    name: str
    config: ModelConfig
    context_length: int
    eos_token_ids: tuple[int, ...]
    defaults: GenerationDefaults
    token_rules: TokenRules
    forced_ids: ForcedIds
    tokenizer: Tokenizer
    token_search: TokenSearch
    prompts: PromptEncoder
    grammars: GrammarProcess
    chat_template: ChatTemplate
    syntax: MessageSyntax  # of the messages that it writes
    fingerprint: Fingerprint
    max_samples: int  # of one request
    guides: bool  # whether guidance is possible, which computes two texts at once
    head: str = ""  # the name of the drafter that is attached to it; empty if none is
    lora: Adapter | None = None  # applied to its weights
    adapters: Mapping[str, Adapter] = field(default_factory=dict)  # the loaded ones, by their names

    @classmethod
    def of(cls, engine: Engine, name: str, chat_template: ChatTemplate, syntax: MessageSyntax) -> "ServedModel":
        """The model of an engine, under this name."""
        checkpoint, tokenizer, facts = engine.checkpoint, engine.tokenizer, engine.facts
        return cls(
            name=name,
            config=checkpoint.config,
            context_length=facts.context_length,
            eos_token_ids=_end_ids(checkpoint, tokenizer, chat_template),
            defaults=checkpoint.generation,
            token_rules=checkpoint.token_rules,
            forced_ids=checkpoint.forced_ids,
            tokenizer=tokenizer,
            token_search=TokenSearch(tokenizer),
            prompts=PromptEncoder(tokenizer, chat_template),
            grammars=engine.new_grammar_process(),
            chat_template=chat_template,
            syntax=syntax,
            fingerprint=replace(facts.fingerprint, chat=_chat_digest(chat_template, syntax)),
            head=facts.head,
            adapters=engine.adapters,
            max_samples=min(MAX_SAMPLES, facts.config.max_sequences),
            guides=facts.config.max_sequences > 1,
        )

    def describe(self) -> ModelDescription:
        """The public facts of the model."""
        return ModelDescription(
            name=self.name,
            architecture=self.config.architecture,
            context_length=self.context_length,
            vocab_size=self.config.vocab_size,
            eos_token_ids=self.eos_token_ids,
            fingerprint=self.fingerprint,
            has_chat_template=self.chat_template.exists,
            has_infill=self.tokenizer.infill_marks is not None,
            head=self.head,
            adapted={name: self._fingerprint_by(adapter) for name, adapter in self.adapters.items()},
        )

    def asked(self, model: str, lora: str) -> "ServedModel":
        """The model with the adapter that a request names, in `lora` or as `model`; it then has the adapter's name.

        Raises InvalidRequestError if there is no such adapter, or if the two names differ.
        """
        own = model if model in self.adapters and model != self.name else ""
        if lora and own not in ("", lora):
            raise InvalidRequestError(
                [Violation("lora", f"is {lora[:_LONGEST_SHOWN]!r}; allowed: {own!r}, as model says")]
            )
        return self._with_lora(lora or own) if lora or own else self

    def _with_lora(self, name: str) -> "ServedModel":
        if (adapter := self.adapters.get(name)) is None:
            allowed = ", ".join(repr(each) for each in self.adapters) or "none, the model has no adapters"
            raise InvalidRequestError(
                [Violation("lora", f"{name[:_LONGEST_SHOWN]!r} is not loaded; allowed: {allowed}")]
            )
        return replace(self, name=name, lora=adapter, fingerprint=self._fingerprint_by(adapter))

    def _fingerprint_by(self, adapter: Adapter) -> Fingerprint:
        """The fingerprint of answers with an adapter."""
        return replace(self.fingerprint, lora=str(adapter))


def _end_ids(checkpoint: Checkpoint, tokenizer: Tokenizer, chat_template: ChatTemplate) -> tuple[int, ...]:
    """The ids that end an answer: those of the checkpoint, and the end token that the tokenizer's settings name."""
    token = chat_template.special_tokens.get("eos_token")
    token_id = tokenizer.id_of(token) if token else None
    named = {token_id} if token_id is not None and token_id < checkpoint.config.vocab_size else set()
    return tuple(sorted({*checkpoint.eos_token_ids, *named}))


def _chat_digest(template: ChatTemplate, syntax: MessageSyntax) -> str:
    """A hash of everything that turns conversations into prompts, and answers into messages."""
    return hashlib.sha256(repr((template.identity, syntax.names)).encode()).hexdigest()
