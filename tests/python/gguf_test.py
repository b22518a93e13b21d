"""GGUF files in llama.cpp itself: the same log-probabilities, ids and bytes, and the way back.

Skips without PyTorch, transformers, tokenizers, gguf and xllamacpp (llama.cpp with its server). LOCKSTEP_GGUF_TEXT names a text whose
ids are compared besides; of it, the first million bytes.
"""

import contextlib
import ctypes
import json
import os
import shutil
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from lockstep import _program  # noqa: E402

try:
    import gguf
    import numpy
    import torch
    import transformers
    import xllamacpp
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

GGML = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
VOCABULARY = 431  # the tokenizers know less
WINDOW = 9
Q8_0 = int(gguf.GGMLQuantizationType.Q8_0)
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
TEXT = """The quick brown fox's den: it'll DON'T we've 1234567 times, 12 of 3.
    def f(x):\n\treturn  x**2   # äöü ß — “quoted” … ¿qué?\r\n\r\nПривет, мир! 你好，世界。 नमस्ते दुनिया مرحبا 👩‍👩‍👧 𝔘𝔫𝔦 \u00a0end
<|end|>after <|end|> and<tool>it</tool>\n\n\n   trailing   """


def run(*words):
    return _program.call([str(word) for word in words])


def tokenizer_of(kind):
    """A BPE over bytes that splits as GPT-2, Llama 3 or Qwen2 do, with added tokens; Llama 3's begins texts with one, or
    ("merged") does not and takes no word whole."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama"))
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt2")
    split = None if kind == "gpt2" else pre_tokenizers.Split(Regex(QWEN2 if kind == "qwen2" else LLAMA3), "isolated")
    tokenizer.pre_tokenizer = whole if split is None else pre_tokenizers.Sequence([split, whole])
    tokenizer.normalizer = normalizers.NFC() if kind == "qwen2" else None
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, special_tokens=["<|end|>", "<|begin|>"])
    tokenizer.train_from_iterator([TEXT, Path(__file__).read_text()], trainer)
    tokenizer.add_tokens(["<tool>"])
    if kind == "llama":
        begin = [("<|begin|>", tokenizer.token_to_id("<|begin|>"))]
        pair = "<|begin|> $A <|begin|> $B"
        tokenizer.post_processor = processors.TemplateProcessing("<|begin|> $A", pair=pair, special_tokens=begin)
    return tokenizer


def sentencepiece(kind):
    """A BPE over characters with the merges that transformers makes of SentencePiece's scores, in the parts of Llama 2, Gemma or Mistral."""
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", "always", split=kind == "mistral")
    trainer = trainers.BpeTrainer(vocab_size=420, limit_alphabet=60, special_tokens=special)
    tokenizer.train_from_iterator([TEXT] + Path(__file__).read_text().splitlines(), trainer)
    written = json.loads(tokenizer.to_str())
    written["added_tokens"] = written["added_tokens"][:3]
    vocabulary, ranks = written["model"]["vocab"], {}
    for left, right in written["model"]["merges"]:
        ranks.setdefault(left + right, len(ranks))
    pairs = [(rank, vocabulary[token[:i]], vocabulary[token[i:]], [token[:i], token[i:]]) for token, rank in ranks.items()
             for i in range(1, len(token)) if token[:i] in vocabulary and token[i:] in vocabulary]
    written["model"]["merges"] = [pair for *_, pair in sorted(pairs)]
    tokenizer = Tokenizer.from_str(json.dumps(written))
    replace = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = {"llama2": normalizers.Sequence([normalizers.Prepend("▁"), replace]), "gemma": replace}.get(kind)
    tokenizer.pre_tokenizer = {"gemma": pre_tokenizers.Split(" ", "merged_with_previous"),
                               "mistral": pre_tokenizers.Metaspace("▁", "first", False)}.get(kind)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps if kind == "gemma" else [*steps, decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tokenizer


def model_of(kind):
    """Small ones of odd sizes; llama: rows of 96, 60 and 88, so that some are quantised and some are not."""
    torch.manual_seed(5)
    rest = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 0, "attn_implementation": "eager"}
    if kind == "gpt2":
        config = transformers.GPT2Config(n_positions=40, n_embd=42, n_layer=2, n_head=3, n_inner=100, **rest)
    else:
        sizes = {"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 88}
        if kind == "qwen2":
            sizes = {"hidden_size": 42, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 96}
        sizes |= {"num_hidden_layers": 2, "max_position_embeddings": 96, "tie_word_embeddings": kind == "qwen2"}
        if kind == "llama_scaled":
            factors = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
            sizes["rope_parameters"] = {"rope_type": "llama3", "rope_theta": 5000.0, **factors}
        if kind == "llama_linear":
            sizes["rope_parameters"] = {"rope_type": "linear", "rope_theta": 5000.0, "factor": 2.5}
        if kind.endswith("yarn"):
            sizes["rope_parameters"] = {"rope_type": "yarn", "rope_theta": 5000.0, "factor": 4.0, "original_max_position_embeddings": 16}
        if kind == "llama_yarn":
            sizes["rope_parameters"] |= {"attention_factor": 1.5, "original_max_position_embeddings": 64}  # a ramp of two pairs
        if kind == "granite":
            sizes |= {"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.25, "logits_scaling": 2.0}
        if kind == "llama_biased":
            sizes |= {"attention_bias": True, "mlp_bias": True}
        if kind.startswith("phi3"):
            sizes |= {"num_attention_heads": 8, "head_dim": 12, "pad_token_id": 0, "sliding_window": WINDOW if "window" in kind else None}
        if kind == "smollm3":
            sizes |= {"num_hidden_layers": 5, "num_attention_heads": 8, "head_dim": 12, "pad_token_id": 0}
        if kind == "olmo2":
            del sizes["head_dim"]
        if kind == "mistral":
            sizes["sliding_window"] = None
        if kind.startswith("gemma"):
            sizes |= {"tie_word_embeddings": True, "sliding_window": WINDOW, "query_pre_attn_scalar": 10}
            sizes |= {"num_hidden_layers": 7, "rope_local_base_freq": 70.0} if kind == "gemma3" else {"num_hidden_layers": 3}
            if kind == "gemma2":
                sizes |= {"attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0}
            if kind == "gemma":
                sizes = {key: value for key, value in sizes.items() if key not in ("sliding_window", "query_pre_attn_scalar")}
        names = {"gemma3": "gemma3_text"}
        config = transformers.AutoConfig.for_model(names.get(kind, kind.split("_")[0]), **sizes, **rest)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for name, parameter in model.named_parameters():
        # Behind GELU little, because a sum that is rounded otherwise may take the next value of ggml's table.
        little = name.endswith("mlp.c_proj.weight") or kind == "gemma" and name.endswith("mlp.down_proj.weight")
        behind = kind.startswith("gemma") and name.endswith("post_feedforward_layernorm.weight")
        deviation = 0.002 if little or behind else 0.1
        mean = -0.98 if behind else 1 if parameter.dim() == 1 and not kind.startswith("gemma") else 0
        torch.nn.init.normal_(parameter, mean, deviation)
    return model.eval()


class HalfGelu(torch.nn.Module):
    """GELU as ggml computes it on a CPU: a table of halves (ggml_vec_gelu_f32)."""

    def forward(self, x):
        within = torch.nn.functional.gelu(x.float().half().float(), approximate="tanh").half().to(x.dtype)
        return torch.where(x <= -10, torch.zeros_like(x), torch.where(x >= 10, x, within))


@contextlib.contextmanager
def served(path):
    """llama.cpp with a cache of F32, on one thread. Yields post(route, body)."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    # Flash attention adds halves.
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers, parameters.port = 64, 1, 0, 0
    parameters.cpuparams.n_threads = 1
    parameters.warmup, parameters.verbosity = False, 0
    server = xllamacpp.Server(parameters)

    def post(route, body):
        request = urllib.request.Request(server.listening_address + route, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))

    yield post


def log_probabilities(post, ids, vocabulary):
    """Of the token behind `ids`, before the bias: with it that is one that is told of, "!", and no part of a character."""
    body = {"prompt": ids, "n_predict": 1, "n_probs": vocabulary, "temperature": 0, "cache_prompt": False}
    body["logit_bias"] = [["!", 1000]]
    found = post("/completion", body)["completion_probabilities"][0]["top_logprobs"]
    values = numpy.full(vocabulary, -numpy.inf)
    for one in found:
        values[one["id"]] = one["logprob"]
    return values


class Gguf(unittest.TestCase):
    kinds = ("gpt2", "llama", "llama_scaled", "llama_linear", "llama_yarn", "qwen3_yarn", "llama_biased", "olmo2", "granite", "mistral", "phi3", "phi3_window", "qwen2", "qwen3", "smollm3",
             "gemma", "gemma2", "gemma3")

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        cls.models, cls.tokenizers = {}, {}
        for kind in cls.kinds:
            tokenizer = cls.tokenizers[kind] = tokenizer_of(kind if kind in ("gpt2", "qwen2") else "llama")
            model = cls.models[kind] = model_of(kind)
            model.save_pretrained(cls.folder / kind)
            tokenizer.save(str(cls.folder / kind / "tokenizer.json"))
            for form in ("f32", "f16", "bf16", "q8_0"):
                run("convert", cls.folder / kind, cls.folder / f"{kind}_{form}.gguf", "--type", form)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def expected(self, kind, ids):
        """In float64."""
        model = self.models[kind].double()
        if kind == "gpt2":
            for block in model.transformer.h:
                block.mlp.act = HalfGelu()
        if kind.startswith("gemma"):
            for block in model.model.layers:
                block.mlp.act_fn = HalfGelu()
        with torch.no_grad():
            return model(torch.tensor([ids])).logits[0].log_softmax(-1).numpy()

    def test_log_probabilities_are_those_of_pytorch(self):
        for kind in self.kinds:
            # llama.cpp gives phi3 no window.
            ids = [(7 * i * i + 3) % VOCABULARY for i in range(WINDOW if kind == "phi3_window" else 36)]
            expected = self.expected(kind, ids)
            for form, most in (("f32", 1e-5), ("f16", 2e-2), ("bf16", 1e-1), ("q8_0", 2e-1)):
                with self.subTest(kind=kind, form=form), served(self.folder / f"{kind}_{form}.gguf") as post:
                    places = range(1, len(ids) + 1) if form == "f32" else (len(ids),)
                    found = [log_probabilities(post, ids[:n], expected.shape[1]) for n in places]
                    largest = max(abs(found[i] - expected[n - 1]).max() for i, n in enumerate(places))
                    print(f"{kind} {form}: {largest:.1e} over {len(found)} positions of {len(ids)}")
                    self.assertLess(largest, most)

    def test_ids_are_those_of_the_tokenizer(self):
        texts = [TEXT, "", "a", "\n"]
        if name := os.environ.get("LOCKSTEP_GGUF_TEXT"):
            texts.append(Path(name).read_bytes()[:1_000_000].decode(errors="ignore"))
        merged = tokenizer_of("merged")
        shutil.copytree(self.folder / "llama", self.folder / "merged")
        merged.save(str(self.folder / "merged" / "tokenizer.json"))
        run("convert", self.folder / "merged", self.folder / "merged_f32.gguf")
        for kind in ("gpt2", "llama", "merged", "qwen2"):
            with served(self.folder / f"{kind}_f32.gguf") as post:
                for text in texts:
                    expected = self.tokenizers.get(kind, merged).encode(text).ids
                    body = {"content": text, "add_special": True, "parse_special": True}
                    self.assertEqual(post("/tokenize", body)["tokens"], expected, f"{kind}: {text[:40]!r}")

    def test_ids_of_sentencepiece_are_those_of_the_tokenizer(self):
        texts = [TEXT, "", "a", "\n", "  two blanks", "x" * 99 + "ⵣ"]
        if name := os.environ.get("LOCKSTEP_GGUF_TEXT"):
            texts.append(Path(name).read_bytes()[:1_000_000].decode(errors="ignore"))
        for kind in ("llama2", "gemma", "mistral"):
            tokenizer, folder = sentencepiece(kind), self.folder / f"sp_{kind}"
            shutil.copytree(self.folder / "llama", folder)
            tokenizer.save(str(folder / "tokenizer.json"))
            file = self.folder / f"sp_{kind}.gguf"
            run("convert", folder, file)
            self.assertEqual(gguf.GGUFReader(file).fields["tokenizer.ggml.model"].contents(), "llama")
            run("convert", file, self.folder / f"sp_{kind}_in")
            run("convert", self.folder / f"sp_{kind}_in", self.folder / f"sp_{kind}_back")
            back = Tokenizer.from_file(str(self.folder / f"sp_{kind}_back" / "tokenizer.json"))
            with served(file) as post:
                for text in texts:
                    expected = tokenizer.encode(text).ids
                    if kind == "mistral" and text.startswith(" "):
                        continue  # Metaspace puts nothing before a blank; SentencePiece and llama.cpp do
                    body = {"content": text, "add_special": True, "parse_special": True}
                    self.assertEqual(post("/tokenize", body)["tokens"], expected, f"{kind}: {text[:40]!r}")
                    self.assertEqual(back.encode(text).ids, expected, f"{kind}, back: {text[:40]!r}")
                    self.assertEqual(back.decode(expected), tokenizer.decode(expected))

    def test_characters_are_put_together_of_bytes(self):
        text = self.folder / "text.txt"
        text.write_text("äöü weiß, что 你好 👩 it's\n" * 200)
        run("prepare", text, "--tokenizer", "char", "--out", self.folder / "data")
        sizes = ("model.n_layer=1", "model.n_head=2", "model.n_embd=16", "model.block_size=16", "model.activation=gelu_tanh")
        run("train", self.folder / "data", f"log.dir={self.folder / 'run'}", "train.max_iters=1", *sizes)
        run("convert", self.folder / "run", self.folder / "run.gguf")
        characters = sorted(set(text.read_text()))
        with served(self.folder / "run.gguf") as post:
            for part in ("it's weiß 👩\n", "你好что"):
                body = {"content": part, "add_special": True}
                self.assertEqual(post("/tokenize", body)["tokens"], [characters.index(one) for one in part])

    def test_bytes_are_those_of_ggml(self):
        rows = {"f16": GGML.ggml_fp32_to_fp16_row, "bf16": GGML.ggml_fp32_to_bf16_row}
        quantised = 0
        for kind in self.kinds:
            exact = {one.name: one for one in gguf.GGUFReader(self.folder / f"{kind}_f32.gguf").tensors}
            for form in ("f16", "bf16", "q8_0"):
                for tensor in gguf.GGUFReader(self.folder / f"{kind}_{form}.gguf").tensors:
                    source = numpy.ascontiguousarray(exact[tensor.name].data, numpy.float32)
                    own = "f32" if source.ndim == 1 or "position" in tensor.name else form
                    if own == "q8_0" and source.shape[1] % 32:
                        own = "f16"
                    self.assertEqual(tensor.tensor_type.name, own.upper())
                    target = numpy.empty(tensor.n_bytes, numpy.uint8)
                    pointers = source.ctypes.data_as(ctypes.c_void_p), target.ctypes.data_as(ctypes.c_void_p)
                    count = ctypes.c_int64(source.size)
                    if own == "f32":
                        target = source.view(numpy.uint8).reshape(-1)
                    elif own == "q8_0":
                        shape = ctypes.c_int64(source.shape[0]), ctypes.c_int64(source.shape[1])
                        GGML.ggml_quantize_chunk(Q8_0, *pointers, ctypes.c_int64(0), *shape, None)
                        quantised += 1
                    else:
                        rows[own](*pointers, count)
                    self.assertEqual(bytes(target), tensor.data.tobytes(), f"{kind} {form} {tensor.name}")
        self.assertGreater(quantised, 20)

    def test_what_comes_back_is_what_went_out(self):
        from safetensors.numpy import load_file

        for kind in self.kinds:
            run("convert", self.folder / f"{kind}_f32.gguf", self.folder / f"{kind}_in")
            run("convert", self.folder / f"{kind}_in", self.folder / f"{kind}_back")
            original, back = (load_file(self.folder / name / "model.safetensors") for name in (kind, f"{kind}_back"))
            self.assertEqual(original.keys(), back.keys())
            for name, values in original.items():
                if kind.startswith("gemma") and values.ndim == 1:  # a file has 1 + what is trained
                    self.assertLess(abs(values - back[name]).max(), 2e-7, name)
                else:
                    self.assertEqual(values.tobytes(), back[name].tobytes(), name)
            found, own = (Tokenizer.from_file(str(self.folder / name / "tokenizer.json")) for name in (kind, f"{kind}_back"))
            self.assertEqual(found.encode(TEXT).ids, own.encode(TEXT).ids)
            self.assertEqual(found.encode(TEXT, TEXT).ids, own.encode(TEXT, TEXT).ids)
            configs = [json.loads((self.folder / name / "config.json").read_text()) for name in (f"{kind}_back", kind)]
            for key, value in configs[0].items():
                named = kind == "mistral" and key in ("architectures", "model_type")  # it is a llama in GGUF
                if key in configs[1] and not key.endswith("_pdrop") and not named:
                    self.assertEqual(value, configs[1][key], key)


if __name__ == "__main__":
    unittest.main()
