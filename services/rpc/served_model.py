"""ServedModel: what the answers to a client need to know of the model."""

from dataclasses import dataclass

from services.engine.chat_template import ChatTemplate
from services.engine.fingerprint import Fingerprint
from services.engine.generation_defaults import GenerationDefaults
from services.engine.grammar_process import GrammarProcess
from services.engine.model_config import ModelConfig
from services.engine.prompt_encoder import PromptEncoder
from services.engine.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One model as it is served; `context_length` is in tokens of prompt and answer together."""

    name: str
    config: ModelConfig
    context_length: int
    eos_token_ids: tuple[int, ...]
    defaults: GenerationDefaults
    tokenizer: Tokenizer
    prompts: PromptEncoder
    grammars: GrammarProcess
    chat_template: ChatTemplate
    fingerprint: Fingerprint
    max_samples: int  # of one request
