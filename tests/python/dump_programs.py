"""Programs with a step of training, right or with a bug, whose dumps the tests of lockstep_dump judge. Exits 77 without PyTorch."""

import json
import math
import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from lockstep import _program  # noqa: E402

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as processes
    from torch import nn
    from torch.nn import functional as F

    import lockstep_dump
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(77)

ROWS, LENGTH, VOCABULARY = 8, 16, 61
ALL = os.environ.get("LOCKSTEP_DUMP_CASES") == "all"


class Attention(nn.Module):
    def __init__(self, config, bug):
        super().__init__()
        self.config, self.bug = config, bug
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.resid_dropout = nn.Dropout(0.3 if bug == "dropout" else 0)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.config.n_head, -1).transpose(1, 2) for part in self.c_attn(x).split(c, 2))
        mask = torch.ones(t, t, dtype=torch.bool).tril(1 if self.bug == "sees-next" else 0)
        scores = q @ k.transpose(-2, -1) / math.sqrt(c if self.bug == "scores-by-width" else k.shape[-1])
        if self.bug != "no-mask":
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.resid_dropout(self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c)))


class MLP(nn.Module):
    def __init__(self, config, bug):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.gelu = nn.GELU("tanh" if bug == "activation" else "none")
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x):
        return self.c_proj(self.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, config, bug):
        super().__init__()
        eps = 1e-3 if bug == "unknown-eps" else 1e-12 if bug == "norm-epsilon" else 1e-5
        self.ln_1, self.ln_2 = (nn.LayerNorm(config.n_embd, eps=eps, bias=config.bias) for _ in range(2))
        self.attn, self.mlp = Attention(config, bug), MLP(config, bug)
        self.bug = bug

    def forward(self, x):
        attended = self.attn(self.ln_1(x))
        x = attended if self.bug == "residual-left-out" else x + attended
        y = self.mlp(self.ln_2(x))
        return y if self.bug == "residual-left-out" else x + y


class GPT(nn.Module):
    """nanoGPT's modules and names."""

    def __init__(self, bug="", bias=True, dropout=0.0):
        super().__init__()
        self.config = types.SimpleNamespace(n_layer=2, n_head=4, n_embd=32, block_size=32, vocab_size=VOCABULARY, bias=bias)
        config = self.config
        self.bug = bug
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(VOCABULARY, config.n_embd),
                "wpe": nn.Embedding(config.block_size, config.n_embd),
                "drop": nn.Dropout(dropout),
                "h": nn.ModuleList(Block(config, bug) for _ in range(config.n_layer)),
                "ln_f": nn.LayerNorm(config.n_embd, bias=bias),
            }
        )
        self.lm_head = nn.Linear(config.n_embd, VOCABULARY, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        for parameter in self.parameters():
            nn.init.normal_(parameter, 1 if parameter.dim() == 1 else 0, 0.3)

    def forward(self, tokens, targets=None, reduction="mean"):
        positions = torch.arange(tokens.shape[1]) + (1 if self.bug == "positions-from-1" else 0)
        places = self.transformer.wpe(positions) * (0 if self.bug == "positions-left-out" else 1)
        x = self.transformer.drop(self.transformer.wte(tokens) + places)
        for number, block in enumerate(self.transformer.h):
            if self.bug != "block-left-out" or number == 0:
                x = block(x)
        logits = self.lm_head(x if self.bug == "final-norm-left-out" else self.transformer.ln_f(x))
        if targets is None:
            return logits, None
        padded = F.pad(logits, (0, 3)) if self.bug == "padded-softmax" else logits
        padded = padded.softmax(-1) if self.bug == "softmax-twice" else padded
        loss = F.cross_entropy(padded.flatten(0, 1).float(), targets.flatten(), ignore_index=-100, reduction=reduction,
                               label_smoothing=0.1 if self.bug == "label-smoothing" else 0.0)
        if self.bug == "z-loss":
            loss = loss + 1e-4 * (padded[targets >= 0].logsumexp(-1) ** 2).mean()
        return logits, loss


def data(seed=1):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(VOCABULARY, (ROWS, LENGTH), generator=generator)
    targets = torch.cat([tokens[:, 1:], torch.full((ROWS, 1), -100)], 1)
    for row in range(ROWS):
        targets[row, : row + row // 2] = -100  # prompts of other lengths
    return tokens, targets


class BadAdamW(torch.optim.AdamW):
    """torch.optim.AdamW with its own step, done wrong as `bug` says."""

    def __init__(self, parameters, bug, **settings):
        super().__init__(parameters, **settings)
        self.bug = bug

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=torch.tensor(0.0), exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                gradient = p.grad
                keep = 1 - group["lr"] * group["weight_decay"]
                if self.bug == "decay-in-gradient":
                    gradient = gradient + group["weight_decay"] * p
                elif self.bug == "decay-without-rate":
                    p.mul_(1 - group["weight_decay"])
                elif self.bug not in ("no-decay", "decay-behind"):
                    p.mul_(keep)
                state["exp_avg"].lerp_(gradient, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
                count = int(state["step"]) + (1 if self.bug == "correction-off-by-one" else 0)
                first, second = (1, 1) if self.bug == "not-corrected" else (1 - beta1**count, 1 - beta2**count)
                first = 1 if self.bug == "mean-not-corrected" else first
                p.addcdiv_(state["exp_avg"] / first, (state["exp_avg_sq"] / second).sqrt() + group["eps"], value=-group["lr"])
                if self.bug == "decay-behind":
                    p.mul_(keep)


UPDATE_BUGS = ("decay-in-gradient", "decay-without-rate", "no-decay", "correction-off-by-one", "not-corrected", "decay-behind", "mean-not-corrected")


def accumulate(model, tokens, targets, bug, micro=2, taught=None):
    """The passes of a step over this rank's samples, in micro-batches; `taught`: targets of all ranks."""
    taught = taught or int((targets >= 0).sum())
    batches = list(zip(tokens.chunk(micro), targets.chunk(micro)))
    for i, (x, y) in enumerate(batches):
        count = int((y >= 0).sum())
        if bug == "labels-shifted-twice":
            y = torch.cat([y[:, 1:], torch.full((len(y), 1), -100)], 1)
            count, taught = int((y >= 0).sum()), int((targets[:, 1:] >= 0).sum())
        if bug == "prompt-taught":
            y = torch.cat([x[:, 1:], y[:, -1:]], 1)
            count, taught = int((y >= 0).sum()), ROWS * (LENGTH - 1)
        loss = model(x, y)[1]
        if bug == "micro-batch-means":
            loss = loss / micro
        elif bug == "micro-batch-means-added":
            pass
        elif bug == "padding-counted":
            loss = loss * count / tokens.numel()
        else:
            loss = loss * count / taught
        if bug == "times-micro-batches":
            loss = loss * micro
        if bug == "micro-batch-lost" and i == 0:
            loss = loss * 0
        loss.backward()
        if bug == "clipped-so-far" or (bug == "clipped-before-last" and i + 2 == micro):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)


def train(model, optimizer, batch, folder, bug="", steps=2, clip=0.5, passes=accumulate, autocast=None, **known):
    """Some steps, of which the last is dumped."""
    tokens, targets = batch
    for number in range(steps):
        before = {p: p.grad.clone() for p in model.parameters() if p.grad is not None}
        if bug != "gradients-not-zeroed":
            optimizer.zero_grad()
        if clip and bug in ("not-clipped", "clipped-by-tensor"):
            known["clip"] = clip
        recorder = lockstep_dump.step(model, batch, optimizer, folder, **known) if number + 1 == steps else None
        with torch.autocast("cpu", autocast, enabled=autocast is not None):
            passes(model, tokens, targets, bug)
        if bug == "gradient-of-step-before" and recorder:  # a bucket that is still on its way
            bucket = list(model.parameters())[5]
            bucket.grad.copy_(before[bucket])
        if bug == "gradient-lost":
            list(model.parameters())[5].grad.zero_()
        if bug in ("not-clipped", "clipped-by-tensor") and recorder:
            recorder.norm(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]))
        if bug in ("not-clipped", "clipped-before-last", "clipped-by-rank"):
            pass
        elif bug == "clipped-by-tensor":
            for parameter in model.parameters():
                torch.nn.utils.clip_grad_norm_([parameter], clip)
        elif clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


def verdict(folder):
    words = [str(_program.program()), "verify", "--against", str(folder), "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise AssertionError(f"exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def optimizer_of(model, bug="", **more):
    settings = {"lr": 1e-2, "betas": (0.9, 0.95), "weight_decay": 0.1, **more}
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": settings["weight_decay"] if bug == "decay-on-all" else 0.0}]
    return BadAdamW(groups, bug, **settings) if bug in UPDATE_BUGS else torch.optim.AdamW(groups, **settings)


def one_process(folder, bug="", bias=True, dtype=None, autocast=None, steps=2, **more):
    torch.manual_seed(3)
    model = GPT(bug, bias, 0.2 if bug == "dropout-behind-embedding" else 0.0)
    if dtype:
        model.to(dtype)
    known = {}
    if bug == "decay-on-all":
        known["decay"] = "matrices"
    train(model, optimizer_of(model, bug), data(), folder, bug, steps, autocast=autocast, micro_batches=2, **known, **more)


def ranks_main(rank, world, store, jobs):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    torch.set_num_threads(1)
    for job, words in jobs:
        job(**words)
        dist.barrier()
    dist.destroy_process_group()


def on_ranks(world, jobs):
    """Runs jobs (functions of modules, and their words) one behind the other on `world` ranks: starting them is what takes long."""
    with tempfile.TemporaryDirectory() as place:
        processes.spawn(ranks_main, (world, f"{place}/store", jobs), nprocs=world)


class Case(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name) / "dump"

    def tearDown(self):
        self.temporary.cleanup()

    def place(self, name):
        self.folder = Path(self.temporary.name) / name
        return self.folder

    def agrees(self):
        said = verdict(self.folder)
        self.assertTrue(said["agrees"], json.dumps(said)[:3000])
        self.assertGreater(said["judged"], 40)
        return said

    def named(self, word):
        said = verdict(self.folder)
        self.assertFalse(said["agrees"], said)
        self.assertIn(word, [cause["way"] for cause in said["causes"]], json.dumps(said)[:3000])
        return said
