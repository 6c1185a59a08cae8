"""llama.cpp's samplers, each made by its own function and applied to one row."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.native.harness.sampling_reference import Doubles, Floats, Settings
from tests.peers.sources import LLAMA, library_of

_TOKEN = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_SEED = 7
_WHOLE = 1024  # tokens, more than any history has


class _Row(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("is_sorted", ctypes.c_bool),
    )


class LlamaSamplers:
    """Raises MissingPeerError where they are not compiled."""

    def __init__(self) -> None:
        self._library = library_of(LLAMA)
        self._makers: dict[str, Callable[[Settings, int], int]] = {
            "top_k": lambda asked, _: self._new("top_k", asked.top_k),
            "top_p": lambda asked, _: self._new("top_p", asked.top_p, ctypes.c_size_t(0)),
            "min_p": lambda asked, _: self._new("min_p", asked.min_p, ctypes.c_size_t(0)),
            "typical": lambda asked, _: self._new("typical", asked.typical_p, ctypes.c_size_t(0)),
            "top_n_sigma": lambda asked, _: self._new("top_n_sigma", asked.top_n_sigma),
            "temperature": lambda asked, _: self._new(
                "temp_ext", asked.temperature, asked.dynatemp_range, asked.dynatemp_exponent
            ),
            "xtc": lambda asked, _: self._new(
                "xtc", asked.xtc_probability, asked.xtc_threshold, ctypes.c_size_t(0), _SEED
            ),
            "mirostat_1": lambda asked, vocab: self._new(
                "mirostat", vocab, _SEED, asked.mirostat_tau, asked.mirostat_eta, 100
            ),
            "mirostat_2": lambda asked, _: self._new("mirostat_v2", _SEED, asked.mirostat_tau, asked.mirostat_eta),
            "adaptive_p": lambda asked, _: self._new("adaptive_p", asked.adaptive_target, asked.adaptive_decay, _SEED),
            "penalties": lambda asked, vocab: self._new(
                "penalties", vocab, asked.penalty_last_n or _WHOLE, asked.repetition_penalty,
                asked.frequency_penalty, asked.presence_penalty,
            ),
            "dry": lambda asked, _: self._dry(asked),
        }  # fmt: skip

    def shares(self, name: str, logits: Floats, asked: Settings, history: list[int]) -> Doubles:
        """What it makes of a row after some tokens: probabilities, 0 for tokens that are cut.  # [vocab]"""
        sampler = ctypes.c_void_p(self._makers[name](asked, len(logits)))
        for token_id in history:
            self._library.llama_sampler_accept(sampler, token_id)
        tokens = np.zeros(len(logits), _TOKEN)
        tokens["id"], tokens["logit"] = np.arange(len(logits)), logits
        row = _Row(tokens.ctypes.data, len(tokens), -1, False)
        self._library.llama_sampler_apply(sampler, ctypes.byref(row))
        first = (row.data - tokens.ctypes.data) // _TOKEN.itemsize
        left = tokens[first : first + row.size]
        self._library.llama_sampler_free(sampler)
        values = left["logit"].astype(np.float64)
        result = np.zeros(len(logits))
        result[left["id"]] = np.exp(values - values.max())
        result[left["id"]] = np.where(np.isfinite(values), np.maximum(result[left["id"]], 1e-300), 0)
        return result / result.sum()

    def _new(self, name: str, *arguments: Any) -> int:
        make = getattr(self._library, f"llama_sampler_init_{name}")
        make.restype = ctypes.c_void_p
        made = [ctypes.c_float(each) if isinstance(each, float) else each for each in arguments]
        return int(make(*made))

    def _dry(self, asked: Settings) -> int:
        make = self._library.peer_dry
        make.restype = ctypes.c_void_p
        breakers = np.array(asked.dry_breaker_ids or (-1,), np.int32)
        return int(
            make(
                ctypes.c_float(asked.dry_multiplier), ctypes.c_float(asked.dry_base), asked.dry_allowed_length,
                asked.dry_penalty_last_n or _WHOLE, breakers.ctypes.data_as(ctypes.c_void_p), len(breakers),
            )
        )  # fmt: skip
