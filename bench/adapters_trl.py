#!/usr/bin/env python3
"""Times steps that train adapters (LoRA) on GPT-2 (124 M, random weights) beside steps of the whole model, and beside trl with peft.

    bench/adapters_trl.py [--rounds 3] [--steps 20] [--threads 2] [--batch 4] [--length 64]     LOCKSTEP_PROGRAM=build/lockstep

Rank 16 beside every linear layer, fp32, AdamW. A round runs each program once; the table has medians of tokens/s (a run's median
step) and of the most memory that a process had resident. Needs torch, transformers, tokenizers, trl and peft.
"""
import argparse
import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from serving import PROGRAM, make_model  # noqa: E402

THEIRS = """
import json, sys, time, torch, transformers
from datasets import Dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer
model, rows, steps, threads, batch, length = sys.argv[1], json.load(open(sys.argv[2])), *map(int, sys.argv[3:])
torch.set_num_threads(threads)
ends = []
class Clock(transformers.TrainerCallback):
    def on_step_end(self, *_, **__):
        ends.append(time.perf_counter())
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=model + "/tokenizer.json", eos_token="<|end|>", pad_token="<|end|>")
SFTTrainer(transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
           SFTConfig(output_dir=model + "/trainer", max_steps=steps, per_device_train_batch_size=batch, max_length=length, use_cpu=True,
                     bf16=False, gradient_checkpointing=False, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True),
           train_dataset=Dataset.from_list([{"input_ids": row} for row in rows]), processing_class=tokenizer, callbacks=[Clock()],
           peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")).train()
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"seconds": [b - a for a, b in zip(ends, ends[1:])], "mib": peak / 1024}))
"""


def theirs(folder, options):
    words = [options.steps, options.threads, options.batch, options.length]
    done = subprocess.run([sys.executable, "-c", THEIRS, folder / "model", folder / "rows.json", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    answer = json.loads(done.stdout.splitlines()[-1])
    return options.batch * options.length / statistics.median(answer["seconds"]), answer["mib"]


def ours(folder, options, *settings):
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    words = [f"train.init_from={folder / 'model'}", f"log.dir={run}", f"model.batch_size={options.batch}", f"model.block_size={options.length}",
             f"train.max_iters={options.steps}", "train.eval_interval=1000000", "train.eval_iters=1", "train.log_interval=1", "sample.tokens=0",
             f"train.threads={options.threads}", *settings]
    done = subprocess.run([PROGRAM, "train", folder / "data", *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    size, unit = re.search(r"Memory: +([\d.]+) (MiB|GiB) resident", done.stdout + done.stderr).groups()
    return statistics.median(row["tps"] for row in rows if "tps" in row), float(size) * (1024 if unit == "GiB" else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, standard in (("rounds", 3), ("steps", 20), ("threads", 2), ("batch", 4), ("length", 64)):
        parser.add_argument("--" + name, type=int, default=standard)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as held:
        folder = pathlib.Path(held)
        for name in ("model", "data"):
            (folder / name).mkdir()
        make_model("gpt2", folder / "model")
        rng = random.Random(1)
        for name in ("train", "val"):
            ids = [rng.randrange(50000) for _ in range(options.batch * options.length * 40)]
            (folder / "data" / f"{name}.bin").write_bytes(b"".join(i.to_bytes(2, "little") for i in ids))
        (folder / "rows.json").write_text(json.dumps([[rng.randrange(50000) for _ in range(options.length)] for _ in range(options.batch * options.steps)]))
        adapters = ["adapter.rank=16", "adapter.alpha=32", "adapter.targets=all"]
        kinds = [("lockstep, whole model", ours, []), ("lockstep, adapters", ours, adapters), ("trl + peft, adapters", theirs, [])]
        rounds = [{name: measure(folder, options, *settings) for name, measure, settings in kinds} for _ in range(options.rounds)]
        for name, _, _ in kinds:
            rate, mib = (statistics.median(one[name][i] for one in rounds) for i in (0, 1))
            print(f"| {name} | {rate:.0f} tokens/s | {mib:.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()
