"""Right steps of many kinds, drawn by a seed: `lockstep verify --against` raises no alarm.

Skips without PyTorch. LOCKSTEP_DUMP_CASES=all makes 24 of one process and 6 of two ranks; else two. Models of transformers need
that installed.
"""

import importlib.util
import random
import unittest

from dump_programs import ALL, GPT, ROWS, VOCABULARY, Case, data, on_ranks

import lockstep_dump
import torch
import torch.distributed as dist
from torch import nn

TYPES = [{}, {"dtype": torch.bfloat16}, {"autocast": torch.bfloat16}, {"autocast": torch.float16}]
# Of each family its class, and what it has beside Llama's sizes: windows shorter than the text, and parts that are off by default.
SOFTCAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
GRANITE = {"embedding_multiplier": 3.0, "residual_multiplier": 0.4, "logits_scaling": 1.5, "attention_multiplier": 0.3}
LLAMA_LIKE = {
    "llama": ("Llama", {}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 10}),
    "mistral": ("Mistral", {"sliding_window": 5}),
    "phi3": ("Phi3", {"sliding_window": 4}),
    "smollm3": ("SmolLM3", {"no_rope_layer_interval": 2}),
    "olmo2": ("Olmo2", {}),
    "granite": ("Granite", GRANITE),
    "gemma2": ("Gemma2", {"head_dim": 10, "sliding_window": 4, "query_pre_attn_scalar": 7, **SOFTCAPS}),
    "gemma3": ("Gemma3", {"head_dim": 10, "sliding_window": 3, "query_pre_attn_scalar": 10, "sliding_window_pattern": 2}),
}
PUBLISHED = importlib.util.find_spec("transformers") is not None


def model_of(family, draw):
    if family == "nanogpt":
        return GPT("", draw.random() < 0.5)
    import transformers

    sizes = {"vocab_size": VOCABULARY, "num_hidden_layers": draw.choice([1, 2, 3]), "hidden_size": 32, "num_attention_heads": 4}
    more = {"intermediate_size": 48, "num_key_value_heads": draw.choice([1, 2, 4]), "max_position_embeddings": 64}
    more["tie_word_embeddings"] = draw.random() < 0.5
    if family in LLAMA_LIKE:
        name, settings = LLAMA_LIKE[family]
        config = getattr(transformers, f"{name}{'Text' if family == 'gemma3' else ''}Config")(**{**sizes, **more, **settings, "pad_token_id": None})  # its row would not be trained
        return getattr(transformers, f"{name}ForCausalLM")(config)
    drops = {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
    sizes = {"n_layer": sizes["num_hidden_layers"], "n_embd": 32, "n_head": 4, "n_positions": 32}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=VOCABULARY, **sizes, **drops))


def step(folder, seed, wrapper=""):
    """One of some steps is dumped; on ranks, each has its part of the samples."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    families = ["nanogpt", "gpt2", *LLAMA_LIKE] if PUBLISHED else ["nanogpt"]
    family = families[seed % len(families)]
    how = draw.choice(TYPES)
    model = model_of(family, draw)
    model.to(how.get("dtype", torch.float32))
    if wrapper == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        for block in [one for one in model.modules() if isinstance(one, nn.ModuleList)][0]:
            fully_shard(block, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
        fully_shard(model, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
    whole = nn.parallel.DistributedDataParallel(model) if wrapper == "ddp" else model
    settings = {"lr": draw.choice([1e-4, 1e-3, 1e-2]), "betas": (0.9, draw.choice([0.95, 0.999]))}
    kind = draw.choice([torch.optim.AdamW, torch.optim.Adam])
    optimizer = kind(model.parameters(), weight_decay=draw.choice([0, 0.01, 0.1]), foreach=draw.random() < 0.5, **settings)
    tokens, targets = data(seed)
    taught = int((targets >= 0).sum())
    labels = torch.cat([torch.full((ROWS, 1), -100), targets[:, :-1]], 1)
    ranks, rank = (dist.get_world_size(), dist.get_rank()) if wrapper else (1, 0)
    tokens, targets, labels = (x.chunk(ranks)[rank].contiguous() for x in (tokens, targets, labels))
    steps, micro, clip = draw.choice([1, 2, 3]), draw.choice([1, 2, 4]), draw.choice([None, 0.3, 100.0])
    for number in range(steps):
        optimizer.zero_grad()
        if number + 1 == steps:
            batch = (tokens, targets) if family == "nanogpt" else {"input_ids": tokens, "labels": labels}
            lockstep_dump.step(whole, batch, optimizer, folder)
        for x, y, label in zip(tokens.chunk(micro), targets.chunk(micro), labels.chunk(micro)):
            with torch.autocast("cpu", how.get("autocast"), enabled="autocast" in how):
                loss = whole(x, y)[1] if family == "nanogpt" else whole(input_ids=x, labels=label).loss
            (loss * int((y >= 0).sum()) * ranks / taught).backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


class Right(Case):
    def test_of_one_process(self):
        for seed in range(24 if ALL else 2):
            with self.subTest(seed=seed):
                step(self.place(str(seed)), seed)
                self.agrees()

    @unittest.skipUnless(ALL, "LOCKSTEP_DUMP_CASES=all")
    def test_of_two_ranks(self):
        kinds = ["ddp", "fsdp2"] * 3
        on_ranks(2, [(step, {"folder": self.place(str(i)), "seed": 100 + i, "wrapper": kind}) for i, kind in enumerate(kinds)])
        for i, kind in enumerate(kinds):
            with self.subTest(seed=100 + i, kind=kind):
                self.place(str(i))
                self.agrees()


if __name__ == "__main__":
    unittest.main(verbosity=1)
