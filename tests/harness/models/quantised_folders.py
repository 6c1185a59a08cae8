"""Folders whose matrices other tools have quantised: by compressed-tensors' own code, or as a format's definition has
it, from a small random Llama of one layer.
"""

import functools
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams

from tests.harness.models.checkpoints import Kind, edit_json, edit_weights, scratch, write_random_checkpoint

Tensors = dict[str, torch.Tensor]
Packed = tuple[Tensors, torch.Tensor]
"""What stands for a matrix, by the ends of names, and the values that it stands for.  # [out, in] float32"""

_SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "head_dim": 16,
    "vocab_size": 512,
}


@dataclass(frozen=True)
class Quantised:
    """One way of quantisation: how a matrix is packed, what config.json says, and as what it is held here."""

    pack: Callable[[torch.Tensor], Packed]
    config: dict[str, Any]
    kind: str


def _rounded(weight: torch.Tensor, groups: torch.Tensor, bits: int, *, symmetric: bool) -> tuple[torch.Tensor, ...]:
    """Numbers from 0 on [out, in], zero points and float16 scales [groups, out] of inputs that share them by group."""
    most, num_groups = 2**bits - 1, int(groups.max()) + 1
    scales, zeros = torch.empty(num_groups, len(weight)), torch.empty(num_groups, len(weight), dtype=torch.int32)
    for group in range(num_groups):
        part = weight[:, groups == group]
        low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
        span = 2 * torch.maximum(-low, high) if symmetric else high - low
        scales[group] = (span / most).half().float()
        middle = torch.full_like(low, 2 ** (bits - 1))
        zeros[group] = (middle if symmetric else (-low / scales[group]).round()).clamp(0, most).int()
    numbers = ((weight / scales[groups].T).round() + zeros[groups].T).clamp(0, most).int()
    return numbers, zeros, scales


def _packed(numbers: torch.Tensor, bits: int) -> torch.Tensor:
    """Neighbours along the last axis in words of 32 bits, which they may cross, the first in the lowest bits."""
    each = (numbers.long()[..., None] >> torch.arange(bits) & 1).flatten(-2)  # bits
    words = torch.nn.functional.pad(each, (0, -each.shape[-1] % 32)).unflatten(-1, (-1, 32))
    return (words << torch.arange(32)).sum(-1).to(torch.uint32).view(torch.int32)


def gptq(
    group: int, *, bits: int = 4, symmetric: bool = True, reordered: bool = False, version: int = 1, exact: bool = True
) -> Quantised:
    """AutoGPTQ's layout, as `QuantLinear.pack` writes it."""

    def pack(weight: torch.Tensor) -> Packed:
        groups = torch.arange(weight.shape[1]) // (group if group > 0 else weight.shape[1])
        if reordered:
            groups = groups[torch.randperm(len(groups), generator=torch.Generator().manual_seed(5))]
        numbers, zeros, scales = _rounded(weight, groups, bits, symmetric=symmetric)
        values = (numbers - zeros[groups].T).float() * scales[groups].T
        stored = (zeros - int(version == 1)) % 2**bits
        tensors = {
            "qweight": _packed(numbers, bits).T.contiguous(),
            "qzeros": _packed(stored, bits),
            "scales": scales.half(),
            "g_idx": groups.int(),
        }
        return tensors, values

    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": reordered, "sym": symmetric}
    held = "F32" if reordered else "Q4_0" if bits < 4 or (bits == 4 and symmetric) else "Q8_0"
    names = {1: "gptq", 2: "gptq_v2"}
    return Quantised(pack, config | {"checkpoint_format": names[version]}, held)


def awq(group: int) -> Quantised:
    """AutoAWQ's layout for GEMM: eight outputs in a word, in the order of their kernel."""

    def pack(weight: torch.Tensor) -> Packed:
        groups = torch.arange(weight.shape[1]) // group
        numbers, zeros, scales = _rounded(weight, groups, 4, symmetric=False)
        places = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])

        def words(rows: torch.Tensor) -> torch.Tensor:  # [rows, out]
            return _packed(rows.reshape(len(rows), -1, 8)[..., places].reshape(len(rows), -1), 4)

        tensors = {"qweight": words(numbers.T), "qzeros": words(zeros), "scales": scales.half()}
        return tensors, (numbers - zeros[groups].T).float() * scales[groups].T

    config = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}
    return Quantised(pack, config, "Q8_0")


def compressed(form: str, kind: str, scale_dtype: torch.dtype = torch.bfloat16, **weights: Any) -> Quantised:
    """What compressed-tensors makes of matrices with such arguments."""
    args = QuantizationArgs(**weights)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    compressor = BaseCompressor.get_value_from_registry(form)

    def pack(weight: torch.Tensor) -> Packed:
        match args.strategy:
            case "group":
                parts = weight.unflatten(1, (-1, args.group_size))
                low, high = parts.amin(2), parts.amax(2)
            case "block":
                rows, columns = args.block_structure
                parts = weight.unflatten(1, (-1, columns)).unflatten(0, (-1, rows))
                low, high = parts.amin((1, 3)), parts.amax((1, 3))
            case "channel":
                low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
            case _:
                low, high = weight.amin().reshape(1), weight.amax().reshape(1)
        scale, zero = calculate_qparams(low, high, args)
        scale = scale.to(scale_dtype)
        parts = compressor.compress({"weight": weight, "weight_scale": scale, "weight_zero_point": zero}, scheme)
        whole = {name: value.float() if name == "weight_scale" else value for name, value in parts.items()}
        return parts, compressor.decompress(whole, scheme)["weight"].float()

    groups = {"group_0": {"targets": ["Linear"], "weights": args.model_dump(mode="json"), "input_activations": None}}
    config = {"quant_method": "compressed-tensors", "format": form, "config_groups": groups, "ignore": ["lm_head"]}
    return Quantised(pack, config | {"quantization_status": "compressed"}, kind)


def float8(scales: str, name: str = "weight_scale_inv", **config: Any) -> Quantised:
    """Weights as vendors publish them, with a scale for the whole, each output, or each block of 32 by 64."""

    def pack(weight: torch.Tensor) -> Packed:
        blocks = {"tensor": tuple(weight.shape), "channel": (1, weight.shape[1]), "block": (32, 64)}[scales]
        parts = weight.unflatten(1, (-1, blocks[1])).unflatten(0, (-1, blocks[0]))
        scale = parts.abs().amax((1, 3)) / 448
        spread = scale.repeat_interleave(blocks[0], 0).repeat_interleave(blocks[1], 1)
        numbers = (weight / spread).to(torch.float8_e4m3fn)
        shape = () if scales == "tensor" else scale.shape
        return {"weight": numbers, name: scale.reshape(shape)}, numbers.float() * spread

    return Quantised(pack, {"quant_method": "fp8", "activation_scheme": "dynamic", **config}, "F32")


_GROUP: dict[str, Any] = {"num_bits": 4, "strategy": "group", "group_size": 32}
WAYS: dict[str, Quantised] = {
    "gptq": gptq(32),
    "gptq of 64": gptq(64),
    "gptq of all inputs": gptq(-1),
    "gptq v2": gptq(32, version=2),
    "gptq with zero points": gptq(64, symmetric=False),
    "gptq with zero points, v2": gptq(32, symmetric=False, version=2),
    "gptq reordered": gptq(32, reordered=True),
    "gptq of 2 bits": gptq(32, bits=2, symmetric=False),
    "gptq of 3 bits": gptq(32, bits=3),
    "gptq of 8 bits": gptq(64, bits=8),
    "awq": awq(32),
    "awq of 64": awq(64),
    "int4 packed": compressed("pack-quantized", "Q4_0", **_GROUP),
    "int4 packed with zero points": compressed("pack-quantized", "Q8_0", **_GROUP, symmetric=False),
    "int8 packed": compressed("pack-quantized", "Q8_0", num_bits=8, strategy="channel"),
    "int6 packed": compressed("pack-quantized", "Q8_0", num_bits=6, strategy="channel"),
    "int4 with scales in float32": compressed("pack-quantized", "F32", torch.float32, **_GROUP),
    "int8 by outputs": compressed("int-quantized", "Q8_0", num_bits=8, strategy="channel"),
    "int8 by outputs with zero points": compressed(
        "int-quantized", "F32", num_bits=8, strategy="channel", symmetric=False
    ),
    "int8 of 64": compressed("naive-quantized", "Q8_0", num_bits=8, strategy="group", group_size=64),
    "compressed float8": compressed("float-quantized", "F32", num_bits=8, type="float", strategy="channel"),
    "compressed float8 in blocks": compressed(
        "float-quantized", "F32", num_bits=8, type="float", strategy="block", block_structure=[32, 64]
    ),
    "float8 in blocks": float8("block", weight_block_size=[32, 64]),
    "float8 whole": float8("tensor"),
    "float8 by outputs": float8("channel", "weight_scale", quant_method="fbgemm_fp8"),
}


def quantised_folder(way: str) -> Path:
    """Return the folder of a checkpoint that one of WAYS has quantised, made once per process."""
    return _written(way)[0]


def plain_folder(way: str) -> Path:
    """Return the folder of the values that it stands for, in float32."""
    return _written(way)[1]


@functools.cache
def _written(way: str) -> tuple[Path, Path]:
    base = scratch() / "quantised by nobody"
    if not base.exists():
        write_random_checkpoint(base, Kind.LLAMA, **_SIZES)
    folders = (scratch() / way, scratch() / f"{way} in float32")
    for folder in folders:
        shutil.copytree(base, folder)
    values = quantise(folders[0], WAYS[way])
    edit_weights(folders[1], lambda tensors: tensors.update(values))
    return folders


def quantise(folder: Path, way: Quantised) -> Tensors:
    """Quantise the matrices of the layers in place, but for routers; returns the values that they stand for."""
    values: Tensors = {}

    def edit(tensors: Tensors) -> None:
        matrices = [name for name, tensor in tensors.items() if tensor.ndim == 2]
        for name in [name for name in matrices if re.search(r"_proj|\.w[123]\.", name)]:
            parts, values[name] = way.pack(tensors.pop(name))
            tensors |= {f"{name.removesuffix('weight')}{part}": value.contiguous() for part, value in parts.items()}

    edit_weights(folder, edit)
    edit_json(folder / "config.json", quantization_config=way.config)
    return {name: value.contiguous() for name, value in values.items()}


def config_of(folder: Path) -> dict[str, Any]:
    """Return the quantization_config of a folder."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())["quantization_config"]
    return config
