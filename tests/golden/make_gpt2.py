#!/usr/bin/env python3
"""Golden values of tiny GPT-2 models: an implementation outside this project, in PyTorch, in float64.

Writes tests/golden/data/gpt2_*.safetensors: the start weights (fp32), the tokens and targets of ten steps, every gradient
of the first step (float64 rounded to fp32) and the losses of ten AdamW steps (float64). Needs torch and safetensors:

    python3 tests/golden/make_gpt2.py
"""
import pathlib

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent / "data"
STEPS, BATCH, LENGTH, LAYERS, HEADS, WIDTH, VOCABULARY = 10, 3, 7, 2, 3, 30, 65
LEARNING_RATE, DECAY, CLIP = 1e-2, 0.1, 1.0


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
    torch.manual_seed(7)
    model = Gpt2(bias, tied, activation)
    out = {"weight." + n: p.detach().clone() for n, p in model.named_parameters()}
    model.double()
    tokens = torch.randint(0, VOCABULARY, (STEPS, BATCH, LENGTH))
    targets = torch.randint(0, VOCABULARY, (STEPS, BATCH, LENGTH))
    targets[0, 1, 2] = -1
    matrices = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}],
                                  lr=LEARNING_RATE, betas=(0.9, 0.95))
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(tokens[step], targets[step])
        loss.backward()
        if step == 0:
            out.update({"gradient." + n: p.grad.float() for n, p in model.named_parameters()})
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    out["tokens"], out["targets"] = tokens.int(), targets.int()
    out["losses"] = torch.tensor(losses, dtype=torch.float64)
    HERE.mkdir(exist_ok=True)
    save_file(out, HERE / f"gpt2_{name}.safetensors")
    print(name, losses)


make("tied_bias_tanh", True, True, lambda x: F.gelu(x, approximate="tanh"))
make("untied_erf", False, False, F.gelu)
