#!/usr/bin/env python3
"""Encodes a text with `lockstep prepare` and with Hugging Face's tokenizers in turns, on two threads each; prints medians of ratios.

    bench/tokenizing.py TEXT [KIND...]     TEXT: 10 MB or more; KIND: gpt2, llama3, gemma, llama2, unigram

The tokenizers are trained on the text's first 2 MB, with the parts of published ones. A time of prepare is that of the whole program
less its time for an empty line; one of tokenizers is that of encode_batch_fast() on lines' blocks of 10 kB, after a first call.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "2"
os.environ["TOKENIZERS_PARALLELISM"] = "true"

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", "build/lockstep")
PAIRS, VOCABULARY = 7, 8000
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def of_bytes(split, teaches):
    tokenizer = Tokenizer(models.BPE())
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    tokenizer.pre_tokenizer = whole if split is None else pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), "isolated"), whole])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(teaches, trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False,
                                                               initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def of_characters(prepend, teaches):
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", "always")
    tokenizer.train_from_iterator(teaches, trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False, limit_alphabet=500,
                                                               special_tokens=special))
    replace = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prepend else replace
    tokenizer.pre_tokenizer = None if prepend else pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def unigram(teaches):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", "always")
    tokenizer.train_from_iterator(teaches, trainers.UnigramTrainer(vocab_size=VOCABULARY, show_progress=False, unk_token="<unk>",
                                                                   special_tokens=["<pad>", "</s>", "<unk>"]))
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


KINDS = {"gpt2": lambda teaches: of_bytes(None, teaches), "llama3": lambda teaches: of_bytes(LLAMA3, teaches),
         "gemma": lambda teaches: of_characters(False, teaches), "llama2": lambda teaches: of_characters(True, teaches),
         "unigram": unigram}


def seconds(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main():
    text = pathlib.Path(sys.argv[1]).read_bytes()[:10_000_000].decode(errors="ignore")
    with tempfile.TemporaryDirectory() as folder:
        for kind in sys.argv[2:] or KINDS:
            file = pathlib.Path(folder) / f"{kind}.json"
            tokenizer = KINDS[kind]([text[i:i + 10_000] for i in range(0, 2_000_000, 10_000)])
            tokenizer.save(str(file))
            for size in (1_000_000, 10_000_000):
                part = text[:size]
                path, empty = pathlib.Path(folder) / "text", pathlib.Path(folder) / "empty"
                path.write_text(part)
                empty.write_text("a\n")
                blocks = [part[i:i + 10_000] for i in range(0, len(part), 10_000)]

                def prepare(of):
                    out = pathlib.Path(folder) / "out"
                    subprocess.run(["rm", "-rf", out], check=True)
                    return seconds(lambda: subprocess.run(
                        [PROGRAM, "prepare", of, "--format", "text", "--tokenizer", f"hf:{file}", "--out", out, "--threads", "2"],
                        check=True, capture_output=True))

                tokenizer.encode_batch_fast(blocks)
                rows = []
                for _ in range(PAIRS):
                    own, start = prepare(path), prepare(empty)
                    rows.append((max(own - start, 1e-3), seconds(lambda: tokenizer.encode_batch_fast(blocks))))
                own, theirs = (statistics.median(column) for column in zip(*rows))
                ratio = statistics.median(b / a for a, b in rows)
                print(f"{kind:8} {size // 1_000_000:3} MB  prepare {own:.3f} s  tokenizers {theirs:.3f} s  ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
