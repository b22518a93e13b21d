"""What the golden models share: how they are trained, and what is written of it."""
import pathlib

import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent / "data"
STEPS, BATCH, LENGTH, VOCABULARY = 10, 3, 7, 65
LEARNING_RATE, DECAY, CLIP = 1e-2, 0.1, 1.0


def train(name, seed, make_model):
    """Ten AdamW steps in float64 of make_model(), made after seeding; writes data/<name>.safetensors."""
    torch.manual_seed(seed)
    model = make_model()
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
    save_file(out, HERE / f"{name}.safetensors")
    print(name, losses)
