"""DPO beside PyTorch in float64: losses, gradients and updates of pairs of unequal lengths, in several layouts.

The loss is Rafailov et al. 2023, equation 7, as trl 1.16 has it (trl/trainer/dpo_trainer.py, loss_type="sigmoid"), with the label
smoothing of conservative DPO (Mitchell 2023). Skips without PyTorch and transformers.
"""

import json
import pathlib
import sys
import tempfile
import unittest

try:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM, logging
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from families_test import SIZES, STEP, lockstep, relative

BETA, SMOOTHING, LENGTH, VOCABULARY = 0.3, 0.1, 40, 256
SGD = ("optimizer.name=sgd", "optimizer.momentum=0", "optimizer.weight_decay=0", f"optimizer.learning_rate={STEP}",
       "optimizer.schedule=cosine", "train.max_iters=1")
# AdamW divides gradients that nearly cancel by their own size: a large eps leaves their rounding small.
ADAMW = ("optimizer.eps=0.0001", "optimizer.learning_rate=0.003", "optimizer.decay_lr=false", "optimizer.weight_decay=0.1",
         "optimizer.beta2=0.99")
TRAINING = ("train.objective=dpo", f"dpo.beta={BETA}", f"dpo.label_smoothing={SMOOTHING}", "data.order=partition", "train.warmup_iters=0",
            "optimizer.grad_clip=0", "train.log_interval=1", "sample.tokens=0", "train.eval_iters=1", f"model.block_size={LENGTH}",
            "model.vocab_size=256")
LAYOUTS = {"one micro-batch": ("model.batch_size=12",), "accumulated": ("model.batch_size=4", "optimizer.gas=3"),
           "an odd number of pairs": ("model.batch_size=6", "optimizer.gas=2"),
           "dp": ("--ranks", "3", "model.batch_size=4"), "tp": ("--ranks", "2", "parallel.tp=2", "model.batch_size=12"),
           "cp": ("--ranks", "2", "parallel.cp=2", "model.batch_size=12"),
           "pp": ("--ranks", "2", "parallel.pp=2", "model.batch_size=2", "optimizer.gas=6"),
           "canonical": ("numerics.canonical=true", "model.batch_size=6", "optimizer.gas=2")}


class Preferences(unittest.TestCase):
    def setUp(self):
        logging.set_verbosity_error()
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.at = pathlib.Path(held.name)
        torch.manual_seed(3)
        config = AutoConfig.for_model("llama", **{**SIZES, "vocab_size": VOCABULARY})
        self.model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(torch.randn_like(parameter) * 0.15 + ("norm" in name))
        self.model.save_pretrained(self.at / "base")
        self.model.double().eval()
        # Six pairs are trained on; the last one is for validation.
        self.pairs = [("Q" * (1 + 2 * i % 7) + ":", "yes, " * (i % 3) + chr(65 + i), "no" + "." * (3 * i % 8)) for i in range(7)]
        lines = "".join(json.dumps({"prompt": p, "chosen": c, "rejected": r}) + "\n" for p, c, r in self.pairs)
        (self.at / "pairs.jsonl").write_text(lines)
        lockstep("prepare", self.at / "pairs.jsonl", "--tokenizer", "byte", "--length", str(LENGTH), "--out", self.at / "data")

    def log_probability(self, prompt, answer):
        ids = torch.tensor(list((prompt + answer + "\n").encode()))
        logits = self.model(ids[None, :-1]).logits[0].log_softmax(-1)
        return logits.gather(1, ids[1:, None])[len(prompt) - 1:].sum()

    def log_probabilities(self):
        both = [[self.log_probability(p, answer) for answer in (c, r)] for p, c, r in self.pairs[:6]]
        return torch.stack([torch.stack(pair) for pair in both])

    def loss(self, own, reference):
        margins = BETA * ((own - reference)[:, 0] - (own - reference)[:, 1])
        sigmoid = torch.nn.functional.logsigmoid
        return (-(1 - SMOOTHING) * sigmoid(margins) - SMOOTHING * sigmoid(-margins)).mean()

    def train(self, name, *words):
        run = self.at / name.replace(" ", "_")
        lockstep("train", self.at / "data", f"train.init_from={self.at / 'base'}", f"log.dir={run}", *TRAINING, *words)
        lockstep("convert", run, f"{run}.out", "--dtype", "fp32")
        steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [step for step in steps if "eval" not in step], load_file(pathlib.Path(f"{run}.out") / "model.safetensors")

    def test_gradients(self):
        """At the reference, where all pairs have the margin 0; test_updates goes on from there."""
        before = {key: value.double() for key, value in load_file(self.at / "base" / "model.safetensors").items()}
        with torch.no_grad():
            reference = self.log_probabilities()
        self.loss(self.log_probabilities(), reference).backward()
        wanted = {key: parameter.grad for key, parameter in self.model.named_parameters() if key in before}
        largest = max(gradient.norm().item() for gradient in wanted.values())
        for layout, words in LAYOUTS.items():
            steps, after = self.train(layout, *SGD, *words)
            for key, gradient in wanted.items():
                wrong = ((before[key] - after[key].double()) / STEP - gradient).norm().item()
                self.assertLess(wrong, 1e-5 * max(gradient.norm().item(), 1e-3 * largest), f"{layout}: {key}")
            self.assertAlmostEqual(steps[0]["logps/chosen"], reference[:, 0].mean().item(), delta=1e-5 * 40)
            self.assertAlmostEqual(steps[0]["logps/rejected"], reference[:, 1].mean().item(), delta=1e-5 * 40)

    def test_updates(self):
        """Four steps of AdamW over all pairs: the losses and margins of each, and the weights behind the first and the last."""
        with torch.no_grad():
            reference = self.log_probabilities()
        decayed = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() <= 1]
        optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}], lr=0.003,
                                      betas=(0.9, 0.99), eps=1e-4)
        losses, margins, weights = [], [], []
        for _ in range(4):
            optimizer.zero_grad()
            own = self.log_probabilities()
            loss = self.loss(own, reference)
            losses.append(loss.item())
            margins.append(BETA * (own - reference)[:, 0].sub((own - reference)[:, 1]).mean().item())
            loss.backward()
            optimizer.step()
            weights.append({key: parameter.detach().clone() for key, parameter in self.model.state_dict().items()})

        def check(name, after, wanted, bound):
            for key in after:
                self.assertLess(relative(after[key].double(), wanted[key]), bound, f"{name}: {key}")

        for layout in ("accumulated", "cp"):
            check(layout, self.train(f"{layout} once", *ADAMW, "train.max_iters=1", *LAYOUTS[layout])[1], weights[0], 1e-5)
            steps, after = self.train(f"{layout} adamw", *ADAMW, "train.max_iters=4", *LAYOUTS[layout])
            for step, loss, margin in zip(steps, losses, margins, strict=True):
                self.assertAlmostEqual(step["loss"], loss, delta=1e-5 * abs(loss), msg=layout)
                self.assertAlmostEqual(step["rewards/margins"], margin, delta=2e-5 * max(1, abs(margin)), msg=layout)
            check(layout, after, weights[3], 1e-4)


if __name__ == "__main__":
    unittest.main()
