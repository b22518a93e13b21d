"""Tensor, sequence and context parallelism by hand, judged by `lockstep verify --against`: right steps agree, bugs are named.

Skips without PyTorch. LOCKSTEP_DUMP_CASES=all tries all bugs and layouts; else some of them.
"""

import unittest

from dump_programs import ALL, Case, on_ranks
from parallel_steps import step

import torch

TP, CP, DP = (1, 1, 2), (1, 2, 1), (2, 1, 1)  # ranks of samples, of positions, of features
LLAMA, GPT2 = {"family": "llama"}, {"family": "gpt2"}
FIRST = {"steps": 1}

# What is wrong, in which layout and model; behind it the public report that has it, or the like of it. The first few are tried
# always. `only`: the fault is in these tensors alone.
BUGS = {
    "bias-times-tp": {"sizes": TP, **GPT2},  # huggingface/text-generation-inference#1036, Wenyueh/MinivLLM#80, awslabs/slapo#10
    "norm-gradients-of-part": {"sizes": TP, **LLAMA, **FIRST},  # EleutherAI/gpt-neox#1257, NVIDIA/TransformerEngine#435
    "labels-shifted-in-part": {"sizes": CP, **LLAMA},  # huggingface/transformers#36607
    "over-cp": {"sizes": CP, **LLAMA, "micro": 4},  # NVIDIA/Megatron-LM#673
    "tp-sum-missing": {"sizes": TP, **LLAMA, **FIRST},
    "tp-sum-twice": {"sizes": TP, **LLAMA},
    "tp-gradient-sum-missing": {"sizes": TP, **LLAMA, **FIRST},
    "tp-gradient-sum-twice": {"sizes": TP, **GPT2},
    "times-tp": {"sizes": TP, **LLAMA, "micro": 4},
    "over-tp": {"sizes": TP, **LLAMA, "micro": 4},  # the way of pytorch/torchtitan#4332
    "copies-counted": {"sizes": TP, **LLAMA},  # NVIDIA-NeMo/RL#3788, ROCm/TransformerEngine#715
    "own-norm": {"sizes": TP, **LLAMA, **FIRST},  # meta-pytorch/torchtune#2420, pytorch/torchtitan#766
    "kv-heads-in-turn": {"sizes": TP, **LLAMA},  # alibaba/ChatLearn#277
    "qkv-order": {"sizes": TP, **GPT2},  # deepspeedai/DeepSpeed#3844, tenstorrent/tt-metal#52818
    "gate-swapped": {"sizes": TP, **LLAMA},
    "padded-softmax": {"sizes": TP, **LLAMA},
    "rotary-order": {"sizes": TP, **LLAMA},
    "rotary-base": {"sizes": CP, **LLAMA},
    "tied-head-only": {"sizes": TP, **GPT2},  # paiml/entrenar#314
    "tied-table-only": {"sizes": TP, **GPT2},
    "own-context": {"sizes": CP, **LLAMA},
    "positions-of-rank": {"sizes": CP, **LLAMA},
    "halves-swapped": {"sizes": CP, **LLAMA, "zigzag": True},
    "positions-in-order": {"sizes": CP, **LLAMA, "zigzag": True},  # feifeibear/long-context-attention#53
    "keys-in-rank-order": {"sizes": CP, **LLAMA, "zigzag": True},
    "mask-of-rank": {"sizes": CP, **LLAMA},  # pytorch/pytorch#103082
    "keys-gradient-of-part": {"sizes": CP, **LLAMA, "zigzag": True},  # pytorch/xla#5784, huggingface/accelerate#76
    "context-part": {"sizes": CP, **LLAMA, **FIRST},
    "context-means": {"sizes": CP, **LLAMA},
    "times-cp": {"sizes": CP, **LLAMA, "micro": 4},  # NVIDIA/Megatron-LM#906
    "gradient-of-step-before": {"sizes": DP, **LLAMA, "only": ".1.mlp."},
    "bucket-left-out": {"sizes": DP, **LLAMA, **FIRST, "cause": "one-rank-divided", "only": ".1.mlp."},
}
BF16 = {"dtype": torch.bfloat16}
RIGHT = [
    {"sizes": TP, **GPT2},
    {"sizes": CP, **LLAMA, "zigzag": True},
    {"sizes": TP, **LLAMA, "sequence": True, **BF16},
    {"sizes": TP, "family": "qwen2"},
    {"sizes": TP, **LLAMA, "micro": 4, "steps": 3},
    {"sizes": TP, **GPT2, "sequence": True},
    {"sizes": TP, **GPT2, **BF16},
    {"sizes": TP, **LLAMA, "autocast": torch.bfloat16},
    {"sizes": TP, "family": "qwen2", "autocast": torch.float16},
    {"sizes": CP, **LLAMA},
    {"sizes": CP, **GPT2},
    {"sizes": CP, "family": "qwen2", "zigzag": True, "micro": 1},
    {"sizes": CP, **LLAMA, **BF16},
    {"sizes": CP, **GPT2, "zigzag": True, "autocast": torch.bfloat16},
    {"sizes": DP, **LLAMA, "micro": 4},
    {"sizes": DP, **GPT2, **BF16},
    {"sizes": DP, "family": "qwen2", "steps": 1},
]
# On four ranks.
RIGHT4 = [
    {"sizes": (1, 2, 2), **LLAMA, "zigzag": True},
    {"sizes": (1, 2, 2), **GPT2, "sequence": True},
    {"sizes": (2, 1, 2), "family": "qwen2", "sequence": True},
    {"sizes": (2, 2, 1), **LLAMA, "autocast": torch.bfloat16},
    {"sizes": (2, 1, 2), **GPT2, **BF16},
    {"sizes": (1, 4, 1), **LLAMA, "zigzag": True},
]
BUGS4 = {
    "bias-times-tp": {"sizes": (2, 1, 2), **GPT2},
    "norm-gradients-of-part": {"sizes": (2, 1, 2), **LLAMA, **FIRST},
    "context-means": {"sizes": (2, 2, 1), **LLAMA, **FIRST},
    "labels-shifted-in-part": {"sizes": (1, 2, 2), **LLAMA, "zigzag": True},
    "mask-of-rank": {"sizes": (1, 4, 1), "family": "qwen2"},
}
MORE = ("cause", "only")


class Parallel(Case):
    def judge(self, ranks, right, bugs):
        jobs = [(step, {"folder": self.place(f"right-{i}"), **words}) for i, words in enumerate(right)]
        for bug, words in bugs.items():
            jobs.append((step, {"folder": self.place(bug), "bug": bug, **{k: v for k, v in words.items() if k not in MORE}}))
        on_ranks(ranks, jobs)
        for i, words in enumerate(right):
            with self.subTest(words):
                self.place(f"right-{i}")
                self.assertEqual(self.agrees()["not_judged"], [])
        for bug, words in bugs.items():
            with self.subTest(bug, ranks=ranks):
                self.place(bug)
                said = self.named(words.get("cause", bug))
                only = [one["tensor"] for one in said["wrong"] if words.get("only", "") not in one["tensor"]]
                self.assertEqual([name for name in only if name.startswith("gradient.")], [])

    def test_two_ranks(self):
        bugs = list(BUGS.items())
        self.judge(2, RIGHT if ALL else RIGHT[:2], dict(bugs if ALL else bugs[:4]))

    @unittest.skipUnless(ALL, "LOCKSTEP_DUMP_CASES=all")
    def test_four_ranks(self):
        self.judge(4, RIGHT4, BUGS4)


if __name__ == "__main__":
    unittest.main(verbosity=1)
