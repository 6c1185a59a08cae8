"""An attached drafter in plain torch, the oracle of the native one: by section 3 of EAGLE-3 (arXiv 2503.01840), by
section 2.2 of DeepSeek-V3 (arXiv 2412.19437) where the two vectors of a row are joined, or by section 4 of DFlash
(arXiv 2602.06036) where it predicts blocks.
"""

from collections.abc import Sequence as Seq

import torch
from torch import Tensor

from services.engine.checkpoint.model_config import Attention, FeatureNorm
from tests.native.harness.reference_decoder import KvCache, ReferenceDecoder, rotate


class ReferenceDrafter(ReferenceDecoder):
    """One sequence, whose rows have a token and the hidden vector of the token before it."""

    def hidden(self, features: Tensor) -> Tensor:
        """The hidden vectors of rows of the target.  # [rows, count * width] -> [rows, hidden]"""
        shape = self.config.features
        assert shape is not None
        if shape.norm is FeatureNorm.ALL:
            features = self._norm("feature_norm", features)
        if shape.norm is FeatureNorm.EACH:
            parts = features.split(shape.width, dim=-1)
            features = torch.cat([self._norm(f"feature_norm.{index}", part) for index, part in enumerate(parts)], -1)
        return features if shape.fc_reads_both else self._linear("fc", features, has_bias=False)

    @torch.inference_mode()
    def read(self, hidden: Tensor, token_ids: Seq[int], cache: KvCache) -> tuple[Tensor, Tensor]:
        """The logits of rows, [rows, head size], and the hidden vectors of the rows after them, [rows, hidden]."""
        shape = self.config.features
        assert shape is not None
        positions = torch.arange(cache.length, cache.length + len(token_ids))
        normed = self._norm("hidden_norm", hidden)
        norm = "embedding_norm" if shape.fc_reads_both else "layers.0.attention_norm"
        both = torch.cat([self._norm(norm, self._weights["embedding"][torch.tensor(token_ids)]), normed], -1)
        residual = normed if shape.norm_residual else hidden
        if shape.fc_reads_both:
            residual = self._linear("fc", both, has_bias=False)
        for layer in range(self.config.num_layers):
            read = both if layer == 0 and not shape.fc_reads_both else None
            residual = self._layer(layer, residual, positions, cache, read)
        cache.length += len(token_ids)
        last = self._norm("final_norm", residual)
        return (last @ self._weights["lm_head"].T).float(), last if shape.norm_carried else residual

    @torch.inference_mode()
    def store_context(self, hidden: Tensor, cache: KvCache) -> None:
        """Add keys and values of rows of the target, [rows, hidden], to the cache."""
        context = self._norm("hidden_norm", hidden)
        positions = torch.arange(cache.length, cache.length + len(hidden))
        for index, layer in enumerate(self.config.layers):
            assert isinstance(layer, Attention)
            prefix = f"layers.{index}."
            keys = self._heads(prefix + "k", context, self.config.head_dim)
            keys = rotate(keys, positions, self.config.ropes[layer.rope])
            cache.append(index, keys, self._values(prefix, layer, context))
        cache.length += len(hidden)

    @torch.inference_mode()
    def block(self, token_ids: Seq[int], cache: KvCache) -> Tensor:
        """The logits of a block after the context, whose rows do not stay in the cache.  # [rows, head size]"""
        positions = torch.arange(cache.length, cache.length + len(token_ids))
        residual = self._weights["embedding"][torch.tensor(token_ids)]
        after = KvCache(dict(cache.keys), dict(cache.values), length=cache.length)
        for layer in range(self.config.num_layers):
            residual = self._layer(layer, residual, positions, after)
        self.last = self._norm("final_norm", residual)
        return (self.last @ self._weights["lm_head"].T).float()

    @torch.inference_mode()
    def bias(self, token_id: int) -> Tensor:
        """What the token before adds to a row's logits (DSpark).  # [head size]"""
        return self._weights["markov_out"] @ self._weights["markov_in"][token_id]

    @torch.inference_mode()
    def confidence(self, row: int, token_id: int) -> float:
        """The estimated chance of a row of the last block after a token."""
        both = torch.cat([self.last[row], self._weights["markov_in"][token_id]])
        return float(torch.sigmoid(self._linear("confidence", both, has_bias=True)))
