#!/usr/bin/env python3
"""Golden ids of tokenizers whose files lie apart in a folder, as Hugging Face's AutoTokenizer (transformers 5.24) puts them together.

Writes tests/golden/data/folder_tokenizers.json: texts, and folders (their files by names) with the ids of each text, without and with what
stands before a text. A folder that says "whole" has a tokenizer.json of its own, and "marked" one with an added token. Needs `pip install transformers==5.24.0`.
"""
import json
import pathlib
import tempfile

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

assert transformers.__version__.startswith("5.24.")
TEXTS = ["12345 it's", " a  b", "<|im_start|>hi<|im_end|>", "x <|im_end|> y", "e\u0301 \u00e9", "ab\n\ncd", "<|endoftext|>a", "a [PAD] b<x>c<y>d <n> e<b>"]
BYTES = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
ALPHABET = {b: chr(b) for b in BYTES} | {b: chr(256 + n) for n, b in enumerate(b for b in range(256) if b not in BYTES)}
VOCAB = {ALPHABET[b]: b for b in range(256)} | {"12": 256, "\u0120a": 257, "it": 258, "<|endoftext|>": 259, "<|im_end|>": 260}
MERGES = "#version: 0.2\n1 2\n\u0120 a\ni t\n"


def whole(added=()):
    tokenizer = Tokenizer(models.BPE(vocab=VOCAB, merges=[tuple(line.split()) for line in MERGES.splitlines()[1:]]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(added))
    return tokenizer.to_str()


def token(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True} | flags


LISTED = {"261": token("<|im_start|>"), "260": token("<|im_end|>", lstrip=True), "259": token("<|endoftext|>")}
CASES = [
    ("two", {"tokenizer_class": "GPT2Tokenizer"}, {}),
    ("two", {}, {"config.json": {"model_type": "qwen2"}}),
    ("two", {"tokenizer_class": "Qwen2TokenizerFast", "added_tokens_decoder": LISTED}, {}),
    ("two", {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>"}, {"added_tokens.json": {"<|im_start|>": 261}}),
    ("two", {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True, "add_bos_token": True}, {}),
    ("whole", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}, {}),
    ("whole", {"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": LISTED}, {}),
    ("whole", {"tokenizer_class": "PreTrainedTokenizerFast"}, {"special_tokens_map.json": {"eos_token": token("<|im_end|>", rstrip=True)}}),
    ("whole", {"tokenizer_class": "PreTrainedTokenizerFast", "additional_special_tokens": ["<|im_end|>"]}, {}),
    # Tokens that no vocabulary has: they get the next ids.
    ("whole", {"tokenizer_class": "PreTrainedTokenizerFast", "y_token": "<y>", "x_token": "<x>", "pad_token": "[PAD]", "bos_token": "<b>",
               "additional_special_tokens": ["<|im_start|>", {"__type": "AddedToken", "content": "<n>", "lstrip": True}]}, {}),
    ("whole", {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "extra_special_tokens": {"z": "<x>", "a": "<y>"}}, {}),
    ("whole", {"tokenizer_class": "PreTrainedTokenizerFast", "extra_special_tokens": ["<n>"], "additional_special_tokens": ["<x>"]}, {}),
    ("whole", {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<n>", "added_tokens_decoder": LISTED | {
        "300": token("<b>", special=False, normalized=True), "299": token("[PAD]"), "298": token("<n>", special=False)}}, {}),
    ("whole", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<x>"}, {
        "special_tokens_map.json": {"pad_token": token("[PAD]", rstrip=True), "bos_token": "<b>"}, "added_tokens.json": {"<y>": 262, "<x>": 261}}),
    ("two", {"tokenizer_class": "GPT2Tokenizer", "unk_token": "<n>", "pad_token": "[PAD]"}, {"added_tokens.json": {"<y>": 262, "[PAD]": 261}}),
    ("two", {"tokenizer_class": "Qwen2Tokenizer", "pad_token": "[PAD]", "additional_special_tokens": ["<n>"]}, {}),
    ("whole", {"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": True, "eos_token": "<|endoftext|>"}, {}),
    ("whole", {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": True}, {}),
    ("marked", {"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": LISTED | {"261": token("<x>")}}, {}),
]

if __name__ == "__main__":
    golden = {"texts": TEXTS, "vocab.json": json.dumps(VOCAB), "merges.txt": MERGES, "tokenizer.json": whole(),
              "marked": whole(["<|im_end|>"]), "folders": []}
    for kind, config, more in CASES:
        files = {"tokenizer_config.json": config} | more if config else more
        with tempfile.TemporaryDirectory() as folder:
            for name in ["vocab.json", "merges.txt"] if kind == "two" else ["tokenizer.json"]:
                (pathlib.Path(folder) / name).write_text(golden[kind if kind == "marked" else name], encoding="utf-8")
            for name, content in files.items():
                (pathlib.Path(folder) / name).write_text(json.dumps(content), encoding="utf-8")
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        golden["folders"].append({
            "kind": kind, "files": files, "ids": [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS],
            "front": tokenizer("a")["input_ids"][:-1] if config.get("add_bos_token") else []})
        print(kind, config.get("tokenizer_class"), golden["folders"][-1]["ids"], golden["folders"][-1]["front"])
    out = pathlib.Path(__file__).parent / "data" / "folder_tokenizers.json"
    out.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
