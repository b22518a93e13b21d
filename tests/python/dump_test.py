"""Steps of real PyTorch programs, dumped by lockstep_dump and judged by `lockstep verify --against`: right ones agree, bugs are named.

Skips without PyTorch. LOCKSTEP_DUMP_CASES=all tries every bug; else some of them. The models of transformers need that installed.
"""

import importlib.util
import unittest

from dump_programs import ALL, GPT, ROWS, VOCABULARY, Case, data, on_ranks, one_process, optimizer_of, train, verdict

import lockstep_dump
import torch
import torch.distributed as dist
from torch import nn


BUCKET = "transformer.h.1.mlp.c_fc.weight"


def reduced_by_hand(folder, bug=""):
    """The first step on two ranks that add their gradients themselves."""
    torch.manual_seed(3 + (dist.get_rank() if bug == "other-weights" else 0))
    model = GPT()
    taught = int((data()[1] >= 0).sum())

    def passes(model, tokens, targets, _bug):
        (model(tokens, targets)[1] * int((targets >= 0).sum()) / taught).backward()
        if bug == "clipped-by-rank":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.2)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)

    batch = tuple(part.chunk(2)[dist.get_rank()].contiguous() for part in data())
    train(model, optimizer_of(model), batch, folder, bug, 1, passes=passes)


def wrapped(folder, kind, bug="", steps=2):
    """A step under DistributedDataParallel or FSDP2, on two ranks."""
    torch.manual_seed(3)
    model = GPT(bug)
    tokens, targets = (part.chunk(2)[dist.get_rank()].contiguous() for part in data())
    taught = int((data()[1] >= 0).sum())
    if kind == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (2,))
        for block in model.transformer.h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        whole = model
    else:
        if bug == "bucket-left-out":
            nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, [BUCKET])
        whole = nn.parallel.DistributedDataParallel(model)
    optimizer = optimizer_of(model)

    def passes(model, tokens, targets, bug):
        y = [part for part in zip(tokens.chunk(2), targets.chunk(2))]
        for i, (x, t) in enumerate(y):
            last = i == len(y) - 1
            count = int((t >= 0).sum())
            factor = count * 2 / taught  # the wrapper takes the mean over ranks
            if bug == "rank-means":
                factor = count / int((targets >= 0).sum())
            if bug == "times-dp":
                factor *= 2
            if bug == "over-dp":
                factor /= 2
            never = bug == "one-rank-scaled"
            early = bug == "last-not-reduced"  # as where the batch's number from 0 is asked for a multiple
            if kind == "ddp" and (last == early or never):
                with model.no_sync():
                    (model(x, t)[1] * factor).backward()
            else:
                (model(x, t)[1] * factor).backward()

    train(whole, optimizer, (tokens, targets), folder, bug, steps, None if bug == "own-norm" else 0.5, passes, micro_batches=2)


class Right(Case):
    def test_nanogpt(self):
        one_process(self.folder)
        self.assertEqual(self.agrees()["not_judged"], [])

    def test_nanogpt_without_biases_in_its_first_step(self):
        one_process(self.folder, bias=False, steps=1)
        self.agrees()

    def test_half_precision(self):
        for number, how in enumerate(({"dtype": torch.bfloat16}, {"autocast": torch.bfloat16}, {"autocast": torch.float16})):
            one_process(self.place(str(number)), **how)
            self.agrees()

    def test_frozen_parameters(self):
        torch.manual_seed(3)
        model = GPT()
        model.transformer.h[0].requires_grad_(False)
        train(model, optimizer_of(model), data(), self.folder, micro_batches=2)
        self.agrees()

    def test_adam_whose_decay_is_in_the_gradient(self):
        for steps in (1, 2):
            one_process(self.place(str(steps)), "decay-in-gradient", steps=steps, decay_in_gradient=True)
            self.agrees()
        torch.manual_seed(3)
        model = GPT()
        train(model, torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=0.1), data(), self.place("adam"), micro_batches=2)
        self.agrees()


class Bugs(Case):
    def test_of_one_process(self):
        few = ["micro-batch-means", "clipped-so-far", "sees-next", "activation", "decay-on-all", "not-corrected", "gradients-not-zeroed"]
        more = ["no-mask", "scores-by-width", "times-micro-batches", "padding-counted", "prompt-taught", "labels-shifted-twice"]
        more += ["micro-batch-lost", "padded-softmax", "positions-from-1", "norm-epsilon", "gradient-lost", "not-clipped"]
        more += ["clipped-by-tensor", "decay-in-gradient", "decay-without-rate", "no-decay", "correction-off-by-one"]
        more += ["gradient-of-step-before", "block-left-out", "residual-left-out", "positions-left-out", "final-norm-left-out"]
        more += ["label-smoothing", "z-loss", "softmax-twice", "micro-batch-means-added", "clipped-before-last", "decay-behind"]
        more += ["mean-not-corrected"]
        for bug in few + (more if ALL else []):
            with self.subTest(bug):
                one_process(self.place(bug), bug)
                self.named(bug)

    def test_dropout(self):
        one_process(self.folder, "dropout-behind-embedding")
        self.named("dropout")

    def test_adamw_in_place_of_adam(self):
        one_process(self.folder, "decay-by-the-other-rule", decay_in_gradient=True)
        self.named("decay-beside-gradient")

    def test_what_no_table_has_is_not_named(self):
        one_process(self.folder, "unknown-eps")
        said = verdict(self.folder)
        self.assertFalse(said["agrees"])
        self.assertEqual(said["causes"], [])


class TwoRanks(Case):
    def test_steps(self):
        right, drifted = ["ddp", "fsdp2"], "one-rank-scaled"
        bugs = ["rank-means", "one-rank-scaled", "last-not-reduced"] + (["times-dp", "over-dp", "bucket-left-out"] if ALL else [])
        jobs = [(wrapped, {"folder": self.place(kind), "kind": kind}) for kind in right]
        jobs += [(wrapped, {"folder": self.place(bug), "kind": "ddp", "bug": bug, "steps": 1}) for bug in bugs]
        by_hand = ["", "clipped-by-rank", "other-weights"]
        jobs += [(reduced_by_hand, {"folder": self.place(f"by-hand-{bug}"), "bug": bug}) for bug in by_hand]
        jobs += [(wrapped, {"folder": self.place("drifted"), "kind": "ddp", "bug": drifted})]
        on_ranks(2, jobs)
        for kind in right:
            with self.subTest(kind):
                self.place(kind)
                self.agrees()
        for bug in bugs:
            with self.subTest(bug):
                self.place(bug)
                said = self.named({"bucket-left-out": "one-rank-scaled"}.get(bug, bug))
                if bug == "bucket-left-out":
                    self.assertEqual({one["tensor"] for one in said["wrong"]}, {f"gradient.{BUCKET}"})
        for bug in by_hand:
            with self.subTest(f"by hand {bug}"):
                self.place(f"by-hand-{bug}")
                self.named(bug) if bug else self.agrees()
        with self.subTest("ranks that drifted apart are told"):
            said = verdict(self.place("drifted"))
            self.assertFalse(said["agrees"])
            self.assertIn("have different values of weight.", " ".join(said["remarks"]))


@unittest.skipIf(importlib.util.find_spec("transformers") is None, "transformers is not installed")
class Transformers(Case):
    def models(self):
        import transformers

        sizes = {"vocab_size": VOCABULARY, "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4}
        llama = {**sizes, "intermediate_size": 48, "num_key_value_heads": 2, "max_position_embeddings": 64}
        gpt2 = transformers.GPT2Config(
            vocab_size=VOCABULARY, n_layer=2, n_embd=32, n_head=4, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
        )
        return {
            "gpt2": transformers.GPT2LMHeadModel(gpt2),
            "llama": transformers.LlamaForCausalLM(transformers.LlamaConfig(**llama)),
            "qwen2": transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**llama, tie_word_embeddings=True)),
        }

    def test_models_agree(self):
        torch.manual_seed(4)
        tokens, _ = data()
        labels = tokens.clone()
        labels[:, :3] = -100
        for name, model in self.models().items():
            self.place(name)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            batch = {"input_ids": tokens, "labels": labels}
            lockstep_dump.step(model, batch, optimizer, self.folder)
            model(**batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            said = self.agrees()
            self.assertIn("weight decay acts on", " ".join(said["remarks"]), name)

    def test_padded_and_packed_samples_agree(self):
        torch.manual_seed(4)
        tokens, _ = data()
        mask = torch.ones_like(tokens)
        mask[1, -3:] = mask[2, -6:] = 0
        places = torch.cat([torch.arange(7), torch.arange(tokens.shape[1] - 7)]).expand(tokens.shape)
        apart = tokens.clone()
        apart[:, 7] = -100
        for kind, more in {"padded": {"labels": tokens.masked_fill(mask == 0, -100), "attention_mask": mask},
                           "packed": {"labels": apart, "position_ids": places}}.items():
            for name, model in self.models().items():
                optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
                batch = {"input_ids": tokens, **more}
                lockstep_dump.step(model, batch, optimizer, self.place(f"{kind}-{name}"))
                model(**batch, use_cache=False).loss.backward()
                optimizer.step()
                self.agrees()

    def test_labels_that_the_program_shifted_too(self):
        torch.manual_seed(4)
        tokens, _ = data()
        model = self.models()["llama"]
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        lockstep_dump.step(model, {"input_ids": tokens, "labels": tokens}, optimizer, self.folder)
        shifted = torch.cat([tokens[:, 1:], torch.full((ROWS, 1), -100)], 1)
        model(input_ids=tokens, labels=shifted).loss.backward()
        optimizer.step()
        self.named("labels-shifted-twice")


if __name__ == "__main__":
    unittest.main(verbosity=1)
