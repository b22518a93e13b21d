#!/usr/bin/env python3
"""Golden values of tiny GPT-2 models: an implementation outside this project, in PyTorch, in float64.

Writes tests/golden/data/gpt2_*.safetensors: the start weights (fp32), the tokens and targets of ten steps, every gradient
of the first step (float64 rounded to fp32) and the losses of ten AdamW steps (float64). Needs torch and safetensors:

    python3 tests/golden/make_gpt2.py
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from training import LENGTH, VOCABULARY, train

LAYERS, HEADS, WIDTH = 2, 3, 30


class Block(nn.Module):
    def __init__(self, bias, activation):
        super().__init__()
        self.activation = activation
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH, bias=bias), nn.LayerNorm(WIDTH, bias=bias)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(WIDTH, 3 * WIDTH, bias=bias), "c_proj": nn.Linear(WIDTH, WIDTH, bias=bias)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(WIDTH, 4 * WIDTH, bias=bias), "c_proj": nn.Linear(4 * WIDTH, WIDTH, bias=bias)})

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2) for y in self.attn["c_attn"](self.ln_1(x)).split(WIDTH, -1))
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        x = x + self.attn["c_proj"]((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.mlp["c_proj"](self.activation(self.mlp["c_fc"](self.ln_2(x))))


class Gpt2(nn.Module):
    def __init__(self, bias, tied, activation):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(VOCABULARY, WIDTH), "wpe": nn.Embedding(LENGTH, WIDTH),
            "h": nn.ModuleList(Block(bias, activation) for _ in range(LAYERS)), "ln_f": nn.LayerNorm(WIDTH, bias=bias)})
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        for parameter in self.parameters():
            nn.init.normal_(parameter, mean=1.0 if parameter.dim() == 1 else 0.0, std=0.1)
        if tied:
            self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, tokens, targets):
        x = self.transformer["wte"](tokens) + self.transformer["wpe"](torch.arange(tokens.shape[1]))
        for block in self.transformer["h"]:
            x = block(x)
        logits = self.lm_head(self.transformer["ln_f"](x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def make(name, bias, tied, activation):
    train("gpt2_" + name, 7, lambda: Gpt2(bias, tied, activation))


make("tied_bias_tanh", True, True, lambda x: F.gelu(x, approximate="tanh"))
make("untied_erf", False, False, F.gelu)
