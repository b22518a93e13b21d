#!/usr/bin/env python3
"""A small model from nothing to preferred answers: pretrained on a text, taught a format (SFT), then which answer is better (DPO).

    examples/preferences.py TEXT [FOLDER] [--lockstep PROGRAM] [--scale 1.0] [--small]

TEXT is prose of a megabyte or so. The model learns to say which mark ends a line. Conversations teach it short answers and, more often,
long ones. Pairs then prefer the short ones. Held-out lines are asked after every stage; docs/fine-tuning.md has the numbers. All that
is made lies in FOLDER (default: preferences). The model has 10 million parameters, with `--small` a million. `--scale 0.1` makes a tenth
of the steps.
"""

import argparse
import json
import pathlib
import random
import subprocess
import typing

MARKS = {",": "a comma", ".": "a full stop", "?": "a question mark", "!": "an exclamation mark", ";": "a semicolon", ":": "a colon"}
LENGTH = 128


class Recipe(typing.NamedTuple):
    model: tuple[str, ...]
    samples: int  # of a step before DPO
    rate: float  # of learning before DPO
    pretraining: int  # steps
    sft: int  # steps
    dpo_rate: float
    dpo: int = 40  # steps


SMALL = Recipe(("model.n_layer=4", "model.n_head=4", "model.n_embd=128"), 12, 0.002, 150, 200, 0.00005)
LARGE = Recipe(("model.n_layer=6", "model.n_head=6", "model.n_embd=384"), 24, 0.001, 400, 300, 0.00002)


def short(mark):
    return MARKS[mark]


def long(mark):
    return f"It is {MARKS[mark]}, as one can see."


def question(line):
    return f"What ends this? {line}"


def lines_of(text, random_):
    """As many of each mark, without lines that occur twice."""
    lines = sorted({line.strip() for line in text.splitlines() if line.strip()[-1:] in MARKS and 15 <= len(line.strip()) <= 60})
    random_.shuffle(lines)
    by_mark = {mark: [line for line in lines if line[-1] == mark] for mark in MARKS}
    count = min(len(some) for some in by_mark.values())
    chosen = [line for some in by_mark.values() for line in some[:count]]
    random_.shuffle(chosen)
    return chosen


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def user(line):
    return {"role": "user", "content": question(line)}


def assistant(text):
    return {"role": "assistant", "content": text}


def make_data(folder, text):
    random_ = random.Random(1)
    lines = lines_of(text, random_)
    held_out, rest = lines[:100], lines[100:]
    taught, compared = rest[: len(rest) * 2 // 3], rest[len(rest) * 2 // 3:]
    answers = [long if random_.random() < 0.6 else short for _ in taught]
    write_lines(folder / "chats.jsonl", [{"messages": [user(line), assistant(answer(line[-1]))]} for line, answer in zip(taught, answers)])
    write_lines(folder / "pairs.jsonl", [{"prompt": [user(line)], "chosen": [assistant(short(line[-1]))],
                                          "rejected": [assistant(long(line[-1]))]} for line in compared])

    def prompt(line):
        return f"<|im_start|>user\n{question(line)}<|im_end|>\n<|im_start|>assistant\n"

    for name, form in (("short", short), ("long", long)):
        write_lines(folder / f"{name}.jsonl", [{"prompt": prompt(line), "answer": form(line[-1]) + "<|im_end|>"} for line in held_out])
    print(f"{len(taught)} conversations, {len(compared)} pairs, {len(held_out)} lines held out")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=pathlib.Path("preferences"))
    parser.add_argument("--lockstep", default="lockstep")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)

    def run(*words):
        words = [options.lockstep, *map(str, words)]
        print("$", *words, flush=True)
        subprocess.run(words, check=True)

    def steps(count):
        count = max(2, round(count * options.scale))
        return f"train.max_iters={count}", f"train.warmup_iters={count // 20}"

    def judge(model):
        run("eval", model, "--task", folder / "short.jsonl", "--task", folder / "long.jsonl")

    recipe = SMALL if options.small else LARGE
    teaching = (f"model.batch_size={recipe.samples}", f"optimizer.learning_rate={recipe.rate}")
    make_data(folder, options.text.read_text())
    common = ("sample.tokens=0", "train.eval_iters=4", "train.eval_interval=100", "optimizer.schedule=cosine", "optimizer.min_lr=0",
              f"model.block_size={LENGTH}", "train.log_interval=10")
    run("prepare", options.text, "--tokenizer", "bpe:512", "--out", folder / "data/text")
    run("train", folder / "data/text", f"log.dir={folder}/runs/base", *recipe.model, "model.position=rope", "model.norm=rmsnorm",
        "model.activation=swiglu", *teaching, *steps(recipe.pretraining), *common)
    run("convert", folder / "runs/base", folder / "models/base")
    judge(folder / "models/base")

    tokens = ("--tokenizer", f"hf:{folder}/models/base", "--chat-template", "chatml", "--length", LENGTH, "--too-long", "drop")
    run("prepare", folder / "chats.jsonl", *tokens, "--pack", "--out", folder / "data/chats")
    run("train", folder / "data/chats", f"train.init_from={folder}/runs/base", f"log.dir={folder}/runs/sft", "data.order=partition",
        "data.documents=true", "train.objective=sft", *teaching, *steps(recipe.sft), *common)
    judge(folder / "runs/sft")

    run("prepare", folder / "pairs.jsonl", *tokens, "--out", folder / "data/pairs")
    run("train", folder / "data/pairs", f"train.init_from={folder}/runs/sft", f"log.dir={folder}/runs/dpo", "data.order=partition",
        "train.objective=dpo", "dpo.beta=0.1", "model.batch_size=16", f"optimizer.learning_rate={recipe.dpo_rate}", *steps(recipe.dpo), *common)
    judge(folder / "runs/dpo")


if __name__ == "__main__":
    main()
