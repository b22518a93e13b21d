#!/usr/bin/env python3
"""A Llama of GPT-2's size in PyTorch, timed exactly as torch_gpt.py times its GPT-2 (whose loop this is): RMSNorm, rotary
positions, SwiGLU of 2048, a tied head, no bias. bench/peers.sh starts it with the folder of torch_gpt.py on PYTHONPATH.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_gpt


def rotated(x, cos, sin):
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        hidden = -(-8 * width // 3 // 256) * 256
        self.ln_1, self.ln_2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate_up, self.down = nn.Linear(width, 2 * hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        gate, up = self.gate_up(self.ln_2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, layers, heads, width, vocab, length):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.RMSNorm(width, eps=1e-5)
        size = width // heads
        angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, size, 2) / size)
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


torch_gpt.Gpt = Llama
torch_gpt.SHAPES = {"llama:4x64": (12, 12, 768, 50304, 4, 64), "llama:1x1024": (12, 12, 768, 50304, 1, 1024)}

if __name__ == "__main__":
    torch_gpt.main()
