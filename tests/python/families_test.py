"""Tiny random models of every family, made by transformers: logits, gradients and greedy text are theirs; so are convert's files.

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


LONG = {"rope_parameters": {"type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.05, 1.1], "long_factor": [1.2, 2.0, 3.5]}}

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
    "gemma": ("gemma", dict(head_dim=14)),
    "gemma2": ("gemma2", dict(head_dim=12, sliding_window=6, query_pre_attn_scalar=9, attn_logit_softcapping=2.0,
                              final_logit_softcapping=3.0)),
    "gemma2 without caps": ("gemma2", dict(head_dim=8, sliding_window=9, query_pre_attn_scalar=8, attn_logit_softcapping=None,
                                           final_logit_softcapping=None, tie_word_embeddings=False)),
    "gemma3": ("gemma3_text", dict(head_dim=10, sliding_window=7, query_pre_attn_scalar=20, num_hidden_layers=7)),
    "gemma3, two of three, linear": ("gemma3_text", dict(
        head_dim=8, sliding_window=5, query_pre_attn_scalar=8, layer_types=[SLIDES, SLIDES, SEES, SLIDES, SLIDES],
        rope_parameters={SEES: {"rope_type": "linear", "factor": 4.0, "rope_theta": 2e4},
                         SLIDES: {"rope_type": "default", "rope_theta": 50.0}})),
    "olmo2": ("olmo2", {}),
    "olmo2, one key head, tied": ("olmo2", dict(num_key_value_heads=1, tie_word_embeddings=True, rope_theta=5e3)),
    "granite": ("granite", dict(embedding_multiplier=3.0, residual_multiplier=0.3, attention_multiplier=0.2, logits_scaling=1.7)),
    "granite, biases": ("granite", dict(embedding_multiplier=2.0, attention_multiplier=0.3, attention_bias=True, mlp_bias=True,
                                        tie_word_embeddings=True)),
    "phi3, longrope, short": ("phi3", dict(max_position_embeddings=192, original_max_position_embeddings=64, **LONG)),
    "phi3, longrope, long": ("phi3", dict(original_max_position_embeddings=24, **LONG)),
    "llama, longrope": ("llama", rope("longrope", short_factor=[1.0, 1.1, 1.2], long_factor=[1.5, 2.0, 3.0], attention_factor=1.3,
                                      factor=2.0, original_max_position_embeddings=20)),
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
            parameter.copy_(torch.randn_like(parameter) * 0.2 + (1 if "norm" in name and "gemma" not in kind else 0))
            if parameter.shape[0] == VOCABULARY:
                parameter[PRINTABLE:] = 0  # their logits are 0, so the likeliest token is another one
    return model


# One step of gradient descent is the gradient; so long a step leaves little of the weights' own rounding.
STEP = 64.0
TRAINING = ("train.max_iters=1", "optimizer.name=sgd", "optimizer.momentum=0", "optimizer.weight_decay=0",
            f"optimizer.learning_rate={STEP}", "optimizer.schedule=cosine", "train.warmup_iters=0", "optimizer.grad_clip=0",
            "data.order=partition", "data.ids=uint16", f"model.block_size={LENGTH}")
LAYOUTS = {"one rank": (), "tp": ("--ranks", "2", "parallel.tp=2"), "pp": ("--ranks", "2", "parallel.pp=2"),
           "cp": ("--ranks", "2", "parallel.cp=2"), "zero": ("--ranks", "2", "memory.zero=3")}


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

        self.check_gradients(name, theirs, model)

        (theirs / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        ids = tokens[:1, :5]
        with torch.no_grad():
            while (known := ids.shape[1]) < LENGTH + 5:
                # The rest is filled up: LongRoPE is by the whole context here, in transformers by what is read.
                whole = torch.cat((ids, torch.zeros(1, LENGTH + 5 - known, dtype=ids.dtype)), 1)
                ids = torch.cat((ids, model(whole).logits[:, known - 1 : known].argmax(-1)), 1)
        text = "".join(CHARACTERS[i] for i in ids[0].tolist())
        written = lockstep("generate", theirs, "--prompt", text[:5], "--tokens", str(LENGTH), "--temperature", "0", "--ignore-end",
                           "--color", "never")
        self.assertEqual(written.strip(), text)


    def check_gradients(self, name, theirs, model):
        """Of the mean loss of two samples, in several layouts."""
        model.float()  # what was saved
        before = {key: value.double() for key, value in load_file(theirs / "model.safetensors").items()}
        model.double().zero_grad()
        data = self.folder / (name + ".data")
        data.mkdir()
        text = torch.randint(3, PRINTABLE, (2 * LENGTH + 1,))  # PyTorch leaves the row of the padding token alone
        for part in ("train", "val"):
            (data / f"{part}.bin").write_bytes(text.to(torch.uint16).numpy().tobytes())
        logits = model(text[:-1].view(2, LENGTH)).logits
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[1:]).backward()
        wanted = {key: parameter.grad for key, parameter in model.named_parameters()}
        largest = max(gradient.norm().item() for gradient in wanted.values())
        for layout, words in LAYOUTS.items():
            run = self.folder / (name + layout)
            ranks = 2 if layout == "zero" else 1
            lockstep("train", data, f"train.init_from={theirs}", f"log.dir={run}", f"model.batch_size={2 // ranks}", *TRAINING, *words)
            lockstep("convert", run, f"{run}.out", "--dtype", "fp32")
            after = load_file(pathlib.Path(f"{run}.out") / "model.safetensors")
            for key, gradient in wanted.items():
                if key in before:
                    wrong = ((before[key] - after[key].double()) / STEP - gradient).norm().item()
                    # What is zero but for rounding, as of biases of keys that do not turn, is held against the others.
                    self.assertLess(wrong, 1e-5 * max(gradient.norm().item(), 1e-3 * largest), f"{layout}: {key}")


if __name__ == "__main__":
    unittest.main()
