"""Steps of the models of parallel_programs: this rank's samples and positions, micro-batches, sums over ranks, clipping, AdamW."""

import torch
from dump_programs import LENGTH, ROWS, data, optimizer_of
from parallel_programs import Gpt, Llama, Norm, Place, Product, summed

import lockstep_dump


class Run:
    """What the modules of a program know of it."""

    def __init__(self, place, bug="", sequence=False):
        self.place, self.bug, self.sequence = place, bug, sequence or bug == "norm-gradients-of-part"


def positions_of(place, zigzag):
    """A part in order, or a chunk from the front and one from the end."""
    count = place.sizes["cp"]
    if not zigzag:
        return torch.arange(LENGTH).chunk(count)[place.cp]
    chunks = torch.arange(LENGTH).chunk(2 * count)
    return torch.cat([chunks[place.cp], chunks[2 * count - 1 - place.cp]])


def ranges(places):
    found = []
    for place in places.tolist():
        if found and found[-1][1] == place:
            found[-1][1] += 1
        else:
            found.append([place, place + 1])
    return found


def divided(model):
    """Where this rank's parts of parameters lie."""
    slices = {}
    for name, module in model.named_modules():
        if isinstance(module, Product):
            slices.update(module.slices(name))
    if isinstance(model, Gpt):
        slices["transformer.wte.weight"] = slices["lm_head.weight"]
    return slices


def norm_of(model, slices, place, bug):
    """Of the whole gradient: what tensor ranks divide is summed over them."""
    squares = {name: (parameter.grad.float() ** 2).sum() for name, parameter in model.named_parameters()}
    apart = sum(value for name, value in squares.items() if name in slices)
    copies = sum(value for name, value in squares.items() if name not in slices)
    if bug == "own-norm":
        return (apart + copies).sqrt()
    if bug == "copies-counted":
        return summed(apart + copies, place.tensor).sqrt()
    return (summed(apart, place.tensor) + copies).sqrt()


def passes(run, model, tokens, targets, positions, taught, micro, autocast):
    place, bug = run.place, run.bug
    batches = list(zip(tokens.chunk(micro), targets.chunk(micro)))
    for x, y in batches:
        with torch.autocast("cpu", autocast, enabled=autocast is not None):
            loss = model(x, positions, y)[1]
        if bug == "context-means":  # each context rank's own mean, and the mean of these
            loss = loss / ((y >= 0).sum() * place.sizes["cp"] * place.sizes["dp"] * len(batches))
        else:
            loss = loss / taught
        loss = loss * {"times-cp": place.sizes["cp"], "over-cp": 1 / place.sizes["cp"], "over-tp": 1 / place.sizes["tp"]}.get(bug, 1)
        loss.backward()


def reduce(run, model):
    """Gradients are added over ranks with other tokens."""
    place, bug = run.place, run.bug
    group = place.samples if bug == "context-part" else place.tokens
    for name, parameter in model.named_parameters():
        if bug != "bucket-left-out" or "layers.1.mlp" not in name:
            parameter.grad.copy_(summed(parameter.grad, group))


def step(folder, sizes, family, bug="", zigzag=False, sequence=False, dtype=None, autocast=None, micro=2, steps=2, seed=1):
    """A few steps on all ranks, of which the last is dumped."""
    torch.manual_seed(seed + 2)
    run = Run(Place(*sizes), bug, sequence)
    place = run.place
    model = Gpt(run) if family == "gpt2" else Llama(run, family == "qwen2")
    if dtype is not None:
        model.to(dtype)
    slices = divided(model)
    positions = positions_of(place, zigzag)
    tokens, targets = data(seed)
    taught = int((targets >= 0).sum())
    rows = [place.dp * ROWS // place.sizes["dp"], (place.dp + 1) * ROWS // place.sizes["dp"]]
    labels = torch.cat([torch.full((ROWS, 1), -100), targets[:, :-1]], 1)
    tokens, targets, labels = (x[rows[0] : rows[1], positions].contiguous() for x in (tokens, targets, labels))
    read = targets
    if bug == "labels-shifted-in-part":
        read = torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], -100)], 1)
        taught = int(summed((read >= 0).sum().float(), place.tokens))
    optimizer = optimizer_of(model)
    clip, before = 0.5, {}
    for number in range(steps):
        if number + 1 == steps:
            before = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if number > 0}
        optimizer.zero_grad()
        recorder = None
        if number + 1 == steps:
            where = {**slices, "tokens": [rows, ranges(positions)]}
            known = {"coordinates": place.coordinates, "micro_batches": micro, "clip": clip, "slices": where}
            recorder = lockstep_dump.step(model, (tokens, targets), optimizer, folder, **known)
        passes(run, model, tokens, read, positions, taught, micro, autocast)
        reduce(run, model)
        if run.sequence and bug != "norm-gradients-of-part":
            for module in model.modules():
                for parameter in module.parameters() if isinstance(module, Norm) else ():
                    parameter.grad.copy_(summed(parameter.grad, place.tensor))
        if bug == "times-tp":  # what every tensor rank has whole is added over them
            for name, parameter in model.named_parameters():
                if name not in slices:
                    parameter.grad.mul_(place.sizes["tp"])
        if bug == "gradient-of-step-before" and recorder:
            for name in [one for one in before if ".1.mlp" in one]:
                dict(model.named_parameters())[name].grad.copy_(before[name])
        norm = norm_of(model, slices, place, bug)
        if recorder:
            recorder.norm(norm)
        for parameter in model.parameters():
            parameter.grad.mul_(min(1.0, clip / (float(norm) + 1e-6)))
        optimizer.step()
