#!/usr/bin/env python3
"""Asks `lockstep serve` and llama.cpp's server (xllamacpp) in turns, with the same random weights and threads; prints medians.

    bench/serving.py [--models gpt2,llama] [--dtypes fp32,bf16] [--threads 2] [--rounds 5]     LOCKSTEP_PROGRAM=build/lockstep

One stream and eight: tokens a second behind the first. A prompt of 512 tokens: its tokens over the time to the first one. Beside
seven busy neighbours: seconds from a prompt of 128 tokens to its first token. Needs torch, transformers, tokenizers, xllamacpp.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", "build/lockstep")
CONTEXT, TEXTS, WRITTEN, KNOWN = 1024, 8, 48, 400
LLAMA_CPP = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[4])
params.n_gpu_layers, params.verbosity = 0, 0
server = xllamacpp.Server(params)
print("at", server.listening_address, flush=True)
time.sleep(1e9)
"""


def make_model(kind, folder):
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    torch.manual_seed(1)
    if kind == "gpt2":
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(bos_token_id=0, eos_token_id=0))
    else:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            hidden_size=1024, intermediate_size=5120, num_hidden_layers=24, num_attention_heads=16, num_key_value_heads=4,
            max_position_embeddings=CONTEXT, bos_token_id=0, eos_token_id=0))
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([pathlib.Path(__file__).read_text()], trainers.BpeTrainer(
        vocab_size=KNOWN + 20, show_progress=False, special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens([f" w{i}" for i in range(model.config.vocab_size - tokenizer.get_vocab_size())])  # each one is shown
    tokenizer.save(str(folder / "tokenizer.json"))
    return sum(parameter.numel() for parameter in model.parameters())


class Server:
    def __init__(self, name, words, found, stream):
        self.name, self.lines, heard = name, [], threading.Event()
        self.process = subprocess.Popen(words, text=True, **{stream: subprocess.PIPE}, **({} if stream == "stderr" else {"stderr": subprocess.DEVNULL}))

        def listen():
            for line in getattr(self.process, stream):
                self.lines.append(line)
                if re.search(found, line):
                    heard.set()
            heard.set()
        threading.Thread(target=listen, daemon=True).start()
        heard.wait(300)
        match = re.search(found, "".join(self.lines))
        if match is None:
            sys.exit(f"{name} does not start: {''.join(self.lines)}")
        self.port = int(match[1])

    def write(self, prompt, count, begun=None):
        """(seconds to the first token, seconds behind it, tokens)."""
        body = {"prompt": prompt, "max_tokens": count, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
        if self.name != "lockstep":
            body |= {"ignore_eos": True, "cache_prompt": False}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        start = time.perf_counter()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer, first, tokens = connection.getresponse(), None, 0
        if answer.status != 200:
            sys.exit(f"{self.name}: {answer.read()}")
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if first is None and event["choices"]:
                first = time.perf_counter()
                if begun is not None:
                    begun.release()
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
        last = time.perf_counter()
        connection.close()
        return first - start, last - first, tokens

    def measure(self, rng):
        def prompt(count):
            return [rng.randrange(1, KNOWN) for _ in range(count)]
        _, behind, tokens = self.write(prompt(16), WRITTEN)
        figures = {"one stream, tokens/s": (tokens - 1) / behind}
        with concurrent.futures.ThreadPoolExecutor(TEXTS) as pool:
            start = time.perf_counter()
            all_tokens = sum(tokens for _, _, tokens in pool.map(lambda p: self.write(p, WRITTEN), [prompt(16) for _ in range(TEXTS)]))
            figures["8 streams, tokens/s"] = all_tokens / (time.perf_counter() - start)
            figures["prompt of 512, tokens/s"] = 512 / self.write(prompt(512), 2)[0]
            begun = threading.Semaphore(0)
            busy = [pool.submit(self.write, prompt(16), 2 * WRITTEN, begun) for _ in range(TEXTS - 1)]
            for _ in busy:
                begun.acquire()
            figures["first token beside 7, s"] = self.write(prompt(128), 2)[0]
            for one in busy:
                one.result()
        return figures

    def end(self):
        self.process.kill()
        self.process.wait()


def compare(kind, dtype, folder, options):
    gguf = folder.parent / f"{kind}-{dtype}.gguf"
    subprocess.run([PROGRAM, "convert", folder, gguf, "--type", dtype.replace("fp", "f")], check=True, capture_output=True)
    servers = [
        Server("lockstep", [PROGRAM, "serve", folder, "--port", "0", "--threads", str(options.threads), "--texts", str(TEXTS), "--context", str(CONTEXT),
                            "--cache", str(TEXTS * CONTEXT), "--dtype", dtype], r"http://127.0.0.1:(\d+)/v1", "stderr"),
        Server("llama.cpp", [sys.executable, "-c", LLAMA_CPP, gguf, str(TEXTS * CONTEXT), str(TEXTS), str(options.threads)], r"at .*:(\d+)", "stdout")]
    rounds = []
    for number in range(options.rounds + 1):
        rng = random.Random(number)
        figures = [server.measure(rng) for server in (servers if number % 2 else servers[::-1])]
        rounds.append(figures if number % 2 else figures[::-1])
    for server in servers:
        server.end()
    gguf.unlink()
    for what in rounds[0][0]:
        ours, theirs = ([figures[i][what] for figures in rounds[1:]] for i in (0, 1))  # the first round warms up
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        digits = 2 if what.endswith(", s") else 1
        print(f"| {kind}, {dtype} | {what} | {statistics.median(ours):.{digits}f} | {statistics.median(theirs):.{digits}f} | {ratio:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, standard in (("models", "gpt2,llama"), ("dtypes", "fp32,bf16")):
        parser.add_argument("--" + name, default=standard)
    for name, standard in (("threads", 2), ("rounds", 5)):
        parser.add_argument("--" + name, type=int, default=standard)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as held:
        for kind in options.models.split(","):
            folder = pathlib.Path(held) / kind
            folder.mkdir()
            print(f"{kind}: {make_model(kind, folder) / 1e6:.0f} M parameters", file=sys.stderr)
            for dtype in options.dtypes.split(","):
                compare(kind, dtype, folder, options)


if __name__ == "__main__":
    main()
