#!/usr/bin/env python3
"""Golden token ids of added tokens, of characters and of bytes, and texts in form C, as Hugging Face's library (tokenizers 0.23)
gives them.

Writes tests/golden/data/added_tokens.json: a tokenizer.json without added tokens; texts; lists of added tokens of all kinds, with and
without NFC, and the ids of each text with them; texts and their form C; tokenizers of characters and of bytes. Needs `pip install tokenizers==0.23.3 unicodedata2==16.0.0`.
"""
import json
import pathlib
import random

import tokenizers
import unicodedata2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

assert tokenizers.__version__.startswith("0.23.")
CONTENTS = ["<x>", "<x", "x>", "<|im_end|>", "<|im_end|><x>", "ab", "abc", "bc", "b c", " a", "a ", "\n", "  ", "\u00e9", "e\u0301x", "\u0338",
            "\u212b", "New York", "1", "_", "\u0120a", "b\n", " <x>", "\u65e5\u672c", "the", "end\u0301"]
PARTS = [" ", "  ", "\n", "\t", "\u00a0", "\u3000", "\u0085", "\u200b", "a", "ab", "c", "word", "7", "_", "\u24b6", "\u203f", "\u200d", "\u0338", "\u0301", "e", "\u00e5", "A\u030a",
         "\u212b", "<", ">", "x", "\U0001f600", "\u0904", "\u1ab0", "the end", ".", "\r\n"] + CONTENTS


def texts(r):
    return ["".join(r.choice(PARTS) for _ in range(r.randrange(1, 14))) for _ in range(28)] + ["", "a New York b c\n <x>\u0338<x>"]


def base():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: i for i, letter in enumerate(letters)}
    merges = [("a", "b"), ("\u0120", "a"), ("t", "h"), ("th", "e"), ("ab", "c"), ("\u00c3", "\u00a9"), ("<", "x"), ("b", "c")]
    for left, right in merges:
        vocab[left + right] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer.to_str()


def with_added(saved, r, nfc):
    tokenizer = Tokenizer.from_str(saved)
    tokenizer.normalizer = normalizers.NFC() if nfc else None
    patterns = set()
    for content in r.sample(CONTENTS, r.randrange(1, 7)):
        flags = {k: r.random() < 0.35 for k in ("single_word", "lstrip", "rstrip")}
        normalized = r.random() < 0.5
        # Of two that are one when normalised, which is found is chance in tokenizers.
        pattern = normalizers.NFC().normalize_str(content) if normalized and nfc else content
        if normalized and pattern in patterns:
            continue
        patterns.add(pattern)
        token = AddedToken(content, normalized=normalized, **flags)
        (tokenizer.add_special_tokens if r.random() < 0.3 else tokenizer.add_tokens)([token])
    return tokenizer


def ids(tokenizer, text):
    try:
        return tokenizer.encode(text, add_special_tokens=False).ids
    except BaseException as fault:  # white space that two tokens claim
        assert "bad split" in str(fault)
        return None


def normal_forms(r):
    points = [c for c in range(0x300, 0x110000) if not 0xD800 <= c < 0xE000]
    marks = [chr(c) for c in points if unicodedata2.combining(chr(c))]
    pairs = [unicodedata2.decomposition(chr(c)) for c in points]
    pairs = ["".join(chr(int(p, 16)) for p in d.split()) for d in pairs if d and d[0] != "<"]
    normal = normalizers.NFC().normalize_str
    # What Unicode 16 would change otherwise, and some of the rest.
    found = [t for t in pairs + ["\u0345" + m for m in marks] if normal(t) != unicodedata2.normalize("NFC", t)]
    mixed = ["".join(r.choice(marks + pairs + ["a", "\uac00", "\u1100", "\u1161", "\u11a8"] * 40) for _ in range(8)) for _ in range(60)]
    return [[t, normal(t)] for t in found + mixed]


def plain(characters, alphabet):
    """Of tokens that are characters (without an alphabet) or bytes: the file, a text and its ids."""
    text = "".join(random.Random(5).choices(characters, k=80))
    if alphabet:
        tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        saved = json.loads(tokenizer.to_str())
        saved["decoder"] = saved["pre_tokenizer"]
        tokenizer = Tokenizer.from_str(json.dumps(saved))
    else:
        tokenizer = Tokenizer(models.WordLevel(vocab={c: i for i, c in enumerate(characters)}, unk_token=""))
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        tokenizer.decoder = decoders.Fuse()
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids) == text
    return {"characters": characters, "file": json.loads(tokenizer.to_str()), "text": text, "ids": ids}


if __name__ == "__main__":
    r = random.Random(37)
    golden = {"base": json.loads(base()), "texts": texts(r), "cases": [], "nfc": normal_forms(r)}
    for n in range(32):
        tokenizer = with_added(base(), r, n % 2 == 1)
        golden["cases"].append({"nfc": n % 2 == 1, "added_tokens": json.loads(tokenizer.to_str())["added_tokens"],
                                "ids": [ids(tokenizer, t) for t in golden["texts"]]})
    characters = "".join(sorted("\0\t\n !\"\\a\x7fz\u00e9\u0301\u2028\u65e5\ufeff\U0001f600"))
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    golden["char"] = plain(characters, None)
    golden["byte"] = plain(characters, [chr(b if b in printed else next(others)) for b in range(256)])
    (pathlib.Path(__file__).parent / "data" / "added_tokens.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
