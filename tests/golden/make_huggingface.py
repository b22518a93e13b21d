#!/usr/bin/env python3
"""Tiny published models and their logits: implementations outside this project, in PyTorch, in float64.

Writes tests/golden/data/huggingface/<name>/: config.json and safetensors as the model's authors publish them, and logits.safetensors
(tokens, and logits computed in float64 from the stored weights). The names of tensors, the transposed matrices of GPT-2, the halves
that rotary positions turn and the frequencies in fp32 follow transformers; rasbt_* follow the code of "Build a Large Language Model
(From Scratch)", ch05/10. Needs torch and safetensors:

    python3 tests/golden/make_huggingface.py [NAME...]     # all, or those of these names
"""
import json
import math
import pathlib
import shutil
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent / "data" / "huggingface"
VOCABULARY, LENGTH, BATCH, WIDTH, LAYERS = 47, 9, 3, 24, 2


class Tensors(dict):
    """Random weights by name; what is drawn is what is stored, in the type that it is stored in."""

    def __init__(self, dtype, unit_offset=False):
        super().__init__()
        self.dtype, self.unit_offset = dtype, unit_offset

    def add(self, name, *shape):
        noise = torch.randn(*shape) * (0.3 if len(shape) > 1 else 0.2)
        gain = name.endswith(("norm.weight", "scale")) or "ln_" in name and name.endswith("weight")
        self[name] = (noise + (1 if gain and not self.unit_offset else 0)).to(self.dtype)

    def linear(self, x, name, transposed=False):
        weight = self[name + ".weight"].double()
        y = x @ (weight if transposed else weight.T)
        return y + self[name + ".bias"].double() if name + ".bias" in self else y


def layer_norm(x, gain, bias, eps):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * gain.double() + bias.double()


def rms_norm(x, gain, eps):
    return gain.double() * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def capped(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


def attend(q, k, v, window=None, divisor=None, cap=None):
    scores = q @ k.transpose(-1, -2) / (divisor or q.shape[-1]) ** 0.5
    scores = capped(scores, cap)
    hidden = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
    if window:
        hidden |= torch.ones_like(hidden).tril(-window)
    scores = scores.masked_fill(hidden, float("-inf"))
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
    if rope["rope_type"] == "yarn":
        return yarn(rope, frequency, theta, config["head_dim"])
    factor, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    original = rope["original_max_position_embeddings"]
    wavelength = 2 * math.pi / frequency
    scaled = torch.where(wavelength > original / low, frequency / factor, frequency)
    smooth = (original / wavelength - low) / (high - low)
    between = (1 - smooth) * scaled / factor + smooth * scaled
    medium = ~(wavelength < original / high) * ~(wavelength > original / low)
    return torch.where(medium, between, scaled)


def yarn(rope, frequency, theta, size):
    """Peng et al. 2023, section 3.2, with the ramp over the numbers of pairs that transformers has."""
    pair = lambda turns: size * math.log(rope["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(theta))
    low, high = max(math.floor(pair(rope["beta_fast"])), 0), min(math.ceil(pair(rope["beta_slow"])), size - 1)
    ramp = ((torch.arange(size // 2).float() - low) / (high - low)).clamp(0, 1)
    return frequency / rope["factor"] * ramp + frequency * (1 - ramp)


def rotate(x, frequency, length=1):
    angles = torch.arange(x.shape[-2]).double()[:, None] * frequency.double()
    cos, sin = length * angles.cos().repeat(1, 2), length * angles.sin().repeat(1, 2)
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


def llama(tokens, t, config):
    gemma = config["model_type"].startswith("gemma")
    x = t["model.embed_tokens.weight"][tokens].double() * (WIDTH ** 0.5 if gemma else 1)
    gain = lambda name: t[name + ".weight"].double() + (1 if gemma else 0)
    heads, kv_heads, eps = config["num_attention_heads"], config["num_key_value_heads"], config["rms_norm_eps"]
    frequency = frequencies(config)
    rope = config.get("rope_scaling") or {}
    length = 0.1 * math.log(rope["factor"]) + 1 if rope.get("rope_type") == "yarn" else 1
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    local = [kind == "sliding_attention" for kind in config.get("layer_types", ["sliding_attention"] * config["num_hidden_layers"])]
    slow = config["rope_local_base_freq"] ** (-torch.arange(0, config["head_dim"], 2).float() / config["head_dim"]) \
        if "rope_local_base_freq" in config else frequency
    turned = config.get("no_rope_layers", [1] * config["num_hidden_layers"])
    sizes = [heads * config["head_dim"], kv_heads * config["head_dim"], kv_heads * config["head_dim"]]
    for i in range(config["num_hidden_layers"]):
        h = f"model.layers.{i}."
        y = rms_norm(x, gain(h + "input_layernorm"), eps)
        if h + "self_attn.qkv_proj.weight" in t:
            q, k, v = t.linear(y, h + "self_attn.qkv_proj").split(sizes, -1)
        else:
            q, k, v = (t.linear(y, h + f"self_attn.{part}_proj") for part in "qkv")
        q, k, v = (heads_of(z, n) for z, n in ((q, heads), (k, kv_heads), (v, kv_heads)))
        if h + "self_attn.q_norm.weight" in t:
            q, k = (rms_norm(z, gain(h + f"self_attn.{part}_norm"), eps) for z, part in ((q, "q"), (k, "k")))
        if turned[i]:
            q, k = (rotate(z, slow if local[i] else frequency, length) for z in (q, k))
        k, v = (z.repeat_interleave(heads // kv_heads, 1) for z in (k, v))
        y = attend(q, k, v, window if local[i] else None, config.get("query_pre_attn_scalar"), config.get("attn_logit_softcapping"))
        y = t.linear(y, h + "self_attn.o_proj")
        behind = h + "pre_feedforward_layernorm.weight" in t
        x = x + (rms_norm(y, gain(h + "post_attention_layernorm"), eps) if behind else y)
        y = rms_norm(x, gain(h + ("pre_feedforward_layernorm" if behind else "post_attention_layernorm")), eps)
        if h + "mlp.gate_up_proj.weight" in t:
            gate, up = t.linear(y, h + "mlp.gate_up_proj").chunk(2, -1)
        else:
            gate, up = t.linear(y, h + "mlp.gate_proj"), t.linear(y, h + "mlp.up_proj")
        y = t.linear((F.gelu(gate, approximate="tanh") if gemma else F.silu(gate)) * up, h + "mlp.down_proj")
        x = x + (rms_norm(y, gain(h + "post_feedforward_layernorm"), eps) if behind else y)
    x = rms_norm(x, gain("model.norm"), eps)
    logits = x @ t.get("lm_head.weight", t["model.embed_tokens.weight"]).double().T
    return capped(logits, config.get("final_logit_softcapping"))


def make_llama(t, config, kind):
    qkv_bias, fused = kind == "qwen2", kind == "phi3"
    heads, kv_heads, head = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    inner = config["intermediate_size"]
    t.add("model.embed_tokens.weight", VOCABULARY, WIDTH)
    for i in range(config["num_hidden_layers"]):
        h = f"model.layers.{i}."
        t.add(h + "input_layernorm.weight", WIDTH)
        t.add(h + "post_attention_layernorm.weight", WIDTH)
        if kind in ("gemma2", "gemma3_text"):
            t.add(h + "pre_feedforward_layernorm.weight", WIDTH)
            t.add(h + "post_feedforward_layernorm.weight", WIDTH)
        parts = (("q_proj", heads * head), ("k_proj", kv_heads * head), ("v_proj", kv_heads * head))
        for name, rows in (("qkv_proj", (heads + 2 * kv_heads) * head),) if fused else parts:
            t.add(h + f"self_attn.{name}.weight", rows, WIDTH)
            if qkv_bias:
                t.add(h + f"self_attn.{name}.bias", rows)
        t.add(h + "self_attn.o_proj.weight", WIDTH, heads * head)
        for name, rows in (("gate_up_proj", 2 * inner),) if fused else (("gate_proj", inner), ("up_proj", inner)):
            t.add(h + f"mlp.{name}.weight", rows, WIDTH)
        if kind in ("qwen3", "gemma3_text"):
            t.add(h + "self_attn.q_norm.weight", head)
            t.add(h + "self_attn.k_norm.weight", head)
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
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        return
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
    names = {"llama": "Llama", "mistral": "Mistral", "phi3": "Phi3", "qwen2": "Qwen2", "qwen3": "Qwen3", "smollm3": "SmolLM3",
             "gemma2": "Gemma2", "gemma3_text": "Gemma3"}
    gemma = kind.startswith("gemma")
    config = {"architectures": [names[kind] + "ForCausalLM"], "model_type": kind,
              "vocab_size": VOCABULARY, "max_position_embeddings": 64, "hidden_size": WIDTH, "intermediate_size": 40,
              "num_hidden_layers": layers, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10,
              **({"hidden_activation": "gelu_pytorch_tanh"} if gemma else {"hidden_act": "silu"}),
              "rms_norm_eps": 1e-5, "tie_word_embeddings": False, **more}
    t = Tensors(dtype, gemma)
    make_llama(t, config, kind)
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
llama_model("qwen3", 8, torch.bfloat16, "qwen3", tie_word_embeddings=True, rope_theta=1e3, use_sliding_window=True, sliding_window=4,
            max_window_layers=0, rope_scaling={"rope_type": "yarn", "factor": 4.0, "beta_fast": 3.0, "beta_slow": 1.0,
                                               "original_max_position_embeddings": 16})
llama_model("smollm3", 9, torch.bfloat16, "smollm3", tie_word_embeddings=True, rope_theta=1e2, no_rope_layers=[1, 0])
llama_model("phi3", 10, torch.bfloat16, "phi3", layers=1, rope_theta=1e2, sliding_window=3, num_attention_heads=4, head_dim=6)
llama_model("gemma2", 11, torch.bfloat16, "gemma2", tie_word_embeddings=True, rope_theta=1e2, sliding_window=4,
            layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=7, attn_logit_softcapping=2.0,
            final_logit_softcapping=3.0)
llama_model("gemma3", 12, torch.bfloat16, "gemma3_text", layers=3, tie_word_embeddings=True, rope_theta=1e4, rope_local_base_freq=50.0,
            rope_scaling={"rope_type": "llama3", **SCALING}, sliding_window=3, sliding_window_pattern=2,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"], query_pre_attn_scalar=10)
rasbt_model("rasbt", 6, False, False, torch.float32)
rasbt_model("rasbt_fused", 7, True, True, torch.bfloat16)
