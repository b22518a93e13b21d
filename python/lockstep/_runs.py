"""Runs: made, read and written with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Mapping, Sequence, Union

from ._program import call

PathLike = Union[str, "os.PathLike[str]"]


def _word(value: object) -> str:
    """A value as a setting has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def prepare(text: PathLike, folder: PathLike, *, tokenizer: str = "char") -> Path:
    """Turns a text, a folder of texts or JSONL into the token files that training reads, and returns their folder.

    ``tokenizer``: ``char``, ``byte``, ``bpe:SIZE``, ``gpt2:FOLDER`` or ``hf:FILE``.
    """
    call(["prepare", os.fspath(text), "--tokenizer", tokenizer, "--out", os.fspath(folder)])
    return Path(folder)


def run(
    data: PathLike,
    *,
    folder: PathLike,
    config: PathLike | Sequence[PathLike] = (),
    settings: Mapping[str, object] | None = None,
    ranks: int = 1,
    quiet: bool = True,
) -> Path:
    """Trains a model on the prepared text ``data`` and returns the run's folder, ``folder``.

    ``config``: recipes, later ones over earlier ones. ``settings``: over them, by name, such as
    ``{"train.max_iters": 500, "model.n_layer": 4}``. ``ranks``: each a thread of the program. ``quiet=False`` shows the log.
    ``{"train.init_from": "resume"}`` goes on with the run in ``folder``. Raises :class:`Error` with what the program said.
    """
    recipes = [config] if isinstance(config, (str, os.PathLike)) else list(config)
    words = ["train", os.fspath(data)]
    for recipe in recipes:
        words += ["--config", os.fspath(recipe)]
    if ranks != 1:
        words += ["--ranks", str(ranks)]
    words += [f"{name}={_word(value)}" for name, value in (settings or {}).items()]
    call([*words, f"log.dir={os.fspath(folder)}"], capture=quiet)
    return Path(folder)


def metrics(run: PathLike) -> list[dict[str, Any]]:
    """What a run measured, in its order: a dict for each logged step, and one with ``eval`` for each evaluation."""
    with open(Path(run) / "metrics.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def generate(
    model: PathLike,
    *,
    prompt: str = "\n",
    tokens: int = 256,
    samples: int = 1,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 1337,
    checkpoint: str | int = "best",
    stop: Sequence[str] = (),
) -> str:
    """Writes text with the model of a run, of a checkpoint or of Hugging Face's format. The same seed writes the same text."""
    words = ["generate", os.fspath(model), f"--prompt={prompt}", f"--tokens={tokens}", f"--samples={samples}", f"--seed={seed}"]
    words += [f"--checkpoint={checkpoint}", *(f"--stop={text}" for text in stop)]
    for name, value in (("temperature", temperature), ("top-k", top_k), ("top-p", top_p)):
        if value is not None:
            words.append(f"--{name}={value}")
    return call(words)
