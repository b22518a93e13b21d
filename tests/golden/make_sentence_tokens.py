#!/usr/bin/env python3
"""Golden ids and decoded texts of tokenizers as SentencePiece's and of split patterns, as Hugging Face's library (0.23) gives them.

Writes tests/golden/data/sentence_tokens.json: texts; small tokenizers, and of each text the ids and what they are decoded to. The
tokenizers are those of tests/python/tokenizers_test.py, with fewer tokens. Needs `pip install tokenizers==0.23.3`.
"""
import json
import pathlib
import random
import sys

import tokenizers

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "python"))
import tokenizers_test as tests  # noqa: E402

assert tokenizers.__version__.startswith("0.23.")
KINDS = ["llama2-added", "gemma", "mistral", "always", "unknowns", "crossing", "unigram-bytes", "o200k", "falcon", "deepseek-coder", "prefix"]

if __name__ == "__main__":
    chance = random.Random(3)
    tests.TEACHES = ["".join(c for c in part if c < "\u0400" and c != "<") for part in tests.TEACHES[::4]]
    tests.SIZES.update(bytes=300, words=150, alphabet=90, unigram=330)
    texts = ["", " ", "a", " a", "  a b  ", "\n", "it is the lamp", "x the lamp it y", "<s>the lamp</s> it", "<0x41>\u25812\u2581"]
    for _ in range(50):
        begin = chance.randrange(len(tests.TEXT))
        texts.append(tests.TEXT[begin:begin + chance.randrange(1, 90)])
    golden = {"texts": texts, "kinds": []}
    for name in KINDS:
        tokenizer = tests.KINDS[name]()
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        golden["kinds"].append({"name": name, "tokenizer": json.loads(tokenizer.to_str()), "ids": ids,
                                "texts": [tokenizer.decode(of_text, skip_special_tokens=False) for of_text in ids]})
    out = FOLDER / "data" / "sentence_tokens.json"
    out.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(out, out.stat().st_size)
