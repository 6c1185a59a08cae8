"""ModelConfig: every flag by which the supported architectures differ."""

from dataclasses import dataclass
from enum import StrEnum


class Activation(StrEnum):
    """The activation function of the MLP; it applies to the gate if there is one."""

    SILU = "silu"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"  # the approximation by tanh
    CLAMPED_SWIGLU = "clamped_swiglu"  # of clamped gate and up, as in GPT-OSS


class Norm(StrEnum):
    """RMS norms divide by the root mean square; layer norms subtract the mean and divide by the standard deviation."""

    RMS = "rms"
    LAYER = "layer"


class QkNorm(StrEnum):
    """The values over which the norm of query and key is taken."""

    NONE = "none"
    HEAD = "head"  # each head, with shared weights
    EACH = "each"  # each head, with weights of its own
    FULL = "full"  # all heads together


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """One rotary table: its inverse frequencies and the factor on cosine and sine."""

    frequencies: tuple[float, ...]  # [rotary_dim / 2]
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts: MLPs among which a router chooses some for each token."""

    count: int
    per_token: int
    size: int  # the intermediate size of each expert
    are_normalised: bool  # the weights of the chosen experts sum up to 1
    have_biases: bool = False  # of the experts and the router


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A decoder-only transformer, independent of the names its checkpoint uses."""

    architecture: str
    num_layers: int
    hidden_size: int
    intermediate_size: int  # of the MLP for all tokens; 0: there are only experts
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
    conv_taps: tuple[int, ...] = ()  # [layers], of the short convolution instead of attention; 0: attention; or empty
    conv_bias: bool = False  # on all projections of a short convolution
    attention_softcap: float = 0.0
    attention_sinks: bool = False  # each head has a score without a value that joins every softmax
    logit_softcap: float = 0.0
    embedding_scale: float = 1.0
    logit_scale: float = 1.0
    norm: Norm = Norm.RMS
    norm_bias: bool = False  # except norms of query and key
    qk_norm: QkNorm = QkNorm.NONE
    pre_norm: bool = True
    post_norm: bool = False
    attention_bias: bool = False  # on query, key and value
    output_bias: bool = False  # on attention's output
    mlp_bias: bool = False
    gated_mlp: bool = True
    parallel_mlp: bool = False  # the MLP has the same input as attention
    experts: Experts | None = None  # an MLP for all tokens beside them is gated

    def taps_of(self, layer: int) -> int:
        """Return how many positions a layer's short convolution reads; 0 for a layer with attention."""
        return self.conv_taps[layer] if self.conv_taps else 0
