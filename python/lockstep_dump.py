"""Writes down what one training step of a PyTorch program does, for ``lockstep verify --against PATH``.

Needs PyTorch 2.1 or newer and nothing else: install lockstep-train, or copy this file beside your program. Before a step:

>>> lockstep_dump.step(model, batch, optimizer, "dump")

Then your program makes its step as ever: forward and backward passes, in as many micro-batches as it likes, clipping, and
``optimizer.step()``, behind which the dump is written. Hooks see modules' outputs, gradients (before they are clipped, where
``torch.nn.utils`` clips them), weights and moments; the model is not changed, and the hooks are removed.

``batch`` is all that this rank reads in the step: ``{"input_ids": ..., "labels": ...}`` as for transformers, which shifts labels
itself; or ``(tokens, targets)`` that are shifted already; or a list of these, one for each micro-batch. The model is one of
transformers of a family that `lockstep convert` reads, as it is, under DistributedDataParallel, or under FSDP2 (``fully_shard``). With
lockstep_dump_names.py beside this file it may also be nanoGPT's GPT, torchtitan's Llama or Megatron-LM's GPTModel. Each rank
writes a file of its own.

What the step was meant to do and cannot be seen is said by name: ``clip=1.0``, ``micro_batches=4``, ``decay="matrices"``, and
what else docs/against.md lists. What is said so goes before what is seen.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import struct
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch
import torch.distributed as dist
import torch.nn.utils.clip_grad as clip_grad

__all__ = ["Step", "step"]

Slices = Optional[List[Any]]  # by dimension: [start, stop], or a list of those; None: the tensor is whole
Part = Tuple[str, torch.Tensor, Slices]
DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.float64: "F64", torch.int64: "I64"}
WORDS = {torch.bfloat16: "bf16", torch.float16: "fp16"}
WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


def write_safetensors(path: Path, tensors: Dict[str, torch.Tensor]) -> None:
    header: Dict[str, Any] = {}
    offset = 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()))


def plain_name(name: str) -> str:
    """The name without what wrappers put into it."""
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def local(tensor: torch.Tensor) -> Tuple[torch.Tensor, Slices]:
    """A copy of this rank's part, and where it lies; the whole tensor lies nowhere in particular."""
    tensor = tensor.detach()
    slices: Slices = None
    if hasattr(tensor, "to_local"):
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

        shape, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
        slices = [[first, first + count] for first, count in zip(offset, shape)]
        tensor = tensor.to_local()
    return tensor.to("cpu", copy=True).contiguous(), slices


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of it; every rank calls this."""
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().cpu().contiguous()


def numbers(ranges: List[Any]) -> List[int]:
    """The places in a dimension that [start, stop], or a list of those, names."""
    return [i for first, stop in (ranges if isinstance(ranges[0], list) else [ranges]) for i in range(first, stop)]


def assembled(parts: Sequence[Part]) -> Dict[str, torch.Tensor]:
    """Whole tensors of their parts."""
    found: Dict[str, torch.Tensor] = {name: tensor for name, tensor, slices in parts if slices is None}
    divided = [(name, tensor, [torch.tensor(numbers(one)) for one in slices]) for name, tensor, slices in parts if slices]
    for name, tensor, places in divided:
        shape = [1 + max(int(other[2][d].max()) for other in divided if other[0] == name) for d in range(tensor.dim())]
        found.setdefault(name, torch.empty(shape, dtype=tensor.dtype))[torch.meshgrid(*places, indexing="ij")] = tensor
    return found


def packed(positions: torch.Tensor) -> torch.Tensor:
    """Documents, as transformers finds them where there is no mask: each begins where positions do not go on (masking_utils.py,
    find_packed_sequence_indices)."""
    return (torch.diff(positions, prepend=positions[:, :1] - 1, dim=1) != 1).cumsum(1)


def scaled(before: torch.Tensor, now: torch.Tensor) -> bool:
    """Whether clipping may have made these of those: by one factor of at most 1."""
    before, now = before.double().flatten(), now.double().flatten()
    factor = float(before @ now) / max(float(before @ before), 1e-300)
    return 0 <= factor < 1.01 and float((now - factor * before).norm()) <= 0.01 * float(now.norm())


def tokens_of(batch: Any) -> Dict[str, torch.Tensor]:
    """Tokens and targets, a row each sample."""
    if isinstance(batch, (list, tuple)) and len(batch) > 0 and not torch.is_tensor(batch[0]):
        parts = [tokens_of(part) for part in batch]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    if isinstance(batch, (list, tuple)):
        found = {"tokens": batch[0]}
        if len(batch) > 1 and batch[1] is not None:
            found["targets"] = batch[1]
    else:
        found = {"tokens": batch["input_ids"]}
        mask = batch.get("attention_mask")
        if mask is not None and not bool((mask[:, 1:] <= mask[:, :-1]).all()):
            raise ValueError("attention_mask hides tokens before others: pad on the right, or leave the mask out")
        if mask is not None and not bool(mask.all()):
            found["documents"] = mask.to(torch.int64) - 1  # -1: padding
        if batch.get("labels") is not None:
            labels = batch["labels"]
            found["targets"] = torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], -100)], dim=1)
        if batch.get("position_ids") is not None:
            found["positions"] = batch["position_ids"].expand(batch["input_ids"].shape)
            if mask is None and bool(packed(found["positions"]).any()):
                found["documents"] = packed(found["positions"])
    return {name: value.detach().to("cpu", torch.int64).contiguous().clone() for name, value in found.items()}


class Names:
    """What a system's parameters and modules are in the files of Hugging Face: here they are called and laid out alike."""

    sequence_first = False  # modules put out [positions, rows, width]

    def __init__(self, config: Dict[str, Any]) -> None:
        self.config = config

    def slices(self, _name: str, _parameter: torch.Tensor, _rank: int, _ranks: int) -> Slices:
        """Where a tensor rank's part of a parameter lies, as far as the system itself says that."""
        return None

    def parts(self, name: str, tensor: torch.Tensor, slices: Slices) -> List[Part]:
        """A parameter's tensor, or a part of it, in the published parameters."""
        return [(name, tensor, slices)]

    def outputs(self, module: str, tensor: torch.Tensor, columns: Any) -> List[Tuple[str, torch.Tensor, Any]]:
        """What a module puts out, by published modules, and in which of their columns; None: in all."""
        return [(module, tensor, columns)]

    def complete(self, _weights: Dict[str, torch.Tensor]) -> None:
        """Adds what published models have and this one lacks."""


def names_of(model: torch.nn.Module) -> Names:
    config = getattr(model, "config", None)
    if hasattr(config, "to_dict"):
        return Names(config.to_dict())
    import lockstep_dump_names

    return lockstep_dump_names.names_of(model)


class Step:
    """One step that is recorded. ``norm`` and ``loss`` take what the program computed, where no hook sees it."""

    def __init__(
        self,
        model: torch.nn.Module,
        batch: Any,
        optimizer: torch.optim.Optimizer,
        path: Union[str, Path],
        *,
        coordinates: Optional[Dict[str, int]] = None,
        slices: Optional[Dict[str, Slices]] = None,
        activations: bool = True,
        **facts: Any,
    ) -> None:
        self.path, self.optimizer, self.facts, self.slices = Path(path), optimizer, facts, dict(slices or {})
        self.ranks = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
        self.rank = dist.get_rank() if self.ranks > 1 else 0
        self.coordinates = coordinates if coordinates is not None else ({"dp": self.rank} if self.ranks > 1 else {})
        for place in self.gathered(self.coordinates):
            for word, number in place.items():
                self.facts[word] = max(number + 1, self.facts.get(word, 1))
        self.model = model
        while any(hasattr(self.model, wrapper[:-1]) for wrapper in WRAPPERS):
            self.model = next(getattr(self.model, wrapper[:-1]) for wrapper in WRAPPERS if hasattr(self.model, wrapper[:-1]))
        self.names = names_of(self.model)
        self.untied = self.names.config.get("tie_word_embeddings") and len({id(one) for one in self.ends()}) > 1
        if self.untied:
            warnings.warn("the config ties the head to the token table, but the model has two matrices (tie_weights() ties them)")
        self.parameters = {plain_name(name): parameter for name, parameter in self.model.named_parameters()}
        tensor_rank = (self.coordinates.get("tp", 0), int(self.facts.get("tp", 1)))
        for name, parameter in self.parameters.items():
            self.slices.setdefault(name, self.names.slices(name, parameter, *tensor_rank))
        self.tensors: Dict[str, torch.Tensor] = {}
        self.outputs: Dict[str, List[torch.Tensor]] = {}
        self.columns: Dict[str, Any] = {}
        self.losses: List[torch.Tensor] = []
        self.passes = 0
        self.norms: List[torch.Tensor] = []
        self.dtype, self.clipped, self.watched, self.other_weights = torch.float32, False, False, False
        self.rows(tokens_of(batch))
        self.write_model()
        self.hooks = contextlib.ExitStack()
        for name, module in self.model.named_modules():
            if activations and name and not name.endswith((".wte", ".wpe")):
                self.hooks.callback(module.register_forward_hook(self.output_hook(plain_name(name))).remove)
        self.hooks.callback(self.model.register_forward_hook(self.result_hook).remove)
        self.hooks.callback(optimizer.register_step_pre_hook(lambda *_: self.before_update()).remove)
        self.hooks.callback(optimizer.register_step_post_hook(lambda *_: self.after_update()).remove)
        self.watch_clipping()

    def __enter__(self) -> "Step":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.hooks.close()
        if kind is None and not (self.path / self.file).exists():
            self.write()

    def norm(self, value: Any) -> None:
        """The gradient's norm as the program computed it; to be called before it changes gradients."""
        self.gradients()
        self.put("norm", torch.as_tensor(float(value), dtype=torch.float32))

    def loss(self, value: Any) -> None:
        """The loss of the whole step, over all ranks and micro-batches."""
        self.put("loss", torch.as_tensor(float(value), dtype=torch.float32))

    def gradients(self) -> None:
        """Takes the gradients as they are now. Without this they are those that torch.nn.utils or the optimizer gets."""
        if not self.taken():
            for name, parameter in self.parameters.items():
                gradient = parameter.grad if parameter.grad is not None else getattr(parameter, "main_grad", None)
                if gradient is not None or parameter.requires_grad:  # what has none is not changed: it is zero
                    self.take("gradient", name, torch.zeros_like(parameter) if gradient is None else gradient)

    def taken(self) -> Dict[str, torch.Tensor]:
        return {name: tensor for name, tensor in self.tensors.items() if name.startswith("gradient.")}

    def take_again(self) -> None:
        """Takes the gradients that the optimizer gets, where more than clipping has changed them since they were taken for it."""
        first = self.taken()
        for name in first:
            del self.tensors[name]
        self.gradients()
        if all(scaled(tensor, self.tensors[name]) for name, tensor in first.items()):
            self.tensors.update(first)
        else:
            self.norms = []

    def ends(self) -> List[torch.Tensor]:
        """The weights of the token table and the head, where the model says which they are."""
        found = [getattr(self.model, name, lambda: None)() for name in ("get_input_embeddings", "get_output_embeddings")]
        return [module.weight for module in found if hasattr(module, "weight")]

    @property
    def file(self) -> str:
        return f"rank-{self.rank}.safetensors" if self.coordinates else "step.safetensors"

    @property
    def calls(self) -> int:
        """Passes: those of the model, or where its parts are called by themselves as many as a module had."""
        return self.passes or max([len(parts) for parts in self.outputs.values()], default=1)

    def put(self, name: str, tensor: torch.Tensor, slices: Slices = None) -> None:
        self.tensors[name] = tensor.detach().cpu().contiguous()
        if slices is not None:
            self.slices.setdefault(name, slices)

    def take(self, kind: str, name: str, tensor: torch.Tensor) -> None:
        """This rank's part of a tensor of a parameter's shape, as Hugging Face has it."""
        part, slices = local(tensor)
        for published, piece, places in self.names.parts(name, part, slices or self.slices.get(name)):
            self.put(f"{kind}.{published}", piece, places)

    def rows(self, found: Dict[str, torch.Tensor]) -> None:
        count, first = found["tokens"].shape[0], self.coordinates.get("dp", 0)
        self.shape = found["tokens"].shape
        self.row_slices = self.slices.get("tokens") or [[first * count, (first + 1) * count], [0, self.shape[1]]]
        for name, tensor in found.items():
            self.put(name, tensor, self.row_slices if self.coordinates else None)

    def gathered(self, value: Any) -> List[Any]:
        """Every rank's value; every rank calls this."""
        values = [value] * self.ranks
        if self.ranks > 1:
            dist.all_gather_object(values, value)
        return values

    def write_model(self) -> None:
        parts: List[Part] = []
        for name, parameter in self.parameters.items():
            value = whole(parameter)
            parts += self.names.parts(name, value, None if hasattr(parameter, "full_tensor") else self.slices.get(name))
        if any(self.gathered(any(word in self.coordinates for word in ("tp", "pp")))):
            again = any(self.coordinates.get(word, 0) > 0 for word in ("dp", "cp"))
            parts = [part for some in self.gathered([] if again else parts) for part in some]
        self.compare_weights()
        self.path.mkdir(parents=True, exist_ok=True)
        if self.rank == 0:
            weights = assembled(parts)
            self.names.complete(weights)
            if self.untied:  # the right model is that of the config
                weights.pop("lm_head.weight", None)
            (self.path / "model").mkdir(exist_ok=True)
            write_safetensors(self.path / "model/model.safetensors", weights)
            (self.path / "model/config.json").write_text(json.dumps(self.names.config, default=str))

    def compare_weights(self) -> None:
        """Whether this rank begins with the weights of the first one that has the same part of them."""
        if any(hasattr(parameter, "full_tensor") for parameter in self.parameters.values()):
            return
        digest = hashlib.sha256()
        for parameter in self.parameters.values():
            tensor = parameter.detach().cpu().contiguous()
            digest.update(ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()))
        mine = [self.coordinates.get(word, 0) for word in ("tp", "pp")]
        same = [one for place, one in self.gathered((mine, digest.hexdigest())) if place == mine]
        self.other_weights = same[0] != digest.hexdigest()

    def columns_of(self, module: torch.nn.Module, name: str, width: int) -> Any:
        """The columns of what a module puts out whose weight's rows tensor ranks divide."""
        weight = module._parameters.get("weight")
        if weight is None or weight.dim() != 2 or "Embedding" in type(module).__name__:
            return None
        slices = local(weight)[1] or self.slices.get(f"{name}.weight")
        columns = slices and slices[-1 if type(module).__name__ == "Conv1D" else 0]
        return columns if columns and len(numbers(columns)) == width else None

    def output_hook(self, name: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, _inputs: Any, output: Any) -> None:
            bias = output[1] if isinstance(output, tuple) and len(output) == 2 else None
            output = output[0] if isinstance(output, tuple) and output else output
            again = torch._C._current_graph_task_id() != -1  # a checkpoint computes its passes again on the way back
            if again or not torch.is_tensor(output) or output.dim() != 3 or output.dtype not in DTYPES:
                return
            if self.names.sequence_first:
                output = (output + bias if torch.is_tensor(bias) and bias.dim() == 1 else output).transpose(0, 1)
            if output.element_size() < torch.finfo(self.dtype).bits // 8:
                self.dtype = output.dtype
            output = whole(output).clone()
            self.columns[name] = self.columns_of(module, name, output.shape[2])
            self.outputs.setdefault(name, []).append(output)

        return hook

    def result_hook(self, _module: torch.nn.Module, _inputs: Any, output: Any) -> None:
        self.passes += 1
        loss = getattr(output, "loss", None)
        if isinstance(output, tuple) and len(output) == 2:
            loss = output[1]
        if torch.is_tensor(loss) and loss.numel() == 1:
            self.losses.append(loss.detach().cpu().float().reshape(1))

    def watch_clipping(self) -> None:
        """torch.nn.utils.clip_grad_norm_ by either name first takes the total norm, by way of its module."""
        name = "_get_total_norm" if hasattr(clip_grad, "_get_total_norm") else "get_total_norm"
        total, scale = getattr(clip_grad, name, None), getattr(clip_grad, "_clip_grads_with_norm_", None)
        if total is None:
            return

        def watched(tensors: Any, *args: Any, **more: Any) -> torch.Tensor:
            self.watched = self.watched or not self.taken()
            self.gradients()
            norm = total(tensors, *args, **more)
            self.norms.append(whole(norm).float().reshape(()))
            return norm

        def scaled(parameters: Any, max_norm: float, *args: Any, **more: Any) -> Any:
            self.facts.setdefault("clip", float(max_norm))
            return scale(parameters, max_norm, *args, **more)

        setattr(clip_grad, name, watched)
        self.hooks.callback(setattr, clip_grad, name, total)
        if scale is not None:
            clip_grad._clip_grads_with_norm_ = scaled
            self.hooks.callback(setattr, clip_grad, "_clip_grads_with_norm_", scale)

    def take_slots(self, when: str) -> None:
        for name, parameter in self.parameters.items():
            for kind, value in self.optimizer.state.get(parameter, {}).items():
                if torch.is_tensor(value) and value.shape == parameter.shape and value.dim() > 0:
                    self.take(f"{when}.{kind}", name, value)

    def before_update(self) -> None:
        self.clipped = not self.taken() and "clip" in self.facts
        if self.watched:
            self.take_again()
        self.gradients()
        self.take_slots("slot_before")

    def after_update(self) -> None:
        for name, parameter in self.parameters.items():
            self.take("weight", name, parameter)
        self.take_slots("slot")
        self.hooks.close()
        self.write()

    def seen(self) -> Dict[str, Any]:
        """What can be seen of the facts."""
        facts: Dict[str, Any] = {"system": f"PyTorch {torch.__version__}", "micro_batches": max(len(self.losses), self.calls)}
        facts.update(dtype=WORDS.get(self.dtype, "fp32"), clipped=self.clipped)
        if facts["dtype"] == "fp32" and torch.cuda.is_available() and torch.backends.cuda.matmul.allow_tf32:
            facts["dtype"] = "tf32"
        groups = self.optimizer.param_groups
        kinds = {kind.__name__ for kind in type(self.optimizer).__mro__}
        same = all(group.get(key) == groups[0].get(key) for group in groups for key in ("lr", "betas", "eps"))
        if not kinds & {"Adam", "AdamW"} or not same or any(group.get("amsgrad") or group.get("maximize") for group in groups):
            return facts
        first = groups[0]
        facts.update(learning_rate=float(first["lr"]), betas=[float(beta) for beta in first["betas"]], eps=float(first["eps"]))
        decays = [(parameter.dim(), float(group["weight_decay"])) for group in groups for parameter in group["params"]]
        decay = max(one for _, one in decays)
        if "decay" in self.facts or any(all(one == (decay if dims > least else 0) for dims, one in decays) for least in (0, 1)):
            facts["weight_decay"] = decay
            if decay > 0 and "AdamW" not in kinds and not first.get("decoupled_weight_decay"):
                facts["decay_in_gradient"] = True
        steps = [state["step"] for state in self.optimizer.state.values() if "step" in state]
        if steps:
            facts["step"] = int(steps[0])
        return facts

    def write(self) -> None:
        for name, parts in self.outputs.items():
            output = torch.cat(parts) if len({part.shape[1:] for part in parts}) == 1 else parts[0]
            if len(parts) == self.calls and output.shape[:2] == self.shape:
                columns = self.slices.get(f"activation.{name}") or self.columns[name]
                for published, piece, places in self.names.outputs(name, output, columns):
                    slices = [*self.row_slices, places or [0, piece.shape[2]]] if self.coordinates or places else None
                    self.put(f"activation.{published}", piece, slices)
        if len(self.norms) == 1:  # several are of parts of the gradient
            self.tensors.setdefault("norm", self.norms[0])
        if self.losses and self.facts.get("cp", 1) == 1:  # a context rank's loss is of a part of its samples
            count, first = len(self.losses), self.coordinates.get("dp", 0)
            self.put("rank_loss", torch.cat(self.losses), [[first * count, (first + 1) * count]] if self.coordinates else None)
        known: Dict[str, Any] = {**self.seen(), **self.facts, **({"coordinates": self.coordinates} if self.coordinates else {})}
        known["frozen"] = [
            published
            for name, parameter in self.parameters.items()
            if not parameter.requires_grad
            for published, _, _ in self.names.parts(name, *local(parameter))
        ]
        if self.other_weights:
            known["other_weights"] = True
        known["slices"] = {name: slices for name, slices in self.slices.items() if name in self.tensors}
        (self.path / self.file).with_suffix(".json").write_text(json.dumps(known, indent=1))
        write_safetensors(self.path / self.file, self.tensors)


def step(model: torch.nn.Module, batch: Any, optimizer: torch.optim.Optimizer, path: Union[str, Path], **known: Any) -> Step:
    """Records the step that comes next and writes it to the folder ``path`` behind ``optimizer.step()``.

    ``known``: facts of the step, as in docs/against.md; ``coordinates`` of this rank (``{"dp": 0, "tp": 1}``) and ``slices``,
    where ranks divide more than samples: by a parameter's name where this rank's part lies, by ``tokens`` which rows and
    positions it reads, by ``activation.MODULE`` which columns a module without a divided weight puts out. DTensor's parts need
    none. ``activations=False`` leaves outputs out. The result has ``norm()`` and ``loss()`` for what no hook sees, and may be
    used in a ``with``.
    """
    return Step(model, batch, optimizer, path, **known)
