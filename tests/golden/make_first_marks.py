#!/usr/bin/env python3
"""Golden ids of tokenizers whose Metaspace puts a mark before the first piece alone, as Hugging Face's library (tokenizers 0.23) gives them.

Which piece is the first one hangs on the place that a normalizer gives to what it makes. Writes tests/golden/data/first_marks.json: texts;
tokenizers without merges, and the ids of each text. Needs `pip install tokenizers==0.23.3 sentencepiece`.
"""
import io
import json
import pathlib
import random
import sys
import tempfile

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

assert tokenizers.__version__.startswith("0.23.")
MARK = "\u2581"
MAP = {"\u00bd": "1\u20442", "\u00ad": "", "\u200b": "", "a\u0301": "\u00e1", "\u2026": "...", "\ufb01": "fi", "\u3000": " ", "\u00a8": " \u0308", "\t": " ", "x": "yz"}
LETTERS = "abefiyz. 12" + MARK + "\u00e1\u2044\u0308\u0301\u00e9\u00c9E<>tnX"
PARTS = [" ", "  ", "\t", "\u3000", "\u00bd", "\ufb01", "\u2026", "\u00ad", "\u200b", "\u00a8", "a\u0301", "e\u0301", "\u00c9", "a", "b", "x", "1", "2", ".", "<t>", "<n>",
         "\u0301", MARK, "E", "\u00ad\u00ad"]


def charsmap():
    rules = "".join(" ".join(f"{ord(c):X}" for c in text) + "\t" + " ".join(f"{ord(c):X}" for c in by) + "\n" for text, by in MAP.items())
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.write(rules)
        file.flush()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c d e f g"] * 20), model_writer=model, vocab_size=12,
                                                 normalization_rule_tsv=file.name, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)


PRECOMPILED = charsmap()
FIRST, WORDS = pre_tokenizers.Metaspace(MARK, "first", True), pre_tokenizers.Metaspace(MARK, "first", False)
NORMALIZERS = [[PRECOMPILED], [PRECOMPILED, normalizers.Strip(True, False)], [normalizers.Strip(True, True), PRECOMPILED], [normalizers.NFKC()],
               [normalizers.NFD(), normalizers.StripAccents()], [normalizers.Lowercase(), PRECOMPILED], [],
               [normalizers.Replace(Regex(" {2,}|a"), MARK), PRECOMPILED], [PRECOMPILED, normalizers.Replace("z", ""), normalizers.NFD()],
               [normalizers.Prepend("b"), PRECOMPILED], [normalizers.NFKD(), normalizers.Replace("2", "")]]
SPLITS = [[FIRST], [pre_tokenizers.Digits(True), WORDS], [pre_tokenizers.WhitespaceSplit(), FIRST], [pre_tokenizers.Punctuation("isolated"), WORDS],
          [pre_tokenizers.Split(Regex("[a-y]"), "isolated"), FIRST], [pre_tokenizers.Split("\u2044", "removed"), WORDS]]


def tokenizer_of(normalizer, split, chance):
    letters = sorted(set(LETTERS))
    vocabulary = {"<unk>": 0} | {letter: 1 + i for i, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(normalizer) if normalizer else None
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split)
    tokenizer.decoder = decoders.Metaspace(MARK, "first", False)
    added = [AddedToken("<t>", normalized=False, lstrip=chance.random() < 0.5, rstrip=chance.random() < 0.3)]
    added += chance.sample([AddedToken("<n>", normalized=True), AddedToken("1", normalized=True), AddedToken(".", normalized=True),
                            AddedToken("y", normalized=True), AddedToken("fi", normalized=True), AddedToken("e", normalized=True)], 2)
    tokenizer.add_tokens(added)
    return tokenizer


def ids(tokenizer, text):
    try:
        return tokenizer.encode(text, add_special_tokens=False).ids
    except BaseException as fault:  # places that the library does not reach, and the like
        print("gave up", json.dumps(text), fault, file=sys.stderr)
        return None


if __name__ == "__main__":
    count, kinds = (int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else (40, 0)
    chance = random.Random(11)
    texts = ["".join(chance.choice(PARTS) for _ in range(chance.randrange(1, 7))) for _ in range(count)] + ["", " ", "\u00bd", "\u00ad", "\u00bdx"]
    golden = {"texts": texts, "kinds": []}
    pairs = [(n, s) for n in NORMALIZERS for s in SPLITS]
    for normalizer, split in chance.sample(pairs, kinds or 30):
        tokenizer = tokenizer_of(normalizer, split, chance)
        golden["kinds"].append({"tokenizer": json.loads(tokenizer.to_str()), "ids": [ids(tokenizer, text) for text in texts]})
    out = pathlib.Path(__file__).parent / "data" / "first_marks.json"
    out.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(out, out.stat().st_size)
