#!/usr/bin/env python3
"""Tiny published models and their logits: implementations outside this project, in PyTorch, in float64.

Writes tests/golden/data/huggingface/<name>/: config.json and safetensors as the model's authors publish them, and logits.safetensors
(tokens, and logits computed in float64 from the stored weights). The names of tensors, the transposed matrices of GPT-2, the halves
that rotary positions turn and the frequencies in fp32 follow transformers; rasbt_* follow the code of "Build a Large Language Model
(From Scratch)", ch05/10. Needs torch and safetensors:

    python3 tests/golden/make_huggingface.py
"""
import json
import math
import pathlib
import shutil

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent / "data" / "huggingface"
VOCABULARY, LENGTH, BATCH, WIDTH, LAYERS = 47, 9, 3, 24, 2


class Tensors(dict):
    """Random weights by name; what is drawn is what is stored, in the type that it is stored in."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def add(self, name, *shape):
        noise = torch.randn(*shape) * (0.3 if len(shape) > 1 else 0.2)
        self[name] = (noise + (1 if name.endswith(("norm.weight", "scale")) or "ln_" in name and name.endswith("weight") else 0)
                      ).to(self.dtype)

    def linear(self, x, name, transposed=False):
        weight = self[name + ".weight"].double()
        y = x @ (weight if transposed else weight.T)
        return y + self[name + ".bias"].double() if name + ".bias" in self else y


def layer_norm(x, gain, bias, eps):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * gain.double() + bias.double()


def rms_norm(x, gain, eps):
    return gain.double() * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def attend(q, k, v):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1), float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def heads_of(x, heads):
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def gpt2(tokens, t, config, prefix):
    x = t[prefix + "wte.weight"][tokens].double() + t[prefix + "wpe.weight"][:tokens.shape[1]].double()
    act = {"gelu_new": lambda y: F.gelu(y, approximate="tanh"), "gelu": F.gelu, "relu": F.relu}[config["activation_function"]]
    for i in range(config["n_layer"]):
        h, eps = f"{prefix}h.{i}.", config["layer_norm_epsilon"]
        qkv = t.linear(layer_norm(x, t[h + "ln_1.weight"], t[h + "ln_1.bias"], eps), h + "attn.c_attn", True)
        y = attend(*(heads_of(part, config["n_head"]) for part in qkv.chunk(3, -1)))
        x = x + t.linear(y, h + "attn.c_proj", True)
        y = act(t.linear(layer_norm(x, t[h + "ln_2.weight"], t[h + "ln_2.bias"], eps), h + "mlp.c_fc", True))
        x = x + t.linear(y, h + "mlp.c_proj", True)
    x = layer_norm(x, t[prefix + "ln_f.weight"], t[prefix + "ln_f.bias"], config["layer_norm_epsilon"])
    return x @ t.get("lm_head.weight", t[prefix + "wte.weight"]).double().T


def make_gpt2(t, config, prefix):
    t.add(prefix + "wte.weight", VOCABULARY, WIDTH)
    t.add(prefix + "wpe.weight", config["n_positions"], WIDTH)
    inner = config["n_inner"] or 4 * WIDTH
    for i in range(config["n_layer"]):
        h = f"{prefix}h.{i}."
        for norm in ("ln_1", "ln_2"):
            t.add(h + norm + ".weight", WIDTH)
            t.add(h + norm + ".bias", WIDTH)
        for name, rows, columns in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH), ("mlp.c_fc", WIDTH, inner),
                                    ("mlp.c_proj", inner, WIDTH)):
            t.add(h + name + ".weight", rows, columns)
            t.add(h + name + ".bias", columns)
    t.add(prefix + "ln_f.weight", WIDTH)
    t.add(prefix + "ln_f.bias", WIDTH)


def frequencies(config):
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = rope.get("rope_theta", config.get("rope_theta"))
    frequency = 1.0 / (theta ** (torch.arange(0, config["head_dim"], 2).float() / config["head_dim"]))
    if rope.get("rope_type", "default") == "default":
        return frequency
    factor, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    original = rope["original_max_position_embeddings"]
    wavelength = 2 * math.pi / frequency
    scaled = torch.where(wavelength > original / low, frequency / factor, frequency)
    smooth = (original / wavelength - low) / (high - low)
    between = (1 - smooth) * scaled / factor + smooth * scaled
    medium = ~(wavelength < original / high) * ~(wavelength > original / low)
    return torch.where(medium, between, scaled)


def rotate(x, frequency):
    angles = torch.arange(x.shape[-2]).double()[:, None] * frequency.double()
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


def llama(tokens, t, config):
    x = t["model.embed_tokens.weight"][tokens].double()
    heads, kv_heads, eps = config["num_attention_heads"], config["num_key_value_heads"], config["rms_norm_eps"]
    frequency = frequencies(config)
    for i in range(config["num_hidden_layers"]):
        h = f"model.layers.{i}."
        y = rms_norm(x, t[h + "input_layernorm.weight"], eps)
        q = rotate(heads_of(t.linear(y, h + "self_attn.q_proj"), heads), frequency)
        k = rotate(heads_of(t.linear(y, h + "self_attn.k_proj"), kv_heads), frequency)
        v = heads_of(t.linear(y, h + "self_attn.v_proj"), kv_heads)
        k, v = (z.repeat_interleave(heads // kv_heads, 1) for z in (k, v))
        x = x + t.linear(attend(q, k, v), h + "self_attn.o_proj")
        y = rms_norm(x, t[h + "post_attention_layernorm.weight"], eps)
        y = F.silu(t.linear(y, h + "mlp.gate_proj")) * t.linear(y, h + "mlp.up_proj")
        x = x + t.linear(y, h + "mlp.down_proj")
    x = rms_norm(x, t["model.norm.weight"], eps)
    return x @ t.get("lm_head.weight", t["model.embed_tokens.weight"]).double().T


def make_llama(t, config, qkv_bias=False):
    heads, kv_heads, head = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    inner = config["intermediate_size"]
    t.add("model.embed_tokens.weight", VOCABULARY, WIDTH)
    for i in range(config["num_hidden_layers"]):
        h = f"model.layers.{i}."
        t.add(h + "input_layernorm.weight", WIDTH)
        t.add(h + "post_attention_layernorm.weight", WIDTH)
        for name, rows in (("q_proj", heads * head), ("k_proj", kv_heads * head), ("v_proj", kv_heads * head)):
            t.add(h + f"self_attn.{name}.weight", rows, WIDTH)
            if qkv_bias:
                t.add(h + f"self_attn.{name}.bias", rows)
        t.add(h + "self_attn.o_proj.weight", WIDTH, heads * head)
        t.add(h + "mlp.gate_proj.weight", inner, WIDTH)
        t.add(h + "mlp.up_proj.weight", inner, WIDTH)
        t.add(h + "mlp.down_proj.weight", WIDTH, inner)
    t.add("model.norm.weight", WIDTH)


def rasbt(tokens, t, config):
    x = t["tok_emb.weight"][tokens].double() + t["pos_emb.weight"][:tokens.shape[1]].double()
    fused = "trf_blocks.0.att.qkv.weight" in t
    gain, shift, out = ("weight", "bias", "proj") if fused else ("scale", "shift", "out_proj")
    norm = lambda x, name: layer_norm(x, t[f"{name}.{gain}"], t[f"{name}.{shift}"], 1e-5)
    for i in range(config["n_layers"]):
        b = f"trf_blocks.{i}."
        y = norm(x, b + "norm1")
        parts = (t.linear(y, b + "att.qkv").chunk(3, -1) if fused else
                 [t.linear(y, b + "att.W_" + part) for part in ("query", "key", "value")])
        x = x + t.linear(attend(*(heads_of(part, config["n_heads"]) for part in parts)), b + "att." + out)
        y = F.gelu(t.linear(norm(x, b + "norm2"), b + "ff.layers.0"), approximate="tanh")
        x = x + t.linear(y, b + "ff.layers.2")
    return norm(x, "final_norm") @ t["out_head.weight"].double().T


def make_rasbt(t, config, fused):
    gain, shift, out = ("weight", "bias", "proj") if fused else ("scale", "shift", "out_proj")
    t.add("tok_emb.weight", VOCABULARY, WIDTH)
    t.add("pos_emb.weight", config["context_length"], WIDTH)
    for i in range(config["n_layers"]):
        b = f"trf_blocks.{i}."
        for name in ([("qkv", 3 * WIDTH)] if fused else [(f"W_{part}", WIDTH) for part in ("query", "key", "value")]):
            t.add(f"{b}att.{name[0]}.weight", name[1], WIDTH)
            if config["qkv_bias"]:
                t.add(f"{b}att.{name[0]}.bias", name[1])
        if not fused:
            t[b + "att.mask"] = torch.ones(config["context_length"], config["context_length"]).triu(1)
        for name, rows, columns in ((f"att.{out}", WIDTH, WIDTH), ("ff.layers.0", 4 * WIDTH, WIDTH), ("ff.layers.2", WIDTH, 4 * WIDTH)):
            t.add(f"{b}{name}.weight", rows, columns)
            t.add(f"{b}{name}.bias", rows)
        for norm in ("norm1", "norm2"):
            t.add(f"{b}{norm}.{gain}", WIDTH)
            t.add(f"{b}{norm}.{shift}", WIDTH)
    t.add(f"final_norm.{gain}", WIDTH)
    t.add(f"final_norm.{shift}", WIDTH)
    t.add("out_head.weight", VOCABULARY, WIDTH)


def save(name, config, tensors, logits_of, shards=1):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    names = list(tensors)
    if shards == 1:
        save_file(dict(tensors), folder / "model.safetensors", metadata={"format": "pt"})
    else:
        files = {n: f"model-{i * shards // len(names) + 1:05}-of-{shards:05}.safetensors" for i, n in enumerate(names)}
        for file in sorted(set(files.values())):
            save_file({n: tensors[n] for n in names if files[n] == file}, folder / file, metadata={"format": "pt"})
        index = {"metadata": {"total_size": sum(x.nbytes for x in tensors.values())}, "weight_map": files}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    save_file({"tokens": tokens.int(), "logits": logits_of(tokens).float()}, folder / "logits.golden")
    print(name, sum(f.stat().st_size for f in folder.iterdir()))


def gpt2_model(name, seed, dtype, prefix, layers=LAYERS, untied=False, buffers=False, **more):
    torch.manual_seed(seed)
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": 12, "n_ctx": 12,
              "n_embd": WIDTH, "n_layer": layers, "n_head": 3, "n_inner": None, "activation_function": "gelu_new",
              "layer_norm_epsilon": 1e-5, **more}
    t = Tensors(dtype)
    make_gpt2(t, config, prefix)
    if untied:
        config["tie_word_embeddings"] = False
        t.add("lm_head.weight", VOCABULARY, WIDTH)
    if buffers:
        for i in range(layers):
            t[f"{prefix}h.{i}.attn.bias"] = torch.ones(12, 12).tril().view(1, 1, 12, 12)
            t[f"{prefix}h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    save(name, config, t, lambda tokens: gpt2(tokens, t, config, prefix))


def llama_model(name, seed, dtype, kind="llama", shards=1, layers=LAYERS, stored_head=False, **more):
    torch.manual_seed(seed)
    config = {"architectures": ["LlamaForCausalLM" if kind == "llama" else "Qwen2ForCausalLM"], "model_type": kind,
              "vocab_size": VOCABULARY, "max_position_embeddings": 64, "hidden_size": WIDTH, "intermediate_size": 40,
              "num_hidden_layers": layers, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10, "hidden_act": "silu",
              "rms_norm_eps": 1e-5, "tie_word_embeddings": False, **more}
    t = Tensors(dtype)
    make_llama(t, config, kind == "qwen2")
    if not config["tie_word_embeddings"]:
        t.add("lm_head.weight", VOCABULARY, WIDTH)
    elif stored_head:
        t["lm_head.weight"] = t["model.embed_tokens.weight"].clone()
    save(name, config, t, lambda tokens: llama(tokens, t, config), shards)


def rasbt_model(name, seed, fused, qkv_bias, dtype):
    torch.manual_seed(seed)
    config = {"vocab_size": VOCABULARY, "context_length": 12, "emb_dim": WIDTH, "n_heads": 3, "n_layers": 1, "drop_rate": 0.1,
              "qkv_bias": qkv_bias}
    t = Tensors(dtype)
    make_rasbt(t, config, fused)
    save(name, config, t, lambda tokens: rasbt(tokens, t, config))


SCALING = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
gpt2_model("gpt2", 1, torch.float32, "", layers=1, buffers=True)
gpt2_model("gpt2_untied", 2, torch.bfloat16, "transformer.", layers=1, untied=True, n_inner=30, activation_function="gelu")
llama_model("llama", 3, torch.float32, rope_theta=100.0, rope_scaling={"rope_type": "llama3", **SCALING}, layers=1)
llama_model("llama_tied", 4, torch.float16, tie_word_embeddings=True, stored_head=True, shards=2,
            rope_parameters={"rope_type": "llama3", "rope_theta": 100.0, **SCALING})
llama_model("qwen2", 5, torch.bfloat16, "qwen2", tie_word_embeddings=True, rope_theta=1e6, rms_norm_eps=1e-6, shards=3,
            num_attention_heads=3, num_key_value_heads=1)
rasbt_model("rasbt", 6, False, False, torch.float32)
rasbt_model("rasbt_fused", 7, True, True, torch.bfloat16)
