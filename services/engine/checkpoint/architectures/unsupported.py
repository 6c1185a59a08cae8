"""What is not served, by the names of its classes: why, and what to do instead."""

import re

_ENCODES = "it encodes texts and writes none: a server of embeddings or a classifier's own library is its place"
_READS = "its decoder attends to what an encoder has read: take a model that is a decoder alone"
_SEES = "it reads pictures or video beside text: serve a text model of its family, such as Qwen3 or Gemma 3"
_HEARS = "it reads or writes sound: serve a text model, and its sound by a server of its own"
_REMEMBERS = (
    "it keeps a state that predictions which turn out wrong cannot be taken back from (state space, delta rule, "
    "recurrence): take a model whose layers all attend"
)
_MIXES = (
    "it is a mixture of experts of a kind that is not carried out: take a dense model of its family, or one of "
    "Mixtral, OLMoE, Qwen 2 MoE and Qwen 3 MoE"
)
_EARLIER = (
    "it is of an earlier kind, whose layers are put together as none that is carried out: take a newer one, such as "
    "Qwen3, OLMo 3, StarCoder2 or Cohere 2"
)
_LATENT = "its attention keeps what it has read in latent form: take a model with keys and values"

# The first whose pattern a name begins with counts.
_REASONS = (
    (r"Mamba|FalconH1|FalconMamba|Jamba|Zamba|Bamba|NemotronH|Qwen3Next|Qwen3_5|RecurrentGemma|Rwkv|xLSTM", _REMEMBERS),
    (r"GraniteMoeHybrid|KimiLinear|Lfm2|Lfm3|OlmoHybrid|MiniMax|BailingHybrid|RetNet|Hrm", _REMEMBERS),
    (r"Whisper|Wav2Vec|Hubert|SpeechT5|Moshi|Voxtral|Musicgen|Qwen2Audio|Speech|Bark|Kyutai|\w*ASR", _HEARS),
    (r"Qwen2VL|Qwen2_5_VL|Qwen3VL|Qwen2_5Omni|Qwen3Omni|Llava|Mllama|PaliGemma|Idefics|SmolVLM|InternVL", _SEES),
    (
        r"Gemma3n|Gemma4|Llama4ForCond|Phi4Multimodal|Glm4v|Pixtral|Cohere2Vision|AyaVision|Blip|Kosmos|CLIP|\w*ViT",
        _SEES,
    ),
    (r"T5|Bart|MBart|Pegasus|Marian|M2M|Led|\w*EncoderDecoder|UMT5|MT5|Longt5", _READS),
    (r"\w*(?:Bert|Electra|Deberta|MPNet|XLNet|Longformer)", _ENCODES),
    (r"\w+For(?:MaskedLM|SequenceClassification|TokenClassification|QuestionAnswering|MultipleChoice)$", _ENCODES),
    (r"Deepseek|Kimi|MiniCPM3|LongcatFlash|Youtu", _LATENT),
    (r"\w*(?:Moe|MoE|Mixtral|GptOss|FlexOlmo|Dbrx|JetMoe|Dots1|Llama4)", _MIXES),
    (r"(?:Phi|GPT|Gpt|Falcon|MPT|Mpt|OPT|Bloom|Persimmon|Olmo|Nemotron)\w*(?:For|LMHead)", _EARLIER),
    (r"\w+ForConditionalGeneration$", _SEES),
    (r"\w+Model$", _ENCODES),
)


def reason_for(name: str) -> str | None:
    """Return why a class is not served, and what to do; None where nothing is known of it."""
    return next((reason for pattern, reason in _REASONS if re.match(pattern, name)), None)
