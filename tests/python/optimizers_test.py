"""Three steps of optimizer.name=muon, held against torch.optim.Muon and torch.optim.AdamW. Skips without a PyTorch that has Muon."""

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

try:
    import torch
    from safetensors.torch import load_file
    from torch.optim import Muon
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", "build/lockstep")
RATE, DECAY, STEPS = 0.02, 0.1, 3


def lockstep(*arguments):
    ran = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    assert ran.returncode == 0, f"{arguments}: {ran.stderr}"


def is_hidden(name):
    return name.endswith(("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight"))


def parts(name, tensor):
    """q, k and v are matrices of their own."""
    return tensor.chunk(3) if name.endswith("c_attn.weight") else (tensor,)


class Optimizers(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        text = self.folder / "text.txt"
        random.seed(1)
        text.write_text("".join(random.choices("abcdefgh \n", k=20000)))
        lockstep("prepare", text, "--tokenizer", "char", "--out", self.folder / "data")

    def dump(self, step, rate, *more):
        run = self.folder / f"run-{step}-{rate}"
        lockstep("train", f"data.dir={self.folder / 'data'}", f"log.dir={run}", "model.n_layer=2", "model.n_head=3", "model.n_embd=48",
                 "model.block_size=32", "model.batch_size=4", f"train.max_iters={step + 1}", f"train.dump_step={step}",
                 "train.warmup_iters=0", "optimizer.name=muon", f"optimizer.learning_rate={rate}", "optimizer.decay_lr=false",
                 "optimizer.momentum=0.95", "optimizer.beta2=0.99", f"optimizer.weight_decay={DECAY}", "optimizer.grad_clip=0",
                 "sample.tokens=0", *more)
        dump = load_file(run / f"dump_step_{step}.safetensors")
        return ({name.removeprefix("gradient."): value for name, value in dump.items() if name.startswith("gradient.")},
                {name.removeprefix("weight."): value for name, value in dump.items() if name.startswith("weight.")})

    def test_muon(self):
        _, start = self.dump(0, 0)
        weights = {name: [part.clone().requires_grad_() for part in parts(name, value)] for name, value in start.items()}
        hidden = [part for name, all in weights.items() if is_hidden(name) for part in all]
        matrices = [part for name, all in weights.items() if not is_hidden(name) for part in all if part.dim() > 1]
        vectors = [part for all in weights.values() for part in all if part.dim() < 2]
        optimizers = [Muon(hidden, lr=RATE, weight_decay=DECAY, momentum=0.95, nesterov=True, adjust_lr_fn="match_rms_adamw"),
                      torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0}],
                                        lr=RATE, betas=(0.9, 0.99), eps=1e-8)]
        for step in range(STEPS):
            gradients, after = self.dump(step, RATE)
            before = {name: torch.cat([part.detach() for part in all]).clone() for name, all in weights.items()}
            for name, all in weights.items():
                for part, gradient in zip(all, parts(name, gradients[name])):
                    part.grad = gradient.clone()
            # PyTorch multiplies in bf16, which leaves two digits; here it does so in float64.
            with unittest.mock.patch.object(torch, "bfloat16", torch.float64):
                for optimizer in optimizers:
                    optimizer.step()
            for name, all in weights.items():
                wanted, now = torch.cat([part.detach() for part in all]), after[name]
                wrong = (now - wanted).norm() / (wanted - before[name]).norm()
                self.assertLess(wrong.item(), 1e-4, f"{name}, step {step}")
                with torch.no_grad():
                    for part, value in zip(all, parts(name, now)):
                        part.copy_(value)


if __name__ == "__main__":
    unittest.main()
