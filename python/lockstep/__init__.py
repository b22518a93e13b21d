"""Trains GPT-style language models on ordinary processors, by the program ``lockstep`` that comes with this module.

>>> import lockstep
>>> lockstep.prepare("book.txt", "data/book")
>>> run = lockstep.run("data/book", folder="runs/book", settings={"model.n_layer": 4, "train.max_iters": 500})
>>> lockstep.metrics(run)[-1]["val_loss"]
>>> weights = lockstep.load(run)
>>> print(lockstep.generate(run, prompt="It was"))

The settings are those of ``lockstep help config``.
"""

from ._program import Error, program
from ._runs import generate, metrics, prepare, run
from ._weights import load

__all__ = ["Error", "generate", "load", "metrics", "prepare", "program", "run"]
