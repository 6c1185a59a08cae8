"""GenerateOptions: how to continue a prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from outrider.chat.options import ChatOptions


@dataclass(frozen=True, slots=True)
class Loop:
    """A generation that goes round in circles: its last `window` tokens repeat one run at least `repetitions` times."""

    window: int
    repetitions: int


class GenerateOptions(ChatOptions, total=False):
    """How to continue a prompt. What is left out, or None, takes the server's default.

    The meaning and the allowed values of each are those of the field of the same name in `outrider/v1/common.proto`.
    """

    model: str | None
    """The name of the model that is asked, where the server has several."""
    lora: str | None
    """The name of one of its adapters."""
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    top_n_sigma: float | None
    smoothing_factor: float | None
    smoothing_curve: float | None
    dynatemp_range: float | None
    dynatemp_exponent: float | None
    top_a: float | None
    tfs_z: float | None
    typical_p: float | None
    epsilon_cutoff: float | None
    eta_cutoff: float | None
    xtc_probability: float | None
    xtc_threshold: float | None
    skew: float | None
    mirostat_mode: int | None
    mirostat_tau: float | None
    mirostat_eta: float | None
    adaptive_target: float | None
    adaptive_decay: float | None
    samplers: Sequence[str] | None
    """The samplers that the distribution goes through, in this order: "temperature", "top_k", "xtc" …"""
    repetition_penalty: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    penalty_last_n: int | None
    penalty_decay: int | None
    no_repeat_ngram_size: int | None
    suppress_token_ids: Sequence[int] | None
    begin_suppress_token_ids: Sequence[int] | None
    """Not drawn first."""
    bad_words_ids: Sequence[Sequence[int]] | None
    """Sequences of token ids that the answer never has."""
    dry_multiplier: float | None
    dry_base: float | None
    dry_allowed_length: int | None
    dry_penalty_last_n: int | None
    dry_sequence_breakers: str | Sequence[str] | None
    logit_bias: Mapping[int, float] | None
    """By token id; added after the penalties."""
    seed: int | None
    banned_strings: str | Sequence[str] | None
    """Texts that the answer never has, whatever their case; what was taken back for them is in `Result.suppressed`."""
    allowed_token_ids: Sequence[int] | None
    """The only tokens that may be drawn, an end-of-sequence token among them if one is to end the answer."""
    guidance_scale: float | None
    """How strongly the text is steered away from a negative prompt's (classifier-free guidance)."""
    negative_prompt: str | Sequence[int] | None
    """Text or token ids; without it the prompt's last token alone."""
    stop: str | Sequence[str] | None
    """Texts that end the generation."""
    stop_token_ids: Sequence[int] | None
    max_tokens: int | None
    min_tokens: int | None
    max_thinking_tokens: int | None
    """After which a thought is ended."""
    ignore_eos: bool | None
    include_stop: bool | None
    """Whether what ended the generation is part of the text."""
    time_limit: float | None
    """In seconds, after which the server ends the generation with what there is, `FinishReason.TIME_LIMIT`. One that is
    resumed gets as much again; the call's `timeout` bounds it as a whole."""
    stop_on_loop: Loop | None
    """Ends a generation that repeats itself, with `FinishReason.LOOP`."""
    json_schema: str | Mapping[str, Any] | None
    """What the text must follow; one of these four at most."""
    regex: str | None
    """Of the whole text, in the syntax of Rust's regex crate."""
    lark: str | None
    """A context-free grammar in llguidance's dialect of Lark."""
    choice: Sequence[str] | None
    """The texts to choose from: the answer is one of them."""
    prefer_end: bool | None
    """Ends the text as soon as its grammar lets it."""
    reasoning_marks: Sequence[str] | None
    """The start and end marks of reasoning that may precede the text of the grammar, or () for none. Default: in a
    conversation those of the model, otherwise none."""
    token_records: bool | None
    logprobs: bool | None
    top_candidates: int | None
    show_special_tokens: bool | None
    pass_reports: bool | None
    """One report per pass of the model, in `Chunk.pass_reports` and `Result.pass_reports`."""
    rank: bool | None
    entropy: bool | None
    logits: bool | None
    """The raw logits at each token's position, in `Token.logits`."""
    logits_token_ids: Sequence[int] | None
    """Only these tokens' logits."""
    prompt_logprobs: bool | None
    """One record per token of the prompt, in `Result.prompt_records`."""
    speculation: Literal["never", "auto", "always"] | None
    num_predictions: int | None
    """Predictions to verify in each pass, with `speculation="always"`."""
    lookup: bool | None
    """Whether the text may be predicted from its own repetitions."""
    expected_token_ids: Sequence[int] | None
    """The tokens that the answer may begin with, or repeat parts of, which are verified as predictions."""
    expected_text: str | None
    """The same as text."""
    prefix_cache: bool | None
    """Whether keys and values of earlier requests may be used for this one, and its own for later ones."""
    cache_salt: str | None
    """Only requests with the same salt share them."""
    message_deltas: bool | None
    """Whether the answer is read as a message, in `Chunk.message_deltas` and `Result.message`."""
    add_special_tokens: bool | None
    suffix: str | None
    """The text after the gap that the model fills in; the prompt is the text before it, and may be empty."""
    infill_files: Sequence[tuple[str, str]] | None
    """Names and texts of files that the model sees before the text with a gap."""
    heal: bool | None
    """Whether the prompt's last token may be drawn anew, as one that begins with the same bytes."""
    request_id: str | None
    priority: int | None
    """Order of the caller's waiting requests, the highest first; below 0, other callers' higher ones come first too."""
    num_samples: int | None
    """Answers to the one prompt. `Chunk.sample` says whose a chunk is; the result is that of sample 0, which has the
    others in `Result.further_samples`."""
    best_of: int | None
    """Answers to choose the `num_samples` likeliest from; beyond 1, nothing comes before all have ended."""
    session: str | None
    """The name of a session: the prompt follows its tokens, and may be empty."""
