"""Tiny random models of every family, made by transformers: logits, gradients and greedy text are theirs, and convert gives their files.

Skips without PyTorch and transformers. LOCKSTEP_DUMP_CASES=all tries every case; else some of them.
"""

import json
import os
import pathlib
import subprocess
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

PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", "build/lockstep")
PRINTABLE, VOCABULARY, LENGTH = 94, 256, 40
SIZES = dict(vocab_size=VOCABULARY, hidden_size=36, intermediate_size=50, num_hidden_layers=5, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=48, pad_token_id=0, bos_token_id=1, eos_token_id=2)
SLIDES, SEES = "sliding_attention", "full_attention"


def rope(kind, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1e4, **more}}


CASES = {
    "mistral": ("mistral", dict(sliding_window=None)),
    "mistral with a window": ("mistral", dict(sliding_window=7, head_dim=10)),
    "qwen2 with windows": ("qwen2", dict(use_sliding_window=True, sliding_window=9, layer_types=[SLIDES, SEES] * 2 + [SLIDES])),
    "qwen3": ("qwen3", dict(head_dim=14)),
    "qwen3, tied, window": ("qwen3", dict(head_dim=8, tie_word_embeddings=True, use_sliding_window=True, sliding_window=5,
                                          max_window_layers=0)),
    "qwen3, yarn": ("qwen3", dict(head_dim=16, **rope("yarn", factor=4.0, original_max_position_embeddings=12))),
    "smollm3": ("smollm3", dict(tie_word_embeddings=True)),
    "smollm3 with biases": ("smollm3", dict(no_rope_layer_interval=2, attention_bias=True, mlp_bias=True)),
    "phi3": ("phi3", {}),
    "phi3 with a window": ("phi3", dict(sliding_window=6)),
    "llama, linear": ("llama", rope("linear", factor=3.0)),
    "llama, dynamic": ("llama", rope("dynamic", factor=3.0)),
    "llama, llama3": ("llama", rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                    original_max_position_embeddings=24)),
    "llama, yarn": ("llama", rope("yarn", factor=2.5, beta_fast=16.0, beta_slow=2.0, attention_factor=1.25,
                                  original_max_position_embeddings=20)),
    "llama, yarn, mscale": ("llama", rope("yarn", factor=2.5, mscale=0.7, mscale_all_dim=1.0,
                                          original_max_position_embeddings=20)),
}

# Bytes in GPT-2's alphabet (encoder.py, bytes_to_unicode), those of printable characters first.
CHARACTERS = [chr(33 + i) for i in range(PRINTABLE)] + [chr(c) for c in range(161, 256) if c != 173]
CHARACTERS += [chr(256 + i) for i in range(VOCABULARY - len(CHARACTERS))]
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
TOKENIZER = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": BYTES, "post_processor": None,
             "decoder": BYTES, "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(CHARACTERS)}, "merges": []}}


def relative(found, wanted):
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


def lockstep(*arguments):
    ran = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    assert ran.returncode == 0, f"{arguments}: {ran.stderr}"
    return ran.stdout


def make(kind, more):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**SIZES, **more}), attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() > 1 else 0.2) + (1 if "norm" in name else 0))
            if parameter.shape[0] == VOCABULARY:
                parameter[PRINTABLE:] = 0  # their logits are 0, so the likeliest token is another one
    return model


class Families(unittest.TestCase):
    def setUp(self):
        logging.set_verbosity_error()
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)

    def logits(self, model, tokens):
        ids = self.folder / "ids.bin"
        ids.write_bytes(torch.cat((tokens.flatten(), torch.zeros(1))).to(torch.uint16).numpy().tobytes())
        lockstep("eval", "--model", model, "--tokens", ids, "--length", str(LENGTH), "--logits", self.folder / "logits", "--json")
        return load_file(self.folder / "logits")["logits"].double()

    def test_families(self):
        some = list(CASES.items())[:: 1 if os.environ.get("LOCKSTEP_DUMP_CASES") == "all" else 4]
        for number, (name, (kind, more)) in enumerate(some):
            with self.subTest(name):
                self.check(f"{number}", kind, make(kind, more))

    def check(self, name, kind, model):
        theirs, ours, again = (self.folder / (name + part) for part in ("", ".ours", ".again"))
        model.save_pretrained(theirs)
        model.double().eval()
        tokens = torch.randint(0, PRINTABLE, (2, LENGTH))
        with torch.no_grad():
            wanted = model(tokens).logits
        self.assertLess(relative(self.logits(theirs, tokens).view_as(wanted), wanted), 2e-5)

        lockstep("convert", theirs, ours)
        lockstep("convert", ours, again)
        before, after = load_file(theirs / "model.safetensors"), load_file(again / "model.safetensors")
        self.assertEqual(before.keys(), after.keys())
        for tensor in before:
            self.assertTrue(torch.equal(before[tensor], after[tensor]), tensor)
        back = AutoModelForCausalLM.from_pretrained(again, dtype=torch.float64, attn_implementation="eager").eval()
        self.assertEqual(back.config.model_type, kind)
        with torch.no_grad():
            self.assertLess(relative(back(tokens).logits, wanted), 1e-12)

        (theirs / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        ids = tokens[:1, :5]
        with torch.no_grad():
            while ids.shape[1] < LENGTH + 5:
                ids = torch.cat((ids, model(ids).logits[:, -1:].argmax(-1)), 1)
        text = "".join(CHARACTERS[i] for i in ids[0].tolist())
        written = lockstep("generate", theirs, "--prompt", text[:5], "--tokens", str(LENGTH), "--temperature", "0", "--ignore-end",
                           "--color", "never")
        self.assertEqual(written.strip(), text)


if __name__ == "__main__":
    unittest.main()
