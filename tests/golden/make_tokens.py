#!/usr/bin/env python3
"""Golden token ids of random Unicode, code and white space, by implementations outside this project.

Writes tests/golden/data/tokens.json: texts; their ids in GPT-2's vocabulary by tiktoken; and small vocabularies with the
pre-tokenisation of GPT-2, Llama 3 and Qwen2, with the ids that Hugging Face's library gives. Needs tiktoken, tokenizers, unicodedata2
and the folder of GPT-2's encoder.json and vocab.bpe:

    python3 tests/golden/make_tokens.py FOLDER
"""
import json
import pathlib
import random
import sys

import tiktoken
import unicodedata2
from tiktoken.load import data_gym_to_mergeable_bpe_ranks
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
SPACES = " \t\n\r\v\f\u00a0\u1680\u2003\u2028\u3000\u0085"
PARTS = ["the", " The", " quick", "ing", "don't", "WE'LL", "I'm", "it'\u017f", "'S", "''d", "1", "23", "4567", " 89", "\u0664\u0665", "\u2460",
         "!", " ...", "//", "==", " {", "}\n", ";\r\n", "\n\n", "    ", "\t\t", "return x;", "def f(a, b):", "na\u00efve", "e\u0301", "\u1100\u1161\u11a8",
         "\u65e5\u672c\u8a9e", " \u041f\u0440\u0438\u0432\u0435\u0442", "\u0939\u093f\u0928\u094d\u0926\u0940", "\U0001f600", "\U0001f468\u200d\U0001f469", "<|endoftext|>", "<|end", "\u0344", "\ufb1d"]
POINTS = [c for c in range(0x20, 0x110000) if unicodedata2.category(chr(c)) not in ("Cn", "Co", "Cs")]


def texts():
    r = random.Random(1337)
    out = ["", " ", "a", "\n", "a  b", "  \n  x", "hello   world  ", "a" * 200, "ab" * 100, " " * 70, "\n" * 9, "\r\n\r\n x"]
    for n in range(60):
        out.append("".join(r.choice(PARTS) for _ in range(r.randrange(2, 25))))
        out.append("".join(chr(r.choice(POINTS)) for _ in range(r.randrange(1, 12))))
        out.append("".join(r.choice(SPACES) if r.random() < 0.7 else r.choice(PARTS) for _ in range(r.randrange(2, 20))))
    return out


def trained(pattern, normalizer, merges_as_pairs, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.normalizer = normalizer
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    tokenizer.pre_tokenizer = (level if pattern is None else
                               pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), level]))
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([pathlib.Path(__file__).read_text()] + PARTS * 3, trainer)
    tokenizer.add_tokens(["<|end"])
    saved = json.loads(tokenizer.to_str())
    if not merges_as_pairs:
        saved["model"]["merges"] = [" ".join(m) for m in saved["model"]["merges"]]
    return Tokenizer.from_str(json.dumps(saved)), saved


if __name__ == "__main__":
    folder = sys.argv[1]
    ranks = data_gym_to_mergeable_bpe_ranks(vocab_bpe_file=f"{folder}/vocab.bpe", encoder_json_file=f"{folder}/encoder.json")
    gpt2 = tiktoken.Encoding("gpt2", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
    golden = {"texts": texts(), "gpt2": [gpt2.encode_ordinary(t) for t in texts()], "small": []}
    for name, pattern, normalizer, pairs, options in [("gpt2", None, None, True, {}), ("llama3", LLAMA3, None, True, {"ignore_merges": True}),
                                                      ("qwen2", QWEN2, normalizers.NFC(), False, {})]:
        tokenizer, saved = trained(pattern, normalizer, pairs, **options)
        golden["small"].append({"name": name, "tokenizer": saved,
                                "ids": [tokenizer.encode(t, add_special_tokens=False).ids for t in texts()]})
    (pathlib.Path(__file__).parent / "data" / "tokens.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
