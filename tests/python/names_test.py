"""Models that are called and laid out as torchtitan's Llama and Megatron-LM's GPTModel, dumped and judged under published names.

Skips without PyTorch. The modules are small ones of those names, which compute what the systems' own do.
"""

import math
import types
import unittest

from dump_programs import ALL, LENGTH, VOCABULARY, Case, data, on_ranks, optimizer_of
from parallel_programs import Enter, Gather, Leave

import lockstep_dump
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

HEADS, GROUPS, SIZE, INNER = 4, 2, 8, 48
WIDTH = HEADS * SIZE
WORDS = VOCABULARY + 1


def attend(q, k, v):
    """Of [rows, positions, heads, size]."""
    repeats = q.shape[2] // k.shape[2]
    q, k, v = q.transpose(1, 2), *(x.repeat_interleave(repeats, 2).transpose(1, 2) for x in (k, v))
    mask = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
    scores = (q @ k.transpose(-2, -1) / math.sqrt(SIZE)).masked_fill(~mask, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def angles():
    return torch.outer(torch.arange(LENGTH).float(), 10000.0 ** (-torch.arange(0, SIZE, 2).float() / SIZE))


def initialized(model):
    for parameter in model.parameters():
        nn.init.normal_(parameter, 1 if parameter.dim() == 1 else 0, 0.3)
    return model


class TitanAttention(nn.Module):
    def __init__(self, fused, rope):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = HEADS, GROUPS, SIZE
        if rope is not None:
            self.rope = rope
        holder = self if fused is None else nn.Module()
        if fused:
            holder.wqkv = nn.Linear(WIDTH, (HEADS + 2 * GROUPS) * SIZE, bias=False)
        else:
            holder.wq, holder.wk, holder.wv = (nn.Linear(WIDTH, heads * SIZE, bias=False) for heads in (HEADS, GROUPS, GROUPS))
        if fused is not None:
            self.qkv_linear = holder
        self.wo = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        holder = getattr(self, "qkv_linear", self)
        if hasattr(holder, "wqkv"):
            q, k, v = holder.wqkv(x).view(*x.shape[:2], GROUPS, -1, SIZE).split([HEADS // GROUPS, 1, 1], 3)
            q, k, v = (part.reshape(*x.shape[:2], -1, SIZE) for part in (q, k, v))
        else:
            q, k, v = (product(x).unflatten(2, (-1, SIZE)) for product in (holder.wq, holder.wk, holder.wv))
        turns = torch.polar(torch.ones(LENGTH, SIZE // 2), angles()).view(1, LENGTH, 1, -1)  # pairs are neighbours
        q, k = (torch.view_as_real(torch.view_as_complex(part.unflatten(3, (-1, 2))) * turns).flatten(3) for part in (q, k))
        return self.wo(attend(q, k, v))


class TitanFeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3, self.w2 = (nn.Linear(a, b, bias=False) for a, b in ((WIDTH, INNER), (WIDTH, INNER), (INNER, WIDTH)))

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TitanBlock(nn.Module):
    def __init__(self, fused, rope):
        super().__init__()
        self.attention, self.feed_forward = TitanAttention(fused, rope), TitanFeedForward()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class ComplexRoPE(nn.Module):
    config = types.SimpleNamespace(theta=10000.0, scaling="none", max_seq_len=64)


class CosSinRoPE(ComplexRoPE):
    """By its name, pairs are half a head apart."""


class Titan(nn.Module):
    """`fused`: None is the older layout, False and True are those of newer versions."""

    def __init__(self, fused=None):
        super().__init__()
        if fused is None:
            self.model_args = types.SimpleNamespace(rope_theta=10000.0, rope_scaling_args=None, max_seq_len=64)
        self.tok_embeddings, self.norm = nn.Embedding(WORDS, WIDTH), nn.RMSNorm(WIDTH, eps=1e-5)
        rope = None if fused is None else ComplexRoPE()
        self.layers = nn.ModuleDict({str(i): TitanBlock(fused, rope) for i in range(2)})
        self.head = "output" if fused is None else "lm_head"
        setattr(self, self.head, nn.Linear(WIDTH, WORDS, bias=False))
        initialized(self)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers.values():
            x = layer(x)
        return getattr(self, self.head)(self.norm(x))


class Linear(nn.Module):
    """Megatron's: [positions, rows, width], a bias that may be left to the next module, a norm that is fused before it."""

    def __init__(self, inputs, outputs, dim=None, bias=True, apart=False, norm=None, group=None):
        super().__init__()
        self.dim, self.apart, self.norm, self.group = dim, apart, norm, group
        ranks = dist.get_world_size(group) if group else 1
        inputs, outputs = (inputs, outputs // ranks) if dim == 0 else (inputs // ranks, outputs)
        if norm is not None:
            self.layer_norm_weight = nn.Parameter(torch.ones(inputs))
            self.layer_norm_bias = nn.Parameter(torch.zeros(inputs)) if norm == "LayerNorm" else None
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        for parameter in [self.weight] + ([self.bias] if bias and dim == 0 else []):
            parameter.tensor_model_parallel, parameter.partition_dim = group is not None, dim

    def forward(self, x):
        if self.norm is not None:
            x = normed(x, self.layer_norm_weight, self.layer_norm_bias)
        x = Enter.apply(x, self.group) if self.group and self.dim == 0 else x
        y = F.linear(x, self.weight, None if self.apart or self.dim == 1 else self.bias)
        y = Leave.apply(y, self.group) if self.group and self.dim == 1 else y
        return (y, self.bias) if self.apart else (y if self.dim == 0 or self.bias is None else y + self.bias, None)


def normed(x, weight, bias):
    return F.rms_norm(x, (WIDTH,), weight, 1e-5) if bias is None else F.layer_norm(x, (WIDTH,), weight, bias)


class MegatronAttention(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.linear_qkv = Linear(WIDTH, (kind.heads + 2 * kind.groups) * SIZE, 0, kind.qkv_bias, norm=kind.norm, group=kind.group)
        self.linear_proj = Linear(WIDTH, WIDTH, 1, kind.bias, True, group=kind.group)

    def forward(self, x):
        mixed = self.linear_qkv(x)[0].transpose(0, 1)
        queries = self.kind.heads // self.kind.groups
        q, k, v = mixed.unflatten(2, (-1, queries + 2, SIZE)).split([queries, 1, 1], 3)
        q, k, v = (part.flatten(2, 3) for part in (q, k, v))
        if not self.kind.gpt2:
            cosine, sine = (turn.repeat(1, 2).view(1, LENGTH, 1, SIZE) for turn in (angles().cos(), angles().sin()))
            q, k = (part * cosine + torch.cat([-part[..., SIZE // 2 :], part[..., : SIZE // 2]], 3) * sine for part in (q, k))
        return self.linear_proj(attend(q, k, v).transpose(0, 1))


class MegatronMlp(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.gated = not kind.gpt2
        self.linear_fc1 = Linear(WIDTH, INNER * (2 if self.gated else 1), 0, kind.bias, True, norm=kind.norm, group=kind.group)
        self.linear_fc2 = Linear(INNER, WIDTH, 1, kind.bias, True, group=kind.group)

    def forward(self, x):
        x, bias = self.linear_fc1(x)
        x = x if bias is None else x + bias
        gate, *up = x.chunk(2 if self.gated else 1, 2)
        return self.linear_fc2(F.silu(gate) * up[0] if self.gated else F.gelu(gate))


class MegatronLayer(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.self_attention, self.mlp = MegatronAttention(kind), MegatronMlp(kind)

    def forward(self, x):
        for part in (self.self_attention, self.mlp):
            y, bias = part(x)
            x = x + (y if bias is None else y + bias)
        return x, None


class Norm(nn.Module):
    def __init__(self, centred):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(WIDTH)), nn.Parameter(torch.empty(WIDTH)) if centred else None

    def forward(self, x):
        return normed(x, self.weight, self.bias)


class MegatronEmbedding(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.word_embeddings = nn.Embedding(WORDS, WIDTH)
        if kind.gpt2:
            self.position_embeddings = nn.Embedding(64, WIDTH)

    def forward(self, tokens):
        x = self.word_embeddings(tokens)
        if hasattr(self, "position_embeddings"):
            x = x + self.position_embeddings(torch.arange(tokens.shape[1]))
        return x.transpose(0, 1).contiguous()


class Megatron(nn.Module):
    def __init__(self, gpt2, group=None):
        super().__init__()
        heads, groups = HEADS, HEADS if gpt2 else GROUPS
        norm = "LayerNorm" if gpt2 else "RMSNorm"
        kind = types.SimpleNamespace(gpt2=gpt2, heads=heads, groups=groups, norm=norm, bias=gpt2, qkv_bias=True, group=group)
        sizes = {"num_layers": 2, "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_query_groups": groups}
        sizes.update(kv_channels=SIZE, ffn_hidden_size=INNER, normalization=norm, gated_linear_unit=not gpt2)
        sizes.update(layernorm_epsilon=1e-5, layernorm_zero_centered_gamma=False, bias_activation_fusion=False)
        self.config = types.SimpleNamespace(**sizes, rotary_interleaved=False, add_qkv_bias=not gpt2, add_bias_linear=gpt2)
        self.position_embedding_type = "learned_absolute" if gpt2 else "rope"
        self.rotary_base, self.max_sequence_length, self.vocab_size = 10000, 64, WORDS
        self.share_embeddings_and_output_weights = gpt2
        self.embedding, self.decoder, self.group = MegatronEmbedding(kind), nn.Module(), group
        self.decoder.layers = nn.ModuleList(MegatronLayer(kind) for _ in range(2))
        self.decoder.final_layernorm = Norm(gpt2)
        if not gpt2:
            self.output_layer = Linear(WIDTH, WORDS, 0, False, group=group)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.decoder.layers:
            x = layer(x)[0]
        x = self.decoder.final_layernorm(x)
        y = F.linear(x, self.embedding.word_embeddings.weight) if self.config.add_bias_linear else self.output_layer(x)[0]
        y = Gather.apply(y, 2, self.group, False) if self.group else y
        return y.transpose(0, 1)


def step(folder, model, steps=2, **known):
    tokens, targets = data()
    optimizer = optimizer_of(model)
    for number in range(steps):
        optimizer.zero_grad()
        if number + 1 == steps:
            lockstep_dump.step(model, (tokens, targets), optimizer, folder, **known)
        for x, y in zip(tokens.chunk(2), targets.chunk(2)):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
            (loss / (targets >= 0).sum()).backward()
        optimizer.step()


def on_two(folder):
    """Each rank draws its own parts, and all of them the same of what is whole."""
    model = Megatron(False, dist.group.WORLD)
    for i, parameter in enumerate(model.parameters()):
        torch.manual_seed(i + 100 * dist.get_rank() * getattr(parameter, "tensor_model_parallel", False))
        nn.init.normal_(parameter, 1 if parameter.dim() == 1 else 0, 0.3)
    step(folder, model, coordinates={"tp": dist.get_rank()})


class Names(Case):
    def test_torchtitan(self):
        for fused in (None, False, True) if ALL else (None, True):
            with self.subTest(fused=fused):
                torch.manual_seed(3)
                step(self.place(str(fused)), Titan(fused))
                self.assertEqual(self.agrees()["not_judged"], [])

    def test_torchtitan_with_pairs_half_a_head_apart(self):
        torch.manual_seed(3)
        model = Titan(False)
        for layer in model.layers.values():
            layer.attention.rope = CosSinRoPE()
        step(self.folder, model)
        self.named("rotary-order")

    def test_megatron(self):
        for gpt2 in (False, True):
            with self.subTest(gpt2=gpt2):
                torch.manual_seed(3)
                step(self.place(str(gpt2)), initialized(Megatron(gpt2)))
                self.assertEqual(self.agrees()["not_judged"], [])

    @unittest.skipUnless(ALL, "LOCKSTEP_DUMP_CASES=all")
    def test_megatron_on_two_tensor_ranks(self):
        on_ranks(2, [(on_two, {"folder": self.folder})])
        self.assertEqual(self.agrees()["not_judged"], [])

    def test_what_no_table_has_is_refused(self):
        model = Titan()
        model.layers["0"].attention.q_norm = nn.RMSNorm(SIZE)
        with self.assertRaisesRegex(TypeError, "parameter layers.0.attention.q_norm.weight is in no table"):
            lockstep_dump.step(model, data(), optimizer_of(model), self.folder)
        model = Megatron(False)
        model.config.layernorm_zero_centered_gamma = True
        with self.assertRaisesRegex(TypeError, "the GPTModel's kind is neither"):
            lockstep_dump.step(model, data(), optimizer_of(model), self.folder)
        with self.assertRaisesRegex(TypeError, "Linear is no model of transformers"):
            lockstep_dump.step(nn.Linear(2, 2), data(), torch.optim.AdamW([torch.zeros(1)]), self.folder)


if __name__ == "__main__":
    unittest.main(verbosity=1)
