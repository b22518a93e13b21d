"""The server of a tiny run as OpenAI's own client meets it. Skips without that client (PyPI: openai) and cpp-httplib."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import openai
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", "build/lockstep")
if not (pathlib.Path(PROGRAM).resolve().parent / "lockstep-http.so").exists():
    print("skipped: this build has no plugin for HTTP")
    sys.exit(77)


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        cls.folder = pathlib.Path(held.name)
        (cls.folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 200)
        (cls.folder / "chat.jinja").write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
        run = cls.folder / "tiny"
        for words in (["prepare", cls.folder / "text.txt", "--tokenizer", "byte", "--out", cls.folder / "data"],
                      ["train", f"data.dir={cls.folder / 'data'}", f"log.dir={run}", "model.n_layer=2", "model.n_head=2", "model.n_embd=16",
                       "model.block_size=128", "model.batch_size=2", "train.max_iters=2", "train.eval_interval=2", "train.eval_iters=1",
                       "sample.tokens=0"]):
            subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True)
        cls.server = subprocess.Popen([PROGRAM, "serve", run, "--port", "0", "--threads", "1", "--chat-template", cls.folder / "chat.jinja"],
                                      stderr=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.server.wait)
        cls.addClassCleanup(cls.server.terminate)
        cls.addClassCleanup(cls.server.stderr.close)
        port = re.search(r":(\d+)/v1", cls.server.stderr.readline())[1]
        cls.client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
        cls.addClassCleanup(cls.client.close)

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["tiny"])

    def test_completions(self):
        wanted = dict(model="tiny", prompt="the quick", max_tokens=20, seed=4, n=2)
        whole = self.client.completions.create(**wanted, logprobs=3)
        self.assertEqual(whole.usage.completion_tokens, 40)
        self.assertEqual(len(whole.choices[0].logprobs.token_logprobs), 20)
        self.assertEqual(whole.choices[0].logprobs.text_offset[:3], [0, 1, 2])
        texts = ["", ""]
        for event in self.client.completions.create(**wanted, stream=True):
            for choice in event.choices:
                texts[choice.index] += choice.text
        self.assertEqual(texts, [choice.text for choice in whole.choices])

    def test_chats(self):
        wanted = dict(model="tiny", messages=[{"role": "user", "content": [{"type": "text", "text": "the fox"}]}], max_completion_tokens=12,
                      seed=4)
        whole = self.client.chat.completions.create(**wanted, logprobs=True, top_logprobs=2)
        self.assertEqual((whole.choices[0].message.role, whole.choices[0].finish_reason), ("assistant", "length"))
        told = whole.choices[0].logprobs.content
        self.assertEqual((len(told), len(told[0].top_logprobs)), (12, 2))
        text = ""
        for event in self.client.chat.completions.create(**wanted, stream=True, stream_options={"include_usage": True}):
            text += "".join(choice.delta.content or "" for choice in event.choices)
            usage = event.usage or None
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(usage, whole.usage)
        same = self.client.completions.create(model="tiny", prompt="the fox\n", max_tokens=12, seed=4)
        self.assertEqual(same.choices[0].text, text)

    def test_refusals(self):
        with self.assertRaises(openai.BadRequestError) as refused:
            self.client.completions.create(model="tiny", prompt="a", temperature=-1)
        self.assertEqual(refused.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError):
            self.client.completions.create(model="other", prompt="a")
        with self.assertRaises(openai.BadRequestError) as long:
            self.client.completions.create(model="tiny", prompt="a" * 128)
        self.assertEqual(long.exception.code, "context_length_exceeded")


if __name__ == "__main__":
    unittest.main()
