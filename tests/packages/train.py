"""Trains, reads and writes by the Python module that the wheel installs."""

import tempfile
from pathlib import Path

import lockstep

folder = Path(tempfile.mkdtemp())
data = lockstep.prepare("/packages/README.md", folder / "text")
settings = {"model.n_layer": 2, "model.n_head": 2, "model.n_embd": 32, "model.block_size": 32, "model.batch_size": 8}
settings |= {"train.max_iters": 60, "train.eval_interval": 30, "train.eval_iters": 4, "optimizer.learning_rate": 3e-3}
run = lockstep.run(data, folder=folder / "run", settings=settings)
losses = [row["val_loss"] for row in lockstep.metrics(run) if row.get("eval")]
assert losses[-1] < losses[0], losses
weights = lockstep.load(run)
assert tuple(weights["transformer.h.0.attn.c_attn.weight"].shape) == (96, 32), weights.keys()
assert lockstep.generate(run, tokens=20)
