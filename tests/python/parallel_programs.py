"""Tensor, sequence and context parallelism by hand, as programs have it, right or with a bug; for the tests of lockstep_dump.

Llama and Qwen2 with the names of Hugging Face, GPT-2 with nanoGPT's. Ranks are counted data first, tensor last.
"""

import math
import types

import torch
import torch.distributed as dist
from dump_programs import VOCABULARY
from torch import nn
from torch.nn import functional as F

HEADS, GROUPS, SIZE, INNER, BASE = 8, 4, 4, 48, 10000.0
WIDTH = HEADS * SIZE


class Place:
    """This rank's coordinates and groups."""

    def __init__(self, dp, cp, tp):
        number = torch.arange(dp * cp * tp).view(dp, cp, tp)
        self.sizes = {"dp": dp, "cp": cp, "tp": tp}
        here = (number == dist.get_rank()).nonzero()[0].tolist()
        self.coordinates = dict(zip(("dp", "cp", "tp"), here))
        self.dp, self.cp, self.tp = here
        self.tensor = self.group([number[i, j] for i in range(dp) for j in range(cp)])
        self.context = self.group([number[i, :, k] for i in range(dp) for k in range(tp)])
        self.samples = self.group([number[:, j, k] for j in range(cp) for k in range(tp)])
        self.tokens = self.group([number[:, :, k].flatten() for k in range(tp)])

    @staticmethod
    def group(all_of):
        groups = [(ranks.tolist(), dist.new_group(ranks.tolist())) for ranks in all_of]
        return next(group for ranks, group in groups if dist.get_rank() in ranks)


def summed(x, group):
    total = x.detach().float().contiguous().clone()
    dist.all_reduce(total, group=group)
    return total.to(x.dtype)


def gathered(x, dim, group):
    parts = [torch.empty_like(x).contiguous() for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x.contiguous(), group=group)
    return torch.cat(parts, dim)


def own_part(x, dim, group):
    return x.chunk(dist.get_world_size(group), dim)[dist.get_rank(group)]


class Enter(torch.autograd.Function):
    """Into features that ranks divide: gradients are summed, `times` times."""

    @staticmethod
    def forward(ctx, x, group, times=1):
        ctx.group, ctx.times = group, times
        return x.view_as(x)

    @staticmethod
    def backward(ctx, slope):
        for _ in range(ctx.times):
            slope = summed(slope, ctx.group)
        return slope, None, None


class Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group, times=1):
        for _ in range(times):
            x = summed(x, group)
        return x

    @staticmethod
    def backward(ctx, slope):
        return slope, None, None


class Gather(torch.autograd.Function):
    """Parts of a dimension become whole. Back: the own part, of the sum over ranks or of what this rank alone has."""

    @staticmethod
    def forward(ctx, x, dim, group, sums):
        ctx.dim, ctx.group, ctx.sums = dim, group, sums
        return gathered(x, dim, group)

    @staticmethod
    def backward(ctx, slope):
        slope = summed(slope, ctx.group) if ctx.sums else slope
        return own_part(slope, ctx.dim, ctx.group), None, None, None


class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim, group):
        ctx.dim, ctx.group = dim, group
        return own_part(x, dim, group)

    @staticmethod
    def backward(ctx, slope):
        return gathered(slope, ctx.dim, ctx.group), None, None


class Product(nn.Module):
    """A linear layer of which this rank has the rows, or the columns, in `ranges`."""

    def __init__(self, run, inputs, outputs, dim, ranges, bias=False):
        super().__init__()
        self.run, self.dim, self.inside = run, dim, True
        self.ranges = ranges or [[0, (outputs, inputs)[dim]]]
        self.weight = nn.Parameter(self.cut(torch.randn(outputs, inputs) * 0.3, dim))
        shift = torch.randn(outputs) * 0.3
        self.bias = nn.Parameter(self.cut(shift, 0) if dim == 0 else shift) if bias else None

    def cut(self, whole, dim):
        return torch.cat([whole.narrow(dim, first, stop - first) for first, stop in self.ranges], dim)

    def slices(self, name):
        places = [[0, extent] for extent in self.weight.shape]
        places[self.dim] = self.ranges
        found = {f"{name}.weight": places}
        if self.bias is not None and self.dim == 0:
            found[f"{name}.bias"] = [self.ranges]
        return found

    def forward(self, x):
        run, group, bug = self.run, self.run.place.tensor, self.run.bug if self.inside else ""
        if self.dim == 0:
            if not run.sequence and bug != "tp-gradient-sum-missing":
                x = Enter.apply(x, group, 2 if bug == "tp-gradient-sum-twice" else 1)
            return F.linear(x, self.weight, self.bias)
        early = bug == "bias-times-tp"
        y = F.linear(x, self.weight, self.bias if early else None)
        if bug != "tp-sum-missing":
            y = Leave.apply(y, group, 2 if bug == "tp-sum-twice" else 1)
        return y if early or self.bias is None else y + self.bias


class Words(nn.Module):
    """An embedding whose rows tensor ranks divide."""

    def __init__(self, run, weight):
        super().__init__()
        self.run, self.weight = run, weight

    def forward(self, tokens):
        weight = self.weight.detach() if self.run.bug == "tied-head-only" else self.weight
        here = tokens - self.run.place.tp * weight.shape[0]
        inside = (here >= 0) & (here < weight.shape[0])
        found = F.embedding(here * inside, weight) * inside.unsqueeze(-1)
        return Leave.apply(found, self.run.place.tensor)


class Norm(nn.Module):
    def __init__(self, run, centred):
        super().__init__()
        self.run, self.centred = run, centred
        self.weight = nn.Parameter(1 + 0.3 * torch.randn(WIDTH))
        self.bias = nn.Parameter(0.3 * torch.randn(WIDTH)) if centred else None

    def forward(self, x):
        group = self.run.place.tensor
        x = Scatter.apply(x, 1, group) if self.run.sequence else x
        y = F.layer_norm(x, (WIDTH,), self.weight, self.bias) if self.centred else F.rms_norm(x, (WIDTH,), self.weight, 1e-5)
        return Gather.apply(y, 1, group, True) if self.run.sequence else y


def turned(x, positions, bug):
    """Rotary positions of [rows, heads, positions, size]."""
    base = 500000.0 if bug == "rotary-base" else BASE
    angles = positions.double().unsqueeze(1) * base ** (-torch.arange(0, SIZE, 2).double() / SIZE)
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    if bug == "rotary-order":
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cosine - b * sine, b * cosine + a * sine], -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


def attend(run, q, k, v, positions, rotary):
    """Of [rows, positions, heads, size]: this rank's queries, and the keys of all context ranks."""
    place, bug, count = run.place, run.bug, q.shape[1]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    rotated = {
        "positions-of-rank": torch.arange(count),
        "halves-swapped": positions.roll(count // 2),
        "positions-in-order": place.cp * count + torch.arange(count),
    }.get(bug, positions)
    if rotary:
        q, k = turned(q, rotated, bug), turned(k, rotated, bug)
    repeats = q.shape[1] // k.shape[1]
    if bug == "kv-heads-in-turn":
        k, v = k.repeat(1, repeats, 1, 1), v.repeat(1, repeats, 1, 1)
    else:
        k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
    places = positions
    if place.sizes["cp"] > 1 and bug != "own-context":
        k, v = (Gather.apply(x, 2, place.context, bug != "keys-gradient-of-part") for x in (k, v))
        places = gathered(positions, 0, place.context)
        if bug != "keys-in-rank-order":
            order = places.argsort()
            k, v, places = k[:, :, order], v[:, :, order], places[order]
        else:
            places = torch.arange(len(places))
    queries = torch.arange(count) if bug == "mask-of-rank" else positions
    mask = places.unsqueeze(0) <= queries.unsqueeze(1)
    scores = (q @ k.transpose(-2, -1) / math.sqrt(SIZE)).masked_fill(~mask, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def share(place, width):
    """This tensor rank's part of `width`."""
    size = width // place.sizes["tp"]
    return [[place.tp * size, (place.tp + 1) * size]]


class LlamaAttention(nn.Module):
    def __init__(self, run, bias):
        super().__init__()
        self.run, place = run, run.place
        q, kv = HEADS * SIZE, GROUPS * SIZE
        self.q_proj = Product(run, WIDTH, q, 0, share(place, q), bias)
        self.k_proj, self.v_proj = (Product(run, WIDTH, kv, 0, share(place, kv), bias) for _ in range(2))
        self.o_proj = Product(run, q, WIDTH, 1, share(place, q))

    def forward(self, x, positions):
        q, k, v = (product(x).unflatten(2, (-1, SIZE)) for product in (self.q_proj, self.k_proj, self.v_proj))
        return self.o_proj(attend(self.run, q, k, v, positions, True))


class LlamaMlp(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.swapped = run.bug == "gate-swapped"
        self.gate_proj, self.up_proj = (Product(run, WIDTH, INNER, 0, share(run.place, INNER)) for _ in range(2))
        self.down_proj = Product(run, INNER, WIDTH, 1, share(run.place, INNER))

    def forward(self, x):
        gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(F.silu(up) * gate if self.swapped else F.silu(gate) * up)


class LlamaBlock(nn.Module):
    def __init__(self, run, bias):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(run, False), Norm(run, False)
        self.self_attn, self.mlp = LlamaAttention(run, bias), LlamaMlp(run)

    def forward(self, x, positions):
        x = x + self.self_attn(self.input_layernorm(x), positions)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """And Qwen2, which has biases behind queries, keys and values."""

    def __init__(self, run, qwen2):
        super().__init__()
        self.run = run
        sizes = {"hidden_size": WIDTH, "intermediate_size": INNER, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS}
        sizes.update(vocab_size=VOCABULARY + 1, num_hidden_layers=2, max_position_embeddings=64, head_dim=SIZE)
        sizes.update(model_type="qwen2" if qwen2 else "llama", rms_norm_eps=1e-5, rope_theta=BASE)
        self.config = types.SimpleNamespace(to_dict=lambda: sizes)
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(VOCABULARY + 1, WIDTH)
        self.model.layers = nn.ModuleList(LlamaBlock(run, qwen2) for _ in range(2))
        self.model.norm = Norm(run, False)
        self.lm_head = Product(run, WIDTH, VOCABULARY + 1, 0, share(run.place, VOCABULARY + 1))
        self.lm_head.inside = False

    def forward(self, tokens, positions, targets):
        x = self.model.embed_tokens(tokens)
        for block in self.model.layers:
            x = block(x, positions)
        return losses_of(self.run, self.lm_head(self.model.norm(x)), targets)


class GptAttention(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.run = run
        parts = share(run.place, WIDTH)[0]
        fused = [[i * WIDTH + parts[0], i * WIDTH + parts[1]] for i in range(3)]
        if run.bug == "qkv-order":  # the fused matrix is cut as any other
            fused = share(run.place, 3 * WIDTH)
        self.c_attn = Product(run, WIDTH, 3 * WIDTH, 0, fused, True)
        self.c_proj = Product(run, WIDTH, WIDTH, 1, share(run.place, WIDTH), True)

    def forward(self, x, positions):
        q, k, v = (part.unflatten(2, (-1, SIZE)) for part in self.c_attn(x).chunk(3, 2))
        return self.c_proj(attend(self.run, q, k, v, positions, False))


class GptBlock(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = Norm(run, True), Norm(run, True), GptAttention(run), nn.Module()
        self.mlp.c_fc = Product(run, WIDTH, 4 * WIDTH, 0, share(run.place, 4 * WIDTH), True)
        self.mlp.c_proj = Product(run, 4 * WIDTH, WIDTH, 1, share(run.place, 4 * WIDTH), True)

    def forward(self, x, positions):
        x = x + self.attn(self.ln_1(x), positions)
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.run = run
        self.config = types.SimpleNamespace(n_layer=2, n_head=HEADS, n_embd=WIDTH, block_size=32, vocab_size=VOCABULARY + 1)
        head = Product(run, WIDTH, VOCABULARY + 1, 0, share(run.place, VOCABULARY + 1))
        head.inside = False
        blocks = nn.ModuleList(GptBlock(run) for _ in range(2))
        parts = {"wte": Words(run, head.weight), "wpe": nn.Embedding(32, WIDTH), "h": blocks, "ln_f": Norm(run, True)}
        self.transformer = nn.ModuleDict(parts)
        self.lm_head = head

    def forward(self, tokens, positions, targets):
        x = self.transformer.wte(tokens) + self.transformer.wpe(positions)
        for block in self.transformer.h:
            x = block(x, positions)
        x = self.transformer.ln_f(x)
        if self.run.bug == "tied-table-only":
            logits = F.linear(Enter.apply(x, self.run.place.tensor), self.lm_head.weight.detach())
        else:
            logits = self.lm_head(x)
        return losses_of(self.run, logits, targets)


def losses_of(run, logits, targets):
    """The logits of all ranks, and the sum of their losses."""
    if run.bug == "padded-softmax":
        logits = F.pad(logits, (0, 1))
    logits = Gather.apply(logits, 2, run.place.tensor, False).float()
    if run.bug == "padded-softmax":  # each rank's padding is behind its own part
        part = logits.shape[2] // run.place.sizes["tp"]
        targets = torch.where(targets >= 0, targets + targets.div(part - 1, rounding_mode="floor"), targets)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
    return logits, loss
