"""The ids and masks of `lockstep prepare` with conversations, against those of transformers' apply_chat_template.

Skips without the packages transformers and tokenizers. The tokenizers are small ones, trained here: bytes with and without words, and
characters with a blank before a text and behind each added token.
"""

import array
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
except ImportError:
    print("skipped: transformers and tokenizers are not installed")
    sys.exit(77)

PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", str(Path(__file__).resolve().parents[2] / "build" / "lockstep"))
ADDED = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|think|>"]
WORDS = "Hi there\n\nwhat \u00fc \u00e9 e\u0301 is <think>no</think> x=1;\n\tif (a) {b}  and  blanks   <|im_end|> \"quoted\" \\n 12345 \u4f60\u597d".split(" ")
TEXT = [" ".join(WORDS), "assistant\n\n12", "\n\n1", "user\n  there", "\n <s"] * 200
TEMPLATES = {
    "a line feed ends the header": "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}"
                                   "{{ m.content }}<|im_end|>\n{% endgeneration %}{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}",
    "several blocks a turn": "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content | trim }}"
                             "{% endgeneration %} {% generation %}{{ eos_token }}{% endgeneration %}{% else %}U:{{ m.content }}{% endif %}{% endfor %}",
    "an added token ends the header": "{% for m in messages %}<|think|>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
                                      "{{ eos_token }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}",
}


def trained(kind):
    if kind == "characters":
        made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        made.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        first = ["<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)]
        trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=first, show_progress=False)
    else:
        made = Tokenizer(models.BPE())
        made.normalizer = normalizers.NFC()
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "words")
        made.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    made.train_from_iterator(TEXT, trainer)
    made.add_special_tokens([AddedToken(token, normalized=False) for token in ADDED])
    return made


def conversation(draw):
    def content():
        return draw.choice(["", "\n", " "]) + " ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 12))) + draw.choice(["", "\n", " "])

    roles = ["user", "assistant"] * draw.randint(1, 3)
    return [{"role": role, "content": content()} for role in roles]


class Chats(unittest.TestCase):
    def test_ids_and_masks_are_those_of_transformers(self):
        for kind in ("words", "bytes", "characters"):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                trained(kind).save(str(folder / "tokenizer.json"))
                (folder / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "</s>"}')
                theirs = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), bos_token="<s>", eos_token="</s>")
                for title, template in TEMPLATES.items():
                    with self.subTest(f"{kind}, {title}"):
                        self.compare(folder, theirs, template)

    def compare(self, folder, theirs, template):
        draw = random.Random(7)
        chats = [conversation(draw) for _ in range(100)]
        (folder / "chat_template.jinja").write_text(template)
        (folder / "chats.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
        out = folder / "out"
        words = ["prepare", str(folder / "chats.jsonl"), "--tokenizer", f"hf:{folder}", "--out", str(out)]
        subprocess.run([PROGRAM, *words], check=True, stdout=subprocess.DEVNULL)
        ids, mask = array.array("H"), b""
        for split in ("train", "val"):
            ids.frombytes((out / f"{split}.bin").read_bytes())
            mask += (out / f"{split}.mask.bin").read_bytes()
        end = theirs.convert_tokens_to_ids("</s>")
        expected, taught = [], []
        for chat in chats:
            made = theirs.apply_chat_template(chat, chat_template=template, return_dict=True, return_assistant_tokens_mask=True)
            expected += made["input_ids"]
            taught += made["assistant_masks"]
            if expected[-1] != end:  # what parts conversations
                expected.append(end)
                taught.append(0)
        self.assertEqual(list(ids), expected)
        self.assertEqual(list(mask), taught)


if __name__ == "__main__":
    unittest.main()
