#!/usr/bin/env python3
"""Loads what `lockstep convert` writes with transformers, and compares logits: theirs of the original folder and of the folder that
went through a checkpoint, in float64, against the golden ones and against `lockstep eval --logits`. Needs torch, transformers and
safetensors:

    python3 tests/golden/check_transformers.py build/lockstep
"""
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, logging

logging.set_verbosity_error()
HERE = pathlib.Path(__file__).parent / "data" / "huggingface"


def relative(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def logits_of(folder, tokens):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, output_loading_info=True)
    unexpected = [key for key in info["unexpected_keys"] if not key.endswith(".masked_bias")]  # a mask of older versions
    assert not (unexpected or info["missing_keys"] or info["mismatched_keys"]), info
    with torch.no_grad():
        return model.eval()(tokens.long()).logits


def lockstep_logits(program, folder, tokens, scratch):
    (scratch / "ids.bin").write_bytes(torch.cat((tokens.flatten(), torch.zeros(1))).to(torch.uint16).numpy().tobytes())
    subprocess.run([program, "eval", "--model", folder, "--tokens", scratch / "ids.bin", "--length", str(tokens.shape[1]),
                    "--logits", scratch / "logits.safetensors", "--json"], check=True, stdout=subprocess.DEVNULL)
    return load_file(scratch / "logits.safetensors")["logits"].double()


def main(program):
    print(f"{'model':12} {'transformers':>12} {'ours':>12} {'exported':>12} {'bf16':>12}")
    for folder in sorted(HERE.iterdir()):
        golden = load_file(folder / "logits.golden")
        tokens, expected = golden["tokens"], golden["logits"].double()
        with tempfile.TemporaryDirectory() as name:
            scratch = pathlib.Path(name)
            for more in (["checkpoint"], ["exported"], ["half", "--dtype", "bf16"]):
                source = folder if more[0] == "checkpoint" else scratch / "checkpoint"
                subprocess.run([program, "convert", source, scratch / more[0], *more[1:]], check=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            original = "-" if folder.name.startswith("rasbt") else f"{relative(logits_of(folder, tokens), expected):.1e}"
            ours = relative(lockstep_logits(program, folder, tokens, scratch), expected)
            exported = relative(logits_of(scratch / "exported", tokens), expected)
            half = relative(lockstep_logits(program, scratch / "half", tokens, scratch), logits_of(scratch / "half", tokens))
            print(f"{folder.name:12} {original:>12} {ours:12.1e} {exported:12.1e} {half:12.1e}")


main(pathlib.Path(sys.argv[1]).resolve())
