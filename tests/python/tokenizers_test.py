"""The ids of `lockstep prepare` with a tokenizer.json, against those of Hugging Face's library, on more than a megabyte of everything.

Skips without the package tokenizers. The tokenizers are small ones, trained here, with the parts that published ones have.
"""

import array
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import tokenizers
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError:
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", str(ROOT / "build" / "lockstep"))
SCRIPTS = [(0x20, 0x7E), (0xA1, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x531, 0x587), (0x5D0, 0x5EA), (0x600, 0x6FF), (0x900, 0x97F),
           (0xE00, 0xE5B), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x2000, 0x206F), (0x2190, 0x21FF), (0x3040, 0x30FF), (0x4E00, 0x9FFF),
           (0xAC00, 0xD7A3), (0x1F300, 0x1F64F), (0x300, 0x36F)]
WORDS = ("the it's We'll I'VE don't naïve café 12,345.67 2026 x+=1; foo_bar(baz) \"quoted\" https://a.b/c?d=e&f ﬁne ½ ² ① 1234567 "
         "日本語 中文测试 한국어 Привет мир γειά σου مرحبا שלום नमस्ते สวัสดี ▁meta <s> </s> <unk> <0x0A> e\u0301 a\u0308 \u200b \ufeff").split()


def corpus(size):
    chance = random.Random(7)
    sources = sorted(ROOT.glob("docs/*.md")) + sorted(ROOT.glob("src/data/*.cpp")) + sorted(ROOT.glob("tests/python/*.py"))
    files = "".join(path.read_text() for path in sources)
    parts, length = [], 0
    while length < size:
        kind = chance.randrange(6)
        if kind == 0:
            begin = chance.randrange(len(files))
            part = files[begin:begin + chance.randrange(2000)]
        elif kind == 1:
            low, high = chance.choice(SCRIPTS)
            part = "".join(chr(chance.randint(low, high)) for _ in range(chance.randrange(1, 30)))
        elif kind == 2:
            part = " ".join(chance.choice(WORDS) for _ in range(chance.randrange(1, 40)))
        elif kind == 3:
            part = chance.choice([" ", "  ", "\n", "\r\n", "\n\n", "\t", " \n ", "    ", "\u3000", "\xa0", "..."]) * chance.randrange(1, 4)
        elif kind == 4:
            part = "".join(chr(chance.choice([chance.randrange(1, 0xD800), chance.randrange(0xE000, 0x20000)]))
                           for _ in range(chance.randrange(1, 12)))
        else:
            part = str(chance.randrange(10 ** chance.randrange(1, 12)))
        parts.append(part + chance.choice(["", " ", "\n"]))
        length += len(parts[-1].encode())
    return "".join(parts)


TEXT = corpus(1_300_000)
TEACHES = [TEXT[i:i + 4000] for i in range(0, 400_000, 4000)]
ISOLATED = "isolated"
SIZES = {"bytes": 2000, "words": 3000, "alphabet": 600, "unigram": 1500}  # of vocabularies
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CASED = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
UPPER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = f"{CASED}{SHORT}|{UPPER}{SHORT}" + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = f"{CASED}|{UPPER}" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|"
            r"\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def split(pattern, behavior=ISOLATED, invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)


def byte_level(*steps, prefix=False, regex=False, last=()):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex), *last])


PUNCTUATION = pre_tokenizers.Punctuation
DIGITS = pre_tokenizers.Digits
BYTES = {
    "gpt2": byte_level(regex=True),
    "prefix": byte_level(prefix=True, regex=True),
    "llama3": byte_level(split(LLAMA3)),
    "olmo2": byte_level(split(LLAMA3, "removed", True)),
    "qwen2": byte_level(split(LLAMA3.replace("{1,3}", ""))),
    "cl100k": byte_level(split(CL100K, "removed", True)),
    "o200k": byte_level(split(O200K)),
    "tekken": byte_level(split(TEKKEN)),
    "deepseek": byte_level(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK)),
    "deepseek-coder": byte_level(split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[一-龥ࠀ-一가-퟿]+"), DIGITS(True)),
    "falcon": byte_level(PUNCTUATION("contiguous"), regex=True, last=(DIGITS(False), split("[0-9][0-9][0-9]"))),
    "starcoder": byte_level(DIGITS(True), regex=True),
    "digits": byte_level(DIGITS(False), regex=True),
    "bloom": byte_level(split(BLOOM)),
    "bert": byte_level(pre_tokenizers.BertPreTokenizer(), prefix=True),
    "whitespace": byte_level(pre_tokenizers.WhitespaceSplit(), PUNCTUATION("isolated")),
    "previous": byte_level(split(r"\d", "merged_with_previous"), split(r"\s", "merged_with_next")),
    "next": byte_level(split("e+", "merged_with_next"), split(r"\S+", "contiguous", True)),
    "literal": byte_level(pre_tokenizers.Split(", ", "removed"), split(r"\p{L}+?\p{N}"), regex=True),
    "borders": byte_level(split(r"\b\p{L}+\b|\B\p{N}+"), regex=True),
    "lookbehind": byte_level(split(r"(?<=\d)\p{L}+|(?<!\s|[.,]x)\p{P}"), regex=True),
    "lookahead": byte_level(split(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"), split(r"[[;:]&&[^;]]|\x41\u0042"), regex=True),
}


def trained(tokenizer, **options):
    trainer = trainers.BpeTrainer(show_progress=False, **options)
    tokenizer.train_from_iterator(TEACHES, trainer)
    return tokenizer


def with_bytes(pre_tokenizer, normalizer=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer, vocab_size=SIZES["bytes"], special_tokens=["<|endoftext|>"],
                   initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


SPACES = pre_tokenizers.Metaspace
LLAMA2 = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
LLAMA_DECODER = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]


def sentences(teaches, normalizer, pre_tokenizer, decoder, fallback=True, **model):
    """As SentencePiece's: the model is trained on words or over them, and used with another pre-tokenizer."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=fallback, **model))
    tokenizer.pre_tokenizer = teaches
    special = ["<unk>", "<s>", "</s>"] + ([f"<0x{byte:02X}>" for byte in range(256)] if fallback else [])
    trained(tokenizer, vocab_size=len(special) + SIZES["words"], limit_alphabet=SIZES["alphabet"], special_tokens=special)
    written = json.loads(tokenizer.to_str())
    written["added_tokens"] = written["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(written))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    return tokenizer


def unigram(pre_tokenizer, normalizer, fallback=False):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.UnigramTrainer(vocab_size=SIZES["unigram"], show_progress=False, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>")
    tokenizer.train_from_iterator(["".join(c for c in part if c < "\u0500" and c != "<") for part in TEACHES[:25]], trainer)
    written = json.loads(tokenizer.to_str())
    if fallback:
        written["model"]["vocab"] += [[f"<0x{byte:02X}>", 0.0] for byte in range(256)]
        written["model"]["byte_fallback"] = True
    tokenizer = Tokenizer.from_str(json.dumps(written))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(), decoders.Fuse()])
    return tokenizer


def added(tokenizer):
    tokenizer.add_tokens([AddedToken("lamp", normalized=True), AddedToken("it ", normalized=False), "the"])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)])
    return tokenizer


def charsmap():
    """SentencePiece's map of characters for T5 and XLM-R; none without the package."""
    try:
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2
    except ImportError:
        return None
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c d e f g"] * 20), model_writer=model, vocab_size=12,
                                             normalization_rule_name="nmt_nfkc", minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)


def sequence(*steps):
    return normalizers.Sequence(list(steps))


ALWAYS, FIRST = SPACES("▁", "always"), SPACES("▁", "first", False)
FUSED = decoders.Sequence([*LLAMA_DECODER, decoders.Strip(" ", 1, 0)])
GEMMA = pre_tokenizers.Split(" ", "merged_with_previous")
TRIMMED = [normalizers.Replace(Regex(" {2,}"), "▁"), normalizers.Strip(False, True)]
KINDS = {name: lambda p=pre_tokenizer, n=normalizers.NFC() if name == "qwen2" else None: with_bytes(p, n) for name, pre_tokenizer in BYTES.items()}
KINDS |= {
    "llama2": lambda: sentences(ALWAYS, LLAMA2, None, FUSED, fuse_unk=True),
    "llama2-added": lambda: added(sentences(ALWAYS, LLAMA2, None, FUSED, fuse_unk=True)),
    "gemma": lambda: sentences(ALWAYS, normalizers.Replace(" ", "▁"), GEMMA, decoders.Sequence(LLAMA_DECODER), fuse_unk=True),
    "mistral": lambda: sentences(ALWAYS, None, FIRST, decoders.Metaspace("▁", "first", False)),
    "always": lambda: sentences(ALWAYS, normalizers.NFC(), ALWAYS, decoders.Metaspace()),
    "never": lambda: sentences(ALWAYS, None, SPACES("▁", "never"), decoders.Metaspace("▁", "never"), fallback=False),
    "unknown": lambda: sentences(ALWAYS, LLAMA2, None, FUSED, fallback=False, fuse_unk=True),
    "unknowns": lambda: sentences(ALWAYS, normalizers.Sequence([*TRIMMED, normalizers.Strip(True, True)]),
                                  pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), FIRST]), decoders.Metaspace(), fallback=False),
    "crossing": lambda: sentences(split(r"\S+\s\S+"), LLAMA2, None, FUSED),
    "whole words": lambda: sentences(ALWAYS, LLAMA2, ALWAYS, FUSED, ignore_merges=True),
    "unigram": lambda: unigram(ALWAYS, None),
    "unigram-bytes": lambda: unigram(ALWAYS, normalizers.Sequence([normalizers.NFC(), *TRIMMED]), fallback=True),
}

NORMALIZERS = {"nfd": normalizers.NFD(), "nfkc": normalizers.NFKC(), "nfkd": normalizers.NFKD(), "lowercase": normalizers.Lowercase(),
               "accents": normalizers.StripAccents(), "bert": sequence(normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase())}
KINDS |= {name: lambda n=normalizer: with_bytes(byte_level(regex=True), n) for name, normalizer in NORMALIZERS.items()}
KINDS |= {"nfkc-mistral": lambda: sentences(ALWAYS, sequence(normalizers.NFKC(), normalizers.Lowercase()), FIRST, decoders.Metaspace("▁", "first", False)),
          "unigram-nfkd": lambda: unigram(ALWAYS, sequence(normalizers.NFKD(), normalizers.StripAccents(), *TRIMMED))}
if (MAP := charsmap()) is not None:
    KINDS |= {"charsmap": lambda: unigram(ALWAYS, MAP), "xlm-r": lambda: unigram(ALWAYS, sequence(MAP, normalizers.Replace(Regex(" {2,}"), " "))),
              "charsmap-first": lambda: sentences(ALWAYS, MAP, FIRST, decoders.Metaspace("▁", "first", False))}


class Ids(unittest.TestCase):
    def prepared(self, folder, name):
        described = json.loads((folder / "tokens.json").read_text())
        ids = array.array({"uint16": "H", "uint32": "I", "int32": "i"}[described["dtype"]])
        ids.frombytes((folder / name).read_bytes())
        return list(ids)

    def test_ids_are_those_of_tokenizers(self):
        only = os.environ.get("ONLY")
        cut = int(len(TEXT) * 0.9)
        with tempfile.TemporaryDirectory() as temporary:
            text = Path(temporary) / "text"
            text.write_bytes(TEXT.encode())
            for number, (name, make) in enumerate(KINDS.items()):
                if only and only not in name:
                    continue
                with self.subTest(name):
                    tokenizer = make()
                    file, out = Path(temporary) / f"{number}.json", Path(temporary) / str(number)
                    tokenizer.save(str(file))
                    if os.environ.get("KEEP"):
                        tokenizer.save(os.environ["KEEP"] + f"/{name}.json")
                    run = subprocess.run([PROGRAM, "prepare", text, "--format", "text", "--tokenizer", f"hf:{file}", "--out", out],
                                         capture_output=True, text=True, cwd=temporary)
                    self.assertEqual(run.returncode, 0, run.stderr)
                    for part, of_text in (("train.bin", TEXT[:cut]), ("val.bin", TEXT[cut:])):
                        expected = tokenizer.encode_batch_fast([of_text])[0].ids
                        found = self.prepared(out, part)
                        if found != expected:
                            at = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
                            shown = [[tokenizer.id_to_token(i) for i in ids[max(at - 4, 0):at + 6]] for ids in (found, expected)]
                            self.fail(f"{part}: {len(found)} and {len(expected)} ids, token {at}: {shown}")


if __name__ == "__main__":
    unittest.main()
