#!/usr/bin/env python3
"""Trains the stages of examples/preferences.py by trl as well, from the same model, data and steps, and asks both the same lines.

    bench/preferences_trl.py FOLDER [--lockstep PROGRAM] [--seeds 3] [--scale 1.0] [--small]

FOLDER is what examples/preferences.py made with the same --scale and --small. Each seed orders the data anew. trl's DPO also starts from
our SFT: then only the preferences are compared. trl is not packed: its batches have as many conversations as our windows. `lockstep eval`
judges all models. Needs torch, transformers and trl.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))
import preferences  # noqa: E402


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def said(message):
    return f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"


def asked(messages):
    return "".join(map(said, messages)) + "<|im_start|>assistant\n"


def answered(message):
    return message["content"] + "<|im_end|>"


class Trial:
    def __init__(self, options):
        self.folder, self.program, self.scale = options.folder, options.lockstep, options.scale
        self.recipe = preferences.SMALL if options.small else preferences.LARGE
        self.made = options.folder / "against-trl"
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(self.folder / "models/base/tokenizer.json"),
                                                 eos_token="<|endoftext|>", pad_token="<|endoftext|>")

    def run(self, *words):
        return subprocess.run([self.program, *map(str, words)], check=True, capture_output=True, text=True).stdout

    def steps(self, count):
        return max(2, round(count * self.scale))

    def judge(self, model):
        """Shares of short and of long answers that are exactly right."""
        tasks = [word for name in ("short", "long") for word in ("--task", self.folder / f"{name}.jsonl")]
        results = json.loads(self.run("eval", model, *tasks, "--json"))["results"]
        return [results[name]["exact_match,none"] for name in ("short", "long")]

    def ours(self, seed):
        common = [f"train.seed={seed}", "sample.tokens=0", "train.eval_interval=100", "train.eval_iters=4", "optimizer.schedule=cosine",
                  "optimizer.min_lr=0", f"model.block_size={preferences.LENGTH}", "data.order=partition"]
        sft, dpo = self.made / f"ours-sft-{seed}", self.made / f"ours-dpo-{seed}"
        count = self.steps(self.recipe.sft)
        self.run("train", self.folder / "data/chats", f"train.init_from={self.folder}/runs/base", f"log.dir={sft}", "data.documents=true",
                 "train.objective=sft", f"model.batch_size={self.recipe.samples}", f"optimizer.learning_rate={self.recipe.rate}", f"train.max_iters={count}",
                 f"train.warmup_iters={count // 20}", *common)
        count = self.steps(self.recipe.dpo)
        self.run("train", self.folder / "data/pairs", f"train.init_from={sft}", f"log.dir={dpo}", "train.objective=dpo", "dpo.beta=0.1",
                 "model.batch_size=16", f"optimizer.learning_rate={self.recipe.dpo_rate}", f"train.max_iters={count}",
                 f"train.warmup_iters={count // 20}", *common)
        start = self.made / f"ours-sft-{seed}-model"
        self.run("convert", sft, start)
        return self.judge(sft), self.judge(dpo), self.judge(self.prefer(start, seed))

    def save(self, trainer, name):
        at = self.made / name
        trainer.model.save_pretrained(at)
        shutil.copy(self.folder / "models/base/tokenizer.json", at)
        shutil.copy(self.folder / "models/base/tokenizer_config.json", at)
        return at

    def arguments(self, seed, count, rate, batch):
        return dict(output_dir=str(self.made / "trainer"), max_steps=count, warmup_steps=count // 20, learning_rate=rate,
                    lr_scheduler_type="cosine", per_device_train_batch_size=batch, seed=seed, adam_beta1=0.9, adam_beta2=0.95,
                    weight_decay=0.1, max_grad_norm=1.0, max_length=preferences.LENGTH, report_to=[], save_strategy="no", logging_steps=50,
                    use_cpu=True, bf16=False, disable_tqdm=True, gradient_checkpointing=False)

    def theirs(self, seed):
        chats = [{"prompt": asked(row["messages"][:1]), "completion": answered(row["messages"][1])}
                 for row in rows_of(self.folder / "chats.jsonl")]
        windows = (self.folder / "data/chats/train.bin").stat().st_size // (2 * preferences.LENGTH)
        per_window = 0.9 * len(chats) / windows  # a tenth of them is for validation
        trainer = SFTTrainer(AutoModelForCausalLM.from_pretrained(self.folder / "models/base", dtype=torch.float32),
                             SFTConfig(**self.arguments(seed, self.steps(self.recipe.sft), self.recipe.rate, round(self.recipe.samples * per_window))),
                             train_dataset=Dataset.from_list(chats), processing_class=self.tokenizer)
        trainer.train()
        sft = self.save(trainer, f"trl-sft-{seed}")
        return self.judge(sft), self.judge(self.prefer(sft, seed))

    def prefer(self, sft, seed):
        """trl's DPO from a model that was taught the format."""
        pairs = [{"prompt": asked(row["prompt"]), "chosen": answered(row["chosen"][0]), "rejected": answered(row["rejected"][0])}
                 for row in rows_of(self.folder / "pairs.jsonl")]
        trainer = DPOTrainer(AutoModelForCausalLM.from_pretrained(sft, dtype=torch.float32),
                             AutoModelForCausalLM.from_pretrained(sft, dtype=torch.float32),
                             DPOConfig(**self.arguments(seed, self.steps(self.recipe.dpo), self.recipe.dpo_rate, 8), beta=0.1),
                             train_dataset=Dataset.from_list(pairs), processing_class=self.tokenizer)
        trainer.train()
        return self.save(trainer, f"{sft.name}-trl-dpo")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--lockstep", default="build/lockstep")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--small", action="store_true")
    trial = Trial(parser.parse_args())
    seeds = range(1, parser.parse_args().seeds + 1)
    print(f"{'SFT, then DPO by':23} {'seed':>4}  {'SFT short':>9} {'long':>5}  {'DPO short':>9} {'long':>5}")
    for seed in seeds:
        sft, ours, theirs = trial.ours(seed)
        rows = [("lockstep, then lockstep", sft, ours), ("lockstep, then trl", sft, theirs), ("trl, then trl", *trial.theirs(seed))]
        for who, sft, dpo in rows:
            print(f"{who:23} {seed:4}  {sft[0]:9.2f} {sft[1]:5.2f}  {dpo[0]:9.2f} {dpo[1]:5.2f}", flush=True)


if __name__ == "__main__":
    main()
