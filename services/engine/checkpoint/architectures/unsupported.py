"""Why some classes, and architectures of GGUF files, are not served, and what to do instead."""

import re

_ENCODES = "it encodes texts and generates none: use a server of embeddings, or the library of the classifier"
_READS = "its decoder attends to the output of an encoder: use a decoder-only model"
_SEES = "it reads images or video beside text: use a text model of its family, such as Qwen3 or Gemma 3"
_LOOKS = "it reads images or video and generates no text: use the library that it is published for"
_HEARS = "it reads or generates sound: use a text model here, and another server for sound"
_REMEMBERS = (
    "it has a recurrent state (state space, delta rule), which cannot be rewound after rejected predictions: use a "
    "model whose layers all have attention"
)
_MIXES = (
    "it is a mixture of experts of an unsupported kind: use a dense model of its family, or one of "
    "Mixtral, OLMoE, Qwen 2 MoE, Qwen 3 MoE, Qwen 3.5 MoE, Gemma 4, LFM2 MoE, GLM 4.5 and GPT-OSS"
)
_EARLIER = (
    "its layers have an older, unsupported structure: use a newer model, such as Qwen3, OLMo 3, StarCoder2 or Cohere 2"
)
_LATER = "its layers share keys, values or embeddings in an unsupported way: use Gemma 4"
_ASSISTS = "it predicts for a Gemma 4 by its keys and values, which is not supported: use the model without it"
_LATENT = (
    "it has latent attention of an unsupported kind (sparse, with a recurrent state, or its own structure): use GLM "
    "4.7 Flash, DeepSeek V2, V3 or R1, or a model with keys and values"
)

_TASKS_OF_TEXTS = "MaskedLM|SequenceClassification|TokenClassification|QuestionAnswering|MultipleChoice|PreTraining"
_TASKS_OF_PICTURES = "Image|Object|Depth|Semantic|Instance|Universal|Panoptic|Video|Keypoint|Pose|Zero|MaskedImage"

# The first pattern that matches the beginning of a name counts.
_REASONS = (
    (r"Lfm2Vl|Lfm2VL", _SEES),
    (
        r"Mamba|FalconH1|FalconMamba|Jamba|Zamba|Bamba|NemotronH|RecurrentGemma|Rwkv|xLSTM",
        _REMEMBERS,
    ),
    (r"GraniteMoeHybrid|KimiLinear|OlmoHybrid|MiniMax(?!M[23])|BailingHybrid|RetNet|Hrm", _REMEMBERS),
    (r"\w*For(?:AudioClassification|AudioFrame|AudioXVector|CTC|RNNT|TDT|XVector)", _HEARS),
    (r"Whisper|Wav2Vec|WavLM|Hubert|SpeechT5|Moshi|Voxtral|Musicgen|Qwen2Audio|\w*Speech|Bark|Kyutai|\w*ASR", _HEARS),
    (r"AudioFlamingo|Granite\w*Speech|UniSpeech|SeamlessM4T|Csm|Dia(?:For|Model)|Parakeet|Canary", _HEARS),
    (r"Qwen2VL|Qwen2_5_VL|Qwen3VL|Qwen2_5Omni|Qwen3Omni|\w*Llava|Mllama|PaliGemma|Idefics|SmolVLM|InternVL", _SEES),
    (r"Llama4ForCond|Phi4Multimodal|Glm4v|Pixtral|Cohere2Vision|AyaVision|Blip|Kosmos|Fuyu|Emu3|Chameleon", _SEES),
    (r"Gemma3n", _LATER),
    (r"Gemma4\w*Assistant", _ASSISTS),
    (r"CLIP|Siglip|Dinov|\w*ViT(?!\w*ForCausal)|\w*Vision|\w*Backbone$", _LOOKS),
    (rf"\w*For(?:{_TASKS_OF_PICTURES})", _LOOKS),
    (r"T5|Bart|MBart|Pegasus|Marian|M2M|Led|\w*EncoderDecoder|UMT5|MT5|Longt5|LongT5|Blenderbot|ProphetNet", _READS),
    (r"\w*(?:Bert|[Rr]oberta|Electra|Deberta|MPNet|XLNet|Longformer|RoFormer|BigBird|DPR|Camembert|Funnel)", _ENCODES),
    (rf"\w+For(?:{_TASKS_OF_TEXTS})$", _ENCODES),
    (r"DeepseekForCausalLM$", _MIXES),
    (r"Deepseek|Kimi|MiniCPM3|LongcatFlash|Youtu", _LATENT),
    (r"\w*(?:Moe|MoE|moe|MiniMaxM2|Mixtral|FlexOlmo|Dbrx|JetMoe|Dots1|Llama4)", _MIXES),
    (
        r"(?:Phi|GPT|Gpt|Falcon|MPT|Mpt|OPT|Bloom|Persimmon|Olmo|Nemotron|CodeGen|CTRL|OpenAIGPT|XGLM|BioGpt)\w*",
        _EARLIER,
    ),
    (r"\w+ForConditionalGeneration$", _SEES),
    (r"\w+(?:Model|Encoder)$", _ENCODES),
)

_PROJECTS = "it is the part that reads images or sound: name the file of the model itself, whose text part is served"

# These patterns match whole names.
_REASONS_OF_FILES = (
    (r"clip", _PROJECTS),
    (
        r"mamba2?|a?rwkv\w*|jamba|falcon-h1|nemotron_h\w*|granitehybrid|plamo2|kimi-linear",
        _REMEMBERS,
    ),
    (r"(?:euro|\w+-)?bert(?:-moe)?|jina-bert-v[23]|nomic-bert\w*|gemma-embedding|llama-embed|t5encoder", _ENCODES),
    (r"t5", _READS),
    (r"qwen2vl|qwen3vl|qwen3vlmoe|cogvlm|chameleon|hunyuan_vl|paddleocr", _SEES),
    (r"wavtokenizer-dec", _HEARS),
    (r"gemma3n", _LATER),
    (r"deepseek2|minicpm3|plm|glm-dsa", _LATENT),
    (r".*moe\w*|llama4|dbrx|grok|arctic|deepseek|dots1|minimax-m2|smallthinker|mimo2|phimoe", _MIXES),
    (
        r"falcon|gpt2|gptj|gptneox|mpt|bloom|persimmon|phi2|starcoder|olmo|nemotron|codeshell|refact|orion|qwen",
        _EARLIER,
    ),
)


def reason_for_file(name: str) -> str | None:
    """Return why the architecture of a GGUF file is not served, and what to do; None if it is unknown."""
    return next((reason for pattern, reason in _REASONS_OF_FILES if re.fullmatch(pattern, name)), None)


def reason_for(name: str) -> str | None:
    """Return why a class is not served, and what to do; None if it is unknown."""
    return next((reason for pattern, reason in _REASONS if re.match(pattern, name)), None)
