"""ModelConfig: every flag by which the supported architectures differ."""

from dataclasses import dataclass
from enum import StrEnum


class Activation(StrEnum):
    """The activation function in the MLP, of the gate where there is one."""

    SILU = "silu"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"  # by its tanh
    CLAMPED_SWIGLU = "clamped_swiglu"  # of gate and what it gates, both clamped, as GPT-OSS has it


class Norm(StrEnum):
    """What norms divide by: the root mean square, or the standard deviation, after they have taken off the mean."""

    RMS = "rms"
    LAYER = "layer"


class QkNorm(StrEnum):
    """What the norm of query and key runs over, where there is one."""

    NONE = "none"
    HEAD = "head"  # each head, with weights that all share
    EACH = "each"  # each head, with weights of its own
    FULL = "full"  # all heads as one


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """One rotary table: its inverse frequencies and the factor on cosine and sine."""

    frequencies: tuple[float, ...]  # [rotary_dim / 2]
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """MLPs of which each token goes through those that a router chooses for it."""

    count: int
    per_token: int
    size: int  # of each, as intermediate_size is of an MLP
    are_normalised: bool  # the weights of the chosen ones sum up to 1
    have_biases: bool = False  # and so has the router


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A decoder-only transformer, independent of the names its checkpoint uses."""

    architecture: str
    num_layers: int
    hidden_size: int
    intermediate_size: int  # of the MLP that all tokens go through; 0: none, where there are experts
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_position: int
    norm_eps: float
    activation: Activation
    query_scale: float
    windows: tuple[int, ...]  # [layers], 0: the whole context
    ropes: tuple[Rope, ...]
    rope_of_layer: tuple[int, ...]  # [layers]
    tied_embeddings: bool
    conv_taps: tuple[int, ...] = ()  # [layers], of the short convolution in attention's place, 0: none; or empty
    conv_bias: bool = False  # on all that a short convolution has
    attention_softcap: float = 0.0
    attention_sinks: bool = False  # a score of each head, with no value behind it, joins every softmax
    logit_softcap: float = 0.0
    embedding_scale: float = 1.0
    logit_scale: float = 1.0
    norm: Norm = Norm.RMS
    norm_bias: bool = False  # not on those of query and key
    qk_norm: QkNorm = QkNorm.NONE
    pre_norm: bool = True
    post_norm: bool = False
    attention_bias: bool = False  # on query, key and value
    output_bias: bool = False  # on what attention gives
    mlp_bias: bool = False
    gated_mlp: bool = True
    parallel_mlp: bool = False  # it reads what attention reads, not what that has added to
    experts: Experts | None = None  # beside an MLP for all tokens, that one by a gate

    def taps_of(self, layer: int) -> int:
        """How many positions a layer's short convolution reads; 0 where it attends."""
        return self.conv_taps[layer] if self.conv_taps else 0
