"""Models that are called or laid out otherwise than Hugging Face's, for lockstep_dump: of nanoGPT, torchtitan and Megatron-LM.

A parameter's rows, and what a module puts out, become rows and columns of published ones. A rank's part becomes a part: the data
stays as it is, and the places say where it belongs.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Tuple

import torch
from lockstep_dump import Names, Part, Slices, numbers

GPT2_TURNED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")  # [in, out] in GPT-2's files
Row = Tuple[str, int]  # a published module, and a row of its weight

# torchtitan/models/llama3: model.py, and state_dict_adapter.py, which has the names of Hugging Face. Newer versions have the
# projections in qkv_linear, and call the head lm_head.
TORCHTITAN = {
    "tok_embeddings": "model.embed_tokens",
    "layers.#": "model.layers.#",
    "layers.#.attention_norm": "model.layers.#.input_layernorm",
    "layers.#.attention": "model.layers.#.self_attn",
    "layers.#.attention.wq": "model.layers.#.self_attn.q_proj",
    "layers.#.attention.wk": "model.layers.#.self_attn.k_proj",
    "layers.#.attention.wv": "model.layers.#.self_attn.v_proj",
    "layers.#.attention.wqkv": "model.layers.#.self_attn.",
    "layers.#.attention.wo": "model.layers.#.self_attn.o_proj",
    "layers.#.ffn_norm": "model.layers.#.post_attention_layernorm",
    "layers.#.feed_forward": "model.layers.#.mlp",
    "layers.#.feed_forward.w1": "model.layers.#.mlp.gate_proj",
    "layers.#.feed_forward.w3": "model.layers.#.mlp.up_proj",
    "layers.#.feed_forward.w2": "model.layers.#.mlp.down_proj",
    "norm": "model.norm",
    "output": "lm_head",
    "lm_head": "lm_head",
}
# megatron/core: models/gpt/gpt_model.py, models/gpt/gpt_layer_specs.py and transformer/{attention,mlp}.py. Names of Llama and of
# GPT-2. The embedding of words is no module here: it puts out [rows, positions], as nothing else does.
MEGATRON = {
    "embedding.word_embeddings": ("model.embed_tokens", "transformer.wte"),
    "embedding.position_embeddings": ("", "transformer.wpe"),
    "embedding": ("model.embed_tokens", "transformer.drop"),
    "decoder.layers.#": ("model.layers.#", "transformer.h.#"),
    "decoder.layers.#.input_layernorm": ("model.layers.#.input_layernorm", "transformer.h.#.ln_1"),
    "decoder.layers.#.self_attention": ("model.layers.#.self_attn", "transformer.h.#.attn"),
    "decoder.layers.#.self_attention.linear_qkv": ("model.layers.#.self_attn.", "transformer.h.#.attn.c_attn"),
    "decoder.layers.#.self_attention.linear_proj": ("model.layers.#.self_attn.o_proj", "transformer.h.#.attn.c_proj"),
    "decoder.layers.#.pre_mlp_layernorm": ("model.layers.#.post_attention_layernorm", "transformer.h.#.ln_2"),
    "decoder.layers.#.mlp": ("model.layers.#.mlp", "transformer.h.#.mlp"),
    "decoder.layers.#.mlp.linear_fc1": ("model.layers.#.mlp.", "transformer.h.#.mlp.c_fc"),
    "decoder.layers.#.mlp.linear_fc2": ("model.layers.#.mlp.down_proj", "transformer.h.#.mlp.c_proj"),
    "decoder.final_layernorm": ("model.norm", "transformer.ln_f"),
    "output_layer": ("lm_head", "lm_head"),
}
# A norm that Transformer Engine fuses with the product behind it has its parameters there: layer_norm_weight and layer_norm_bias.
MEGATRON_NORMS = {"self_attention.linear_qkv": "input_layernorm", "mlp.linear_fc1": "pre_mlp_layernorm"}


def ranges(places: List[int]) -> List[List[int]]:
    found: List[List[int]] = []
    for place in places:
        if found and found[-1][1] == place:
            found[-1][1] += 1
        else:
            found.append([place, place + 1])
    return found


class Gpt2(Names):
    """Products of GPT-2 turned around, and its biases zero where a model has none."""

    def parts(self, name: str, tensor: torch.Tensor, slices: Slices) -> List[Part]:
        turned = name.endswith(GPT2_TURNED)
        return [(name, tensor.t().contiguous(), slices and slices[::-1]) if turned else (name, tensor, slices)]

    def complete(self, weights: Dict[str, torch.Tensor]) -> None:
        for name in [one for one in weights if one.endswith(GPT2_TURNED) or ".ln_" in one]:
            if name.endswith("weight"):
                weights.setdefault(name[: -len("weight")] + "bias", torch.zeros(weights[name].shape[-1]))


class NanoGpt(Gpt2):
    def outputs(self, module: str, tensor: torch.Tensor, columns: Any) -> List[Tuple[str, torch.Tensor, Any]]:
        return [(module.replace(".mlp.gelu", ".mlp.act"), tensor, columns)]


class Mapped(Gpt2):
    """Of a system whose modules have other names, and whose rows lie in another order or in fused matrices."""

    table: Dict[str, str] = {}
    heads = groups = size = 0  # of attention: query heads, key/value heads, and a head's features
    neighbours = False  # rotary pairs are neighbours, where Hugging Face has them half a head apart
    renamed = ""  # a level of names that only some versions have

    def module(self, name: str) -> str:
        """The published module; empty: none. One that ends in a dot is of several."""
        name = name.replace(self.renamed, "")
        number = re.search(r"\.(\d+)", name)
        pattern = re.sub(r"\.\d+", ".#", name, count=1)
        return self.table.get(pattern, "").replace("#", number.group(1) if number else "#")

    def paired(self, row: int) -> int:
        """Where a query's or key's row is published."""
        head, i = divmod(row, self.size)
        return head * self.size + (i // 2 + i % 2 * (self.size // 2) if self.neighbours else i)

    def fused(self, module: str, row: int) -> Row:
        """A row of queries, keys and values that lie group by group: the group's queries, its key, its value."""
        queries = self.heads // self.groups
        group, i = divmod(row, (queries + 2) * self.size)
        head, i = divmod(i, self.size)
        kind = max(0, head - queries + 1)
        row = (group * queries + head if kind == 0 else group) * self.size + i
        row = row if kind == 2 else self.paired(row)
        if not module.endswith("."):
            return module, row + (0, self.heads * self.size, (self.heads + self.groups) * self.size)[kind]
        return module + ("q_proj", "k_proj", "v_proj")[kind], row

    def row(self, module: str, published: str, row: int) -> Row:
        """Where row `row` of a module's weight is published."""
        raise NotImplementedError

    def spread(self, name: str, tensor: torch.Tensor, dim: int, places: Any) -> List[Tuple[str, torch.Tensor, List[int]]]:
        """The rows of dimension `dim`, which lie at `places`, by published modules."""
        published = self.module(name)
        where = numbers(places) if places else list(range(tensor.shape[dim]))
        rows = [self.row(name, published, row) for row in where] if published else []
        found = []
        for module in dict.fromkeys(one for one, _ in rows):
            chosen = [i for i, (one, _) in enumerate(rows) if one == module]
            found.append((module, tensor.index_select(dim, torch.tensor(chosen)), [rows[i][1] for i in chosen]))
        return found

    def parts(self, name: str, tensor: torch.Tensor, slices: Slices) -> List[Part]:
        base, leaf = name.rsplit(".", 1)
        if leaf.startswith("layer_norm_"):
            fused = next(one for one in MEGATRON_NORMS if base.endswith(one))
            base, leaf = base.replace(fused, MEGATRON_NORMS[fused]), leaf[len("layer_norm_") :]
        if not self.module(base):
            raise TypeError(f"the parameter {name} is in no table: a plain {type(self).__name__} model has none of this name")
        found: List[Part] = []
        for module, piece, rows in self.spread(base, tensor, 0, slices and slices[0]):
            more = slices[1:] if slices else [[0, extent] for extent in tensor.shape[1:]]
            same = slices is None and rows == list(range(len(rows)))
            found += super().parts(f"{module}.{leaf}", piece, None if same else [ranges(rows), *more])
        return found

    def outputs(self, module: str, tensor: torch.Tensor, columns: Any) -> List[Tuple[str, torch.Tensor, Any]]:
        spread = self.spread(module, tensor, 2, columns)
        return [(name, piece, ranges(places)) for name, piece, places in spread]


class Torchtitan(Mapped):
    table = TORCHTITAN
    renamed = ".qkv_linear"

    def __init__(self, model: torch.nn.Module) -> None:
        layers = list(model.layers.values() if hasattr(model.layers, "values") else model.layers)
        first, vocabulary = layers[0], model.tok_embeddings.weight.shape
        rope = getattr(getattr(first.attention, "rope", None), "config", None)
        args = rope or model.model_args
        self.heads, self.groups, self.size = first.attention.n_heads, first.attention.n_kv_heads, first.attention.head_dim
        self.neighbours = rope is None or type(first.attention.rope).__name__ == "ComplexRoPE"
        scaling = getattr(args, "rope_scaling_args", None) if rope is None else rope if rope.scaling == "llama" else None
        if rope is not None and rope.scaling not in ("none", "llama"):
            raise TypeError(f"rotary angles are scaled by {rope.scaling}, which is not judged")
        super().__init__(
            {
                "model_type": "llama",
                "vocab_size": vocabulary[0],
                "hidden_size": vocabulary[1],
                "num_hidden_layers": len(layers),
                "num_attention_heads": self.heads,
                "num_key_value_heads": self.groups,
                "head_dim": self.size,
                "intermediate_size": first.feed_forward.w1.weight.shape[0],
                "rms_norm_eps": model.norm.eps,
                "rope_theta": rope.theta if rope else args.rope_theta,
                "rope_scaling": scaling
                and {
                    "rope_type": "llama3",
                    "factor": scaling.scaling_factor,
                    "low_freq_factor": scaling.low_freq_factor,
                    "high_freq_factor": scaling.high_freq_factor,
                    "original_max_position_embeddings": scaling.original_max_position_embeddings,
                },
                "max_position_embeddings": args.max_seq_len,
                "tie_word_embeddings": bool(getattr(model, "enable_weight_tying", False)),
            }
        )

    def row(self, module: str, published: str, row: int) -> Row:
        if module.endswith(".wqkv"):
            return self.fused(published, row)
        return published, self.paired(row) if module.endswith((".wq", ".wk")) else row


class Megatron(Mapped):
    sequence_first = True

    def __init__(self, model: torch.nn.Module) -> None:
        config = model.config
        gpt2 = config.normalization == "LayerNorm"
        self.table = {name: words[gpt2] for name, words in MEGATRON.items()}
        self.heads, self.size, self.width = config.num_attention_heads, config.kv_channels, config.ffn_hidden_size
        self.groups = config.num_query_groups or self.heads
        self.neighbours = config.rotary_interleaved
        self.gated = config.gated_linear_unit
        positions = model.position_embedding_type
        usual = positions == ("learned_absolute" if gpt2 else "rope") and self.gated != gpt2
        if not usual or config.layernorm_zero_centered_gamma or getattr(model, "rotary_percent", 1) not in (1, None):
            kinds = "GPT-2's (LayerNorm, learned_absolute, GELU) nor Llama's (RMSNorm, rope, gated SiLU) without variants"
            raise TypeError(f"the GPTModel's kind is neither {kinds}")
        more: Dict[str, Any] = {
            "model_type": "qwen2" if config.add_qkv_bias else "llama",
            "hidden_size": config.hidden_size,
            "num_hidden_layers": config.num_layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.groups,
            "head_dim": self.size,
            "intermediate_size": self.width,
            "rms_norm_eps": config.layernorm_epsilon,
            "rope_theta": getattr(model, "rotary_base", 10000),
            "max_position_embeddings": model.max_sequence_length,
        }
        if gpt2:
            more = {
                "model_type": "gpt2",
                "n_embd": config.hidden_size,
                "n_layer": config.num_layers,
                "n_head": self.heads,
                "n_inner": self.width,
                "n_positions": model.max_sequence_length,
                "layer_norm_epsilon": config.layernorm_epsilon,
                # fusions/fused_bias_gelu.py has tanh, where torch's own has erf.
                "activation_function": "gelu_new" if config.bias_activation_fusion else "gelu",
            }
        tied = bool(model.share_embeddings_and_output_weights)
        super().__init__({**more, "vocab_size": model.vocab_size, "tie_word_embeddings": tied})

    def slices(self, name: str, parameter: torch.Tensor, rank: int, ranks: int) -> Slices:
        if not getattr(parameter, "tensor_model_parallel", False):
            return None
        dim, count = parameter.partition_dim, parameter.shape[parameter.partition_dim]
        slices: List[Any] = [[0, extent] for extent in parameter.shape]
        slices[dim] = [rank * count, (rank + 1) * count]
        if self.gated and ".linear_fc1." in name:  # each rank has a part of the gate, then one of the rest
            half = count // 2
            slices[dim] = [[first + rank * half, first + (rank + 1) * half] for first in (0, half * ranks)]
        return slices

    def outputs(self, module: str, tensor: torch.Tensor, columns: Any) -> List[Tuple[str, torch.Tensor, Any]]:
        inside = module.startswith("embedding.")
        return [] if inside else super().outputs(module, tensor, columns)

    def row(self, module: str, published: str, row: int) -> Row:
        if module.endswith(".linear_qkv"):
            return self.fused(published, row)
        if module.endswith(".linear_fc1") and self.gated:
            return published + ("gate_proj" if row < self.width else "up_proj"), row % self.width
        return published, row


def names_of(model: torch.nn.Module) -> Names:
    config = getattr(model, "config", None)
    if all(hasattr(config, name) for name in ("n_layer", "n_head", "n_embd", "block_size", "vocab_size")):
        sizes = {name: getattr(config, name) for name in ("n_layer", "n_head", "n_embd", "vocab_size")}
        return NanoGpt({"model_type": "gpt2", "n_positions": config.block_size, "activation_function": "gelu", **sizes})
    if hasattr(model, "tok_embeddings"):
        return Torchtitan(model)
    if hasattr(model, "decoder") and hasattr(config, "num_query_groups"):
        return Megatron(model)
    kinds = "transformers, no GPT of nanoGPT, no Llama of torchtitan and no GPTModel of Megatron-LM"
    raise TypeError(f"{type(model).__name__} is no model of {kinds}: its config says no sizes")
