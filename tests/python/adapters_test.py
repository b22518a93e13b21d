"""Adapters beside tiny random models, as PEFT has them: logits, gradients, updates and files are held against it.

Skips without PyTorch, transformers and PEFT. LOCKSTEP_DUMP_CASES=all tries every case; else some of them.
"""

import os
import pathlib
import sys
import tempfile
import unittest

try:
    import torch
    from peft import LoraConfig, PeftModel, get_peft_model
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM, logging
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from families_test import LENGTH, PRINTABLE, SIZES, STEP, TRAINING, VOCABULARY, lockstep, relative

GPT2 = dict(vocab_size=VOCABULARY, n_embd=36, n_layer=3, n_head=6, n_positions=48, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            bos_token_id=1, eos_token_id=2)
CASES = {
    "llama": ("llama", SIZES, dict(r=4, lora_alpha=12, target_modules="all-linear")),
    "llama, attention, rsLoRA": ("llama", SIZES, dict(r=3, lora_alpha=5, use_rslora=True,
                                                      target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])),
    "llama, q and v": ("llama", {**SIZES, "tie_word_embeddings": True}, dict(r=8, target_modules=["q_proj", "v_proj"])),
    "llama, both ends": ("llama", SIZES, dict(r=4, target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"])),
    "llama, the head": ("llama", SIZES, dict(r=4, target_modules="all-linear", modules_to_save=["lm_head"])),
    "llama, tied ends": ("llama", {**SIZES, "tie_word_embeddings": True},
                         dict(r=4, target_modules=["v_proj"], modules_to_save=["embed_tokens", "lm_head"], ensure_weight_tying=True)),
    "qwen3": ("qwen3", dict(SIZES, head_dim=14), dict(r=5, lora_alpha=10, target_modules="all-linear")),
    "gemma3": ("gemma3_text", dict(SIZES, head_dim=10, sliding_window=7, query_pre_attn_scalar=20, num_hidden_layers=7),
               dict(r=4, target_modules="all-linear")),
    "phi3": ("phi3", SIZES, dict(r=4, lora_alpha=4, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])),
    "gpt2": ("gpt2", GPT2, dict(r=4, lora_alpha=16, fan_in_fan_out=True,
                                target_modules=["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"])),
    "gpt2, the feed-forward layer": ("gpt2", GPT2, dict(r=6, fan_in_fan_out=True, target_modules=["mlp.c_fc", "mlp.c_proj"])),
}
HEAD = "base_model.model.lm_head.weight"
LAYOUTS = {"one rank": (), "tp": ("--ranks", "2", "parallel.tp=2"), "tp, sequence": ("--ranks", "3", "parallel.tp=3", "parallel.sequence=true"),
           "pp": ("--ranks", "2", "parallel.pp=2"), "zero bubble": ("--ranks", "2", "parallel.pp=2", "parallel.schedule=zb-h1", "optimizer.gas=2", "model.batch_size=1"),
           "cp": ("--ranks", "2", "parallel.cp=2"), "zero": ("--ranks", "2", "memory.zero=3", "model.batch_size=1"),
           "again": ("memory.recompute=full",), "offloaded": ("memory.offload_optimizer=cpu", "memory.offload_params=cpu")}


def make(kind, sizes, lora):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes), attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            gain = "norm" in name or ".ln_" in name
            parameter.copy_(torch.randn_like(parameter) * 0.2 + (1 if gain and "weight" in name and "gemma" not in kind else 0))
    return model, LoraConfig(task_type="CAUSAL_LM", **lora)


class Adapters(unittest.TestCase):
    def setUp(self):
        logging.set_verbosity_error()
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)

    def test_adapters(self):
        some = list(CASES.items())[:: 1 if os.environ.get("LOCKSTEP_DUMP_CASES") == "all" else 3]
        for number, (name, case) in enumerate(some):
            with self.subTest(name):
                self.check(self.folder / f"{number}", *make(*case))

    def logits(self, tokens, model, *more):
        ids = self.folder / "ids.bin"
        ids.write_bytes(torch.cat((tokens.flatten(), torch.zeros(1))).to(torch.uint16).numpy().tobytes())
        lockstep("eval", model, "--tokens", ids, "--length", str(LENGTH), "--logits", self.folder / "logits", "--json", *more)
        return load_file(self.folder / "logits")["logits"].double()

    def check(self, at, model, config):
        base, theirs, data = at / "base", at / "adapter", at / "data"
        model.save_pretrained(base)
        adapted = get_peft_model(model, config)
        with torch.no_grad():
            for key, parameter in adapted.named_parameters():
                if "lora_" in key:
                    parameter.copy_(torch.randn_like(parameter) * 0.1)
        adapted.save_pretrained(theirs)
        adapted.double().eval()
        tokens = torch.randint(0, PRINTABLE, (2, LENGTH))
        with torch.no_grad():
            wanted = adapted(tokens).logits
        self.assertLess(relative(self.logits(tokens, base, "--adapter", theirs).view_as(wanted), wanted), 2e-5)

        data.mkdir()
        text = torch.randint(3, PRINTABLE, (2 * LENGTH + 1,))
        for part in ("train", "val"):
            (data / f"{part}.bin").write_bytes(text.to(torch.uint16).numpy().tobytes())
        start = ("train", data, f"train.init_from={base}", f"adapter.init_from={theirs}", "model.batch_size=2")
        self.check_gradients(at, start, adapted, text, theirs)
        self.check_updates(at, start, adapted, text, base, tokens)

    def loss(self, model, text):
        logits = model(text[:-1].view(2, LENGTH)).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[1:])

    def trained(self, model):
        return {key.replace(".modules_to_save", "").replace(".default.", "."): p for key, p in model.named_parameters() if p.requires_grad}

    def check_gradients(self, at, start, model, text, theirs):
        before = {key: value.double() for key, value in load_file(theirs / "adapter_model.safetensors").items()}
        self.loss(model, text).backward()
        wanted = {key: parameter.grad for key, parameter in self.trained(model).items()}
        self.assertEqual(before.keys() - {HEAD}, wanted.keys() - {HEAD})  # a tied head is written too
        largest = max(gradient.norm().item() for gradient in wanted.values())
        for layout, words in LAYOUTS.items():
            run = at / layout.replace(" ", "_")
            lockstep(*start, f"log.dir={run}", *TRAINING, *words)
            lockstep("convert", run, f"{run}.out")
            after = load_file(pathlib.Path(f"{run}.out") / "adapter_model.safetensors")
            self.assertEqual(after.keys(), before.keys())
            for key, gradient in wanted.items():
                wrong = ((before[key] - after[key].double()) / STEP - gradient).norm().item()
                self.assertLess(wrong, 1e-5 * max(gradient.norm().item(), 1e-3 * largest), f"{layout}: {key}")

    def check_updates(self, at, start, model, text, base, tokens):
        """Ten steps of AdamW; then the run's files are read by PEFT, merged, and read by transformers."""
        run = at / "adamw"
        lockstep(*start, f"log.dir={run}", "train.max_iters=10", "train.warmup_iters=0", "optimizer.learning_rate=0.01",
                 "optimizer.decay_lr=false", "optimizer.beta2=0.99", "optimizer.weight_decay=0.1", "optimizer.grad_clip=0",
                 "data.order=partition", "data.ids=uint16", f"model.block_size={LENGTH}")
        optimizer = torch.optim.AdamW(self.trained(model).values(), lr=0.01, betas=(0.9, 0.99), weight_decay=0.1)
        for _ in range(10):
            optimizer.zero_grad()
            self.loss(model, text).backward()
            optimizer.step()
        with torch.no_grad():
            wanted = model(tokens).logits
        self.assertLess(relative(self.logits(tokens, run).view_as(wanted), wanted), 1e-3)
        lockstep("convert", run, f"{run}.out")
        lockstep("convert", run, f"{run}.merged", "--merge")
        ours = self.logits(tokens, run).view_as(wanted)
        back = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, attn_implementation="eager"), f"{run}.out")
        merged = AutoModelForCausalLM.from_pretrained(f"{run}.merged", attn_implementation="eager")
        for other in (back, merged):
            with torch.no_grad():
                self.assertLess(relative(other.double().eval()(tokens).logits, ours), 2e-5)
        self.assertLess(relative(self.logits(tokens, base, "--adapter", f"{run}.out").view_as(ours), ours), 1e-6)


if __name__ == "__main__":
    unittest.main()
