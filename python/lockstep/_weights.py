"""The weights of checkpoints: safetensors files, by the names of docs/checkpoint-format.md."""

from __future__ import annotations

import json
import os
import struct
from array import array
from pathlib import Path
from typing import Any, Union

from ._program import call

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

PathLike = Union[str, "os.PathLike[str]"]


def _folder_of(path: Path, which: str | int) -> Path:
    if (path / "model.safetensors").is_file():
        return path
    found = json.loads(call(["inspect", str(path), "--json"])).get("checkpoints", [])
    for checkpoint in found:
        if checkpoint["step"] == which or checkpoint.get(str(which)) is True:
            return Path(checkpoint["path"])
    steps = ", ".join(str(checkpoint["step"]) for checkpoint in found) or "none"
    raise FileNotFoundError(f"{path} has no checkpoint '{which}': it has those of steps {steps}")


def _array(dtype: str, shape: list[int], data: bytes) -> Any:
    if dtype not in ("F32", "BF16"):
        raise ValueError(f"tensors of type {dtype} are not read: F32 and BF16 are")
    if numpy is not None:
        if dtype == "BF16":
            return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
        return numpy.frombuffer(data, "<f4").reshape(shape).copy()
    if dtype == "BF16":
        data = array("I", (half << 16 for half in array("H", data))).tobytes()
    return memoryview(data).cast("f", shape)


def load(run: PathLike, checkpoint: str | int = "best") -> dict[str, Any]:
    """The weights of a run or of a checkpoint's folder, by name, such as ``transformer.h.0.attn.c_attn.weight``.

    They are float32: numpy arrays where numpy is installed, else memoryviews of that shape. Those that are stored in bf16 are
    widened. ``checkpoint``: ``best``, ``last`` or a step.
    """
    file = _folder_of(Path(run), checkpoint) / "model.safetensors"
    with open(file, "rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        weights = {}
        for name, tensor in header.items():
            begin, end = tensor["data_offsets"]
            stream.seek(8 + length + begin)
            weights[name] = _array(tensor["dtype"], tensor["shape"], stream.read(end - begin))
    return weights
