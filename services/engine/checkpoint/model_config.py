"""ModelConfig: every flag by which the supported architectures differ."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


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
class LayerMlp:
    """What all kinds of layers have after mixing tokens: an MLP for all tokens, experts, or both."""

    mlp_size: int | None = None  # of the MLP; None: the model's intermediate_size
    has_experts: bool = True  # if the model has any


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention(LayerMlp):
    """A layer whose tokens attend to earlier ones."""

    kind: ClassVar[str] = "attention"
    window: int = 0  # the most positions that a token attends to, its own included; 0: all
    rope: int = 0  # index of the model's ropes
    looks_ahead: bool = False  # a token also attends to the later ones of its block, see FeatureBlock
    head_dim: int | None = None  # None: the model's
    num_kv_heads: int | None = None  # None: the model's
    values_are_keys: bool = False  # as they are before they are normed and rotated
    kv_layer: int | None = None  # an earlier layer whose keys and values it reads, instead of its own
    target_layer: int | None = None  # likewise, of an attached drafter: a layer of its target

    @property
    def stores(self) -> bool:
        """Whether it has keys and values of its own."""
        return self.kv_layer is None and self.target_layer is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortConvolution(LayerMlp):
    """A layer whose tokens read a few earlier ones by fixed taps, instead of attention."""

    kind: ClassVar[str] = "short_convolution"
    taps: int  # the positions that a token reads, its own included


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDelta(LayerMlp):
    """A layer that carries a matrix per value head along the sequence, instead of attention."""

    kind: ClassVar[str] = "gated_delta"
    key_heads: int
    value_heads: int  # a multiple of key_heads
    key_dim: int
    value_dim: int
    taps: int  # of the convolution of queries, keys and values

    @property
    def num_channels(self) -> int:
        """The values that are convolved: queries and keys of all key heads, values of all value heads."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention(LayerMlp):
    """A layer whose tokens attend to latent vectors, from which each head's keys and values are made.

    DeepSeek-V2, arXiv 2405.04434, section 2.1.
    """

    kind: ClassVar[str] = "latent_attention"
    query_rank: int  # of the vectors from which queries are made; 0: the layer's input
    rank: int  # of the latent vector of a token
    turning: int  # numbers of a key, which all heads share, and of a head's query, that turn by position
    key_dim: int  # of a head's keys, without what turns
    value_dim: int  # of a head's values
    norm_eps: float  # of the norms of both vectors

    @property
    def width(self) -> int:
        """The numbers that are kept of a token."""
        return self.rank + self.turning

    @property
    def query_dim(self) -> int:
        """The numbers of a head's query."""
        return self.key_dim + self.turning


Layer = Attention | ShortConvolution | GatedDelta | LatentAttention


class ExpertScores(StrEnum):
    """The scores of experts by a router's logits: the softmax over all, or the logistic function of each."""

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts: MLPs among which a router chooses some for each token.

    Of several groups, those are considered whose best experts have the greatest logits (DeepSeek-V2, arXiv 2405.04434,
    section 2.2.2), or whose best two have the greatest sums of sigmoids (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
    """

    count: int
    per_token: int
    size: int  # the intermediate size of each expert
    are_normalised: bool  # the chosen experts' scores are divided by their sum
    scores: ExpertScores = ExpertScores.SOFTMAX
    sum_offset: float = 0.0  # added to that sum
    weight_scale: float = 1.0
    groups: int = 1  # of neighbouring experts, equally many
    groups_per_token: int = 1
    have_biases: bool = False  # of the experts and the router
    has_choice_bias: bool = False  # of each expert, added to its score only when experts are chosen
    has_shared_gate: bool = False  # the MLP for all tokens beside the experts is scaled by a gate, a sigmoid
    have_scales: bool = False  # each expert's weight is scaled
    have_norms: bool = False  # of the router's and the experts' inputs, and of what MLP and experts give


class FeatureNorm(StrEnum):
    """How the features of a row are normed."""

    NONE = "none"
    ALL = "all"  # as one vector
    EACH = "each"  # each by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureBlock:
    """An attached drafter that predicts several tokens in one pass, over the last token and mask tokens after it."""

    size: int  # most rows: the last token's and the masks
    mask_token: int
    continues_rows: bool = False  # masks continue the rows that were read; else features are a context
    first_predicts: bool = False  # each row predicts the next token; else each mask the token in its place
    markov_rank: int = 0  # of the Markov head, by which a row depends on the token before; 0: there is none
    has_confidence: bool = False  # it estimates the chance that each row's draw is right

    @property
    def most_predictions(self) -> int:
        """The most predictions of one pass."""
        return self.size if self.first_predicts else self.size - 1

    @property
    def further_rows(self) -> int:
        """How many more rows a block writes than a chain of as many predictions."""
        return 0 if self.continues_rows else 1 if self.first_predicts else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The input of an attached drafter beside its tokens: residual streams of its target."""

    count: int  # residual streams, each after some of the target's layers
    width: int  # of each, the target's hidden size
    norm: FeatureNorm = FeatureNorm.NONE
    fc_reads_both: bool = False  # the token's vector and the hidden one; else layer 0 does, and `fc` reads the features
    norm_residual: bool = False  # the residual begins with the normed hidden vector
    norm_carried: bool = False  # the next row's hidden vector is normed
    own_embedding: bool = False  # else it is the target's
    head_size: int = 0  # rows of an output matrix of its own; 0: the target's
    block: FeatureBlock | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A decoder-only transformer, independent of the names its checkpoint uses."""

    architecture: str
    layers: tuple[Layer, ...]
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
    ropes: tuple[Rope, ...]
    tied_embeddings: bool
    conv_bias: bool = False  # on all projections of a short convolution
    attention_softcap: float = 0.0
    attention_gate: bool = False  # each value of the heads' outputs has a gate, a sigmoid
    attention_sinks: bool = False  # each head has a score without a value that joins every softmax
    logit_softcap: float = 0.0
    embedding_scale: float = 1.0
    logit_scale: float = 1.0
    norm: Norm = Norm.RMS
    norm_bias: bool = False  # except norms of query and key
    qk_norm: QkNorm = QkNorm.NONE
    value_norm: bool = False  # each head of values is divided by its root mean square
    layer_scale: bool = False  # the residual is scaled after each layer
    layer_input_size: int = 0  # of each layer's own input, which depends on the token; 0: none
    pre_norm: bool = True
    post_norm: bool = False
    attention_bias: bool = False  # on query, key and value
    output_bias: bool = False  # on attention's output
    mlp_bias: bool = False
    gated_mlp: bool = True
    parallel_mlp: bool = False  # the MLP has the same input as attention
    experts: Experts | None = None  # beside the MLP for all tokens
    features: Features | None = None  # of an attached drafter

    @property
    def reads_target(self) -> bool:
        """Whether the layers of an attached drafter read keys and values of its target, and have none of their own."""
        first = self.layers[0]
        return isinstance(first, Attention) and first.target_layer is not None

    @property
    def has_states(self) -> bool:
        """Whether any layer carries a state along the sequence."""
        return self.delta is not None

    @property
    def delta(self) -> GatedDelta | None:
        """The first of the layers that carry a state, which are all alike; None if there are none."""
        return next((layer for layer in self.layers if isinstance(layer, GatedDelta)), None)

    @property
    def latent(self) -> LatentAttention | None:
        """The first of the layers that attend to latent vectors, whose sizes are all alike; None if there are none."""
        return next((layer for layer in self.layers if isinstance(layer, LatentAttention)), None)

    @property
    def num_layers(self) -> int:
        """The number of layers."""
        return len(self.layers)

    def head_dim_of(self, layer: Attention) -> int:
        """Return the size of a layer's heads."""
        return self.head_dim if layer.head_dim is None else layer.head_dim

    def num_kv_heads_of(self, layer: Attention) -> int:
        """Return the number of a layer's heads of keys and values."""
        return self.num_kv_heads if layer.num_kv_heads is None else layer.num_kv_heads

    def mlp_size(self, layer: LayerMlp) -> int:
        """Return the size of a layer's MLP for all tokens; 0: it has none."""
        return self.intermediate_size if layer.mlp_size is None else layer.mlp_size

    def experts_of(self, layer: LayerMlp) -> Experts | None:
        """Return a layer's experts; None if it has none."""
        return self.experts if layer.has_experts else None


def attention_layers(windows: Seq[int], ropes: Seq[int] = ()) -> tuple[Layer, ...]:
    """Return layers that all have attention, by their windows and ropes; by default all have the first rope."""
    pairs = zip(windows, ropes or [0] * len(windows), strict=True)
    return tuple(Attention(window=window, rope=rope) for window, rope in pairs)
