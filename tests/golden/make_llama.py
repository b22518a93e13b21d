#!/usr/bin/env python3
"""Golden values of a tiny Llama, Qwen2 and Qwen3: an implementation outside this project, in PyTorch, in float64.

Writes tests/golden/data/llama.safetensors, qwen2.safetensors and qwen3.safetensors: the start weights (fp32; q, k, v are one matrix, and so are gate
and up), the tokens and targets of ten steps, every gradient of the first step (float64 rounded to fp32) and the losses of ten
AdamW steps (float64). Rotary positions follow Hugging Face: frequencies in fp32, halves of a head rotated. Needs torch and
safetensors:

    python3 tests/golden/make_llama.py [NAME...]     # all, or those of these names
"""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

from training import VOCABULARY, train

LAYERS, WIDTH, HIDDEN, HEAD = 2, 30, 40, 10


class RMSNorm(nn.Module):
    def __init__(self, eps, width=WIDTH):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def frequencies(theta, scaling):
    frequency = 1.0 / (theta ** (torch.arange(0, HEAD, 2).float() / HEAD))
    if scaling is None:
        return frequency
    wavelength = 2 * math.pi / frequency
    smooth = (scaling["original"] / wavelength - scaling["low"]) / (scaling["high"] - scaling["low"])
    between = (1 - smooth) * frequency / scaling["factor"] + smooth * frequency
    scaled = torch.where(wavelength > scaling["original"] / scaling["low"], frequency / scaling["factor"], between)
    return torch.where(wavelength < scaling["original"] / scaling["high"], frequency, scaled)


def rotate(x, frequency):
    angles = torch.arange(x.shape[-2]).double()[:, None] * frequency.double()
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


class Block(nn.Module):
    def __init__(self, kind, layer):
        super().__init__()
        self.window = kind.get("window") if (layer + 1) % kind.get("global_every", LAYERS + 1) else None
        self.heads, self.kv_heads = kind["heads"], kind["kv_heads"]
        self.frequency = frequencies(kind["theta"], kind["scaling"])
        self.ln_1, self.ln_2 = RMSNorm(kind["eps"]), RMSNorm(kind["eps"])
        self.attn = nn.ModuleDict({
            "c_attn": nn.Linear(WIDTH, (self.heads + 2 * self.kv_heads) * HEAD, bias=kind["qkv_bias"]),
            "c_proj": nn.Linear(self.heads * HEAD, WIDTH, bias=False)})
        if kind.get("qk_norm"):
            self.attn["q_norm"], self.attn["k_norm"] = RMSNorm(kind["eps"], HEAD), RMSNorm(kind["eps"], HEAD)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(WIDTH, 2 * HIDDEN, bias=False), "c_proj": nn.Linear(HIDDEN, WIDTH, bias=False)})

    def forward(self, x):
        b, t, _ = x.shape
        qkv = self.attn["c_attn"](self.ln_1(x)).view(b, t, -1, HEAD).transpose(1, 2)
        q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], 1)
        if "q_norm" in self.attn:
            q, k = self.attn["q_norm"](q), self.attn["k_norm"](k)
        q, k = rotate(q, self.frequency), rotate(k, self.frequency)
        k, v = (y.repeat_interleave(self.heads // self.kv_heads, 1) for y in (k, v))
        scores = q @ k.transpose(-1, -2) / HEAD ** 0.5
        hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
        if self.window:
            hidden |= torch.ones_like(hidden).tril(-self.window)
        scores = scores.masked_fill(hidden, float("-inf"))
        x = x + self.attn["c_proj"]((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))
        gate, up = self.mlp["c_fc"](self.ln_2(x)).chunk(2, -1)
        return x + self.mlp["c_proj"](F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(VOCABULARY, WIDTH), "h": nn.ModuleList(Block(kind, i) for i in range(LAYERS)),
            "ln_f": RMSNorm(kind["eps"])})
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        for name, parameter in self.named_parameters():
            nn.init.normal_(parameter, mean=1.0 if "ln_" in name or "_norm" in name else 0.0, std=0.1)
        if kind["tied"]:
            self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, tokens, targets):
        x = self.transformer["wte"](tokens)
        for block in self.transformer["h"]:
            x = block(x)
        logits = self.lm_head(self.transformer["ln_f"](x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def make(name, **kind):
    if len(sys.argv) == 1 or name in sys.argv[1:]:
        train(name, 11, lambda: Llama(kind))


# Of the five waves of a head one stays, one is between and three are long.
make("llama", heads=6, kv_heads=2, theta=100.0, eps=1e-5, qkv_bias=False, tied=False,
     scaling={"factor": 8.0, "low": 1.0, "high": 4.0, "original": 32})
make("qwen2", heads=3, kv_heads=1, theta=1e6, eps=1e-6, qkv_bias=True, tied=True, scaling=None)
make("qwen3", heads=6, kv_heads=2, theta=1e6, eps=1e-6, qkv_bias=False, tied=True, scaling=None, qk_norm=True, window=3,
     global_every=2)
