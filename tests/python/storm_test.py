"""Random requests against `lockstep serve`: good ones, broken ones, and clients that stall, leave or are killed. Every good request gets
the text that it gets alone, none is lost, and the server is afterwards as it was. LOCKSTEP_STORM: how many; LOCKSTEP_STORM_SEED."""

import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", "build/lockstep")
REQUESTS = int(os.environ.get("LOCKSTEP_STORM", "400"))
SEED = int(os.environ.get("LOCKSTEP_STORM_SEED", "1"))
PATIENCE = 120.0  # seconds for an answer
CLIENTS = 24
if not (pathlib.Path(PROGRAM).resolve().parent / "lockstep-http.so").exists():
    print("skipped: this build has no plugin for HTTP")
    sys.exit(77)


def head_of(path, size, fields=""):
    return f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{fields}Content-Length: {size}\r\n\r\n".encode()


def posted(path, body, fields=""):
    return head_of(path, len(body), fields) + body


class Client:
    """A connection that says what a test wants, byte by byte."""

    def __init__(self, port, patience=PATIENCE):
        self.socket = socket.create_connection(("127.0.0.1", port), patience)
        self.socket.settimeout(patience)
        self.came = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was refused before it was read; the answer says so

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _more(self):
        try:
            piece = self.socket.recv(1 << 16)
        except ConnectionResetError:
            piece = b""
        self.came += piece
        return bool(piece)

    def _to(self, end):
        while end not in self.came:
            if not self._more():
                return None
        text, self.came = self.came.split(end, 1)
        return text

    def _bytes(self, count):
        while len(self.came) < count:
            if not self._more():
                return None
        data, self.came = self.came[:count], self.came[count:]
        return data

    def answer(self):
        """(status, fields, body); None where none comes or it ends early."""
        while True:
            head = self._to(b"\r\n\r\n")
            if head is None:
                return None
            status = int(head[9:12])
            if status // 100 != 1:
                break
        head = head.decode("latin-1")
        if "chunked" in head:
            body = b""
            while True:
                size = self._to(b"\r\n")
                piece = None if size is None else self._bytes(int(size, 16) + 2)
                if piece is None:
                    return None
                if len(piece) == 2:
                    return status, head, body
                body += piece[:-2]
        body = self._bytes(int(re.search(r"Content-Length: (\d+)", head)[1]))
        return None if body is None else (status, head, body)


def text_of(body, streamed):
    """What must be the same: choices and counts."""
    if not streamed:
        answer = json.loads(body)
        return [(c.get("text", c.get("message", {}).get("content")), c["finish_reason"], json.dumps(c["logprobs"])) for c in answer["choices"]]
    texts, reasons = collections.defaultdict(str), {}
    events = body.decode().split("\n\n")
    if events[-2:] != ["data: [DONE]", ""]:
        return None
    for event in events[:-2]:
        if event.startswith("data: "):
            for choice in json.loads(event[6:])["choices"]:
                texts[choice["index"]] += choice.get("text", choice.get("delta", {}).get("content", ""))
                reasons[choice["index"]] = choice["finish_reason"]
    return [(texts[i], reasons[i]) for i in sorted(texts)]


class Storm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        folder = pathlib.Path(held.name)
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 200)
        (folder / "chat.jinja").write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
        run = folder / "tiny"
        for words in (["prepare", folder / "text.txt", "--tokenizer", "byte", "--out", folder / "data"],
                      ["train", f"data.dir={folder / 'data'}", f"log.dir={run}", "model.n_layer=2", "model.n_head=2", "model.n_embd=32",
                       "model.block_size=256", "model.batch_size=2", "train.max_iters=2", "train.eval_interval=2", "train.eval_iters=1",
                       "sample.tokens=0"]):
            subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True)
        cls.said, cls.full = folder / "said", collections.Counter()
        with cls.said.open("w") as said:
            cls.server = subprocess.Popen([PROGRAM, "serve", run, "--port", "0", "--threads", "2", "--texts", "3", "--waiting", "4",
                                           "--connections", "10", "--chat-template", folder / "chat.jinja"], stderr=said)
        cls.addClassCleanup(cls.server.wait)
        cls.addClassCleanup(cls.server.kill)
        while not (found := re.search(r":(\d+)/v1", cls.said.read_text())):
            if cls.server.poll() is not None:
                raise AssertionError(cls.said.read_text())
            time.sleep(0.05)
        cls.port = int(found[1])
        cls.good = [cls.good_request(random.Random(SEED * 1000 + i)) for i in range(40)]
        cls.expected = [cls.alone(*one) for one in cls.good]

    @staticmethod
    def good_request(rng):
        prompt = " ".join(rng.choices(["the", "quick", "fox", "lazy", "dog", "é", "𝄞"], k=rng.randrange(1, 30)))
        body = {"max_tokens": rng.randrange(1, 60), "seed": rng.randrange(1000), "temperature": rng.choice([0, 0.7, 1.3]),
                "n": rng.choice([1, 1, 1, 2]), "stream": rng.random() < 0.4}
        if rng.random() < 0.3:
            body["top_k"] = rng.randrange(1, 40)
        if rng.random() < 0.2:
            body["stop"] = rng.sample(["e", "qu", " ", "\n"], 2)
        path = rng.choice(["/v1/completions", "/v1/completions", "/v1/chat/completions"])
        if path == "/v1/completions":
            body |= {"prompt": prompt} | ({"logprobs": 2} if rng.random() < 0.2 else {})
        else:
            body["messages"] = [{"role": "user", "content": prompt}]
        return path, json.dumps(body).encode(), body["stream"]

    @classmethod
    def alone(cls, path, body, streamed):
        with Client(cls.port) as client:
            client.send(posted(path, body))
            status, _, answer = client.answer()
            assert status == 200, answer
            return text_of(answer, streamed)

    # Each tells by its result what happened; a fault is told by an exception.
    def checked(self, answer, index):
        if answer is None:
            raise AssertionError(f"request {index} was lost: {self.good[index]}")
        status, head, body = answer
        if status in (429, 503):
            self.assertIn("Retry-After: 1", head)
            self.full[status] += 1
            return None
        self.assertEqual(status, 200, body)
        self.assertEqual(text_of(body, self.good[index][2]), self.expected[index], self.good[index])
        return "good"

    def ask(self, rng, say):
        """A good request, said in some way, until there is room for it."""
        index = rng.randrange(len(self.good))
        path, body, _ = self.good[index]
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with Client(self.port) as client:
                say(client, path, body)
                if result := self.checked(client.answer(), index):
                    return result
            time.sleep(rng.random() * 0.05)
        raise AssertionError("there was never room")

    def good_whole(self, rng):
        return self.ask(rng, lambda client, path, body: client.send(posted(path, body)))

    def good_slow(self, rng):
        def say(client, path, body):
            data, at = posted(path, body), 0
            while at < len(data):
                step = rng.randrange(1, 40)
                client.send(data[at:at + step])
                at += step
                time.sleep(rng.random() * 0.02)
        return self.ask(rng, say)

    def good_half_closed(self, rng):
        def say(client, path, body):
            client.send(posted(path, body))
            try:
                client.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it was refused by then
        return self.ask(rng, say)

    def good_chunked(self, rng):
        def say(client, path, body):
            data, at = f"POST {path} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode(), 0
            while at < len(body):
                piece = body[at:at + rng.randrange(1, 80)]
                data += b"%x\r\n%b\r\n" % (len(piece), piece)
                at += len(piece)
            client.send(data + b"0\r\n\r\n")
        return self.ask(rng, say)

    def good_kept_alive(self, rng):
        with Client(self.port) as client:
            for _ in range(3):
                index = rng.randrange(len(self.good))
                client.send(posted(*self.good[index][:2]))
                answer = client.answer()
                if self.checked(answer, index) is None and answer[0] == 503:
                    return "full"  # which ends the connection
        return "good"

    def refusal(self, data, statuses):
        with Client(self.port) as client:
            client.send(data)
            answer = client.answer()
        if answer is None:
            raise AssertionError(f"no answer to {data[:200]}")
        if answer[0] == 503:
            return "full"
        self.assertIn(answer[0], statuses, (data[:200], answer))
        if answer[0] >= 400:
            self.assertTrue(json.loads(answer[2])["error"]["message"])
        return str(answer[0])

    def bad_json(self, rng):
        body = bytearray(rng.choice(self.good)[1])
        del body[rng.randrange(1, len(body)):]
        return self.refusal(posted("/v1/completions", bytes(body)), {400})

    def bad_utf8(self, rng):
        bad = rng.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"])
        return self.refusal(posted("/v1/completions", b'{"prompt": "a' + bad + b'"}'), {400})

    def bad_value(self, rng):
        member = rng.choice(['"temperature": -1', '"n": 99', '"max_tokens": 0', '"top_p": "x"', '"stop": [""]', '"prompt": {}', '"model": "b"'])
        return self.refusal(posted("/v1/completions", b'{"prompt": "a", ' + member.encode() + b"}"), {400, 404})

    def bad_bytes(self, rng):
        data = rng.randbytes(rng.randrange(1, 300)).replace(b"\n", b"x") + b"\r\n\r\n"
        return self.refusal(data, {400, 413, 414})

    def bad_size(self, rng):
        if rng.random() < 0.5:
            return self.refusal(head_of("/v1/completions", 5 << 20) + b"x" * (5 << 20), {413})
        return self.refusal(posted("/v1/completions", b"{}", "X-Long: " + "y" * (200 << 10) + "\r\n"), {400, 413, 431})

    def other_path(self, rng):
        path, method = rng.choice(["/health", "/metrics", "/v1/models", "/v1/nothing", "/" + "a" * 3000]), rng.choice(["GET", "HEAD", "DELETE"])
        if method == "HEAD":
            with Client(self.port) as client:
                client.send(f"HEAD {path} HTTP/1.1\r\n\r\n".encode())
                self.assertIsNotNone(client._to(b"\r\n\r\n"))
            return "head"
        return self.refusal(f"{method} {path} HTTP/1.1\r\n\r\n".encode(), {200, 404, 405})

    def leaves_asking(self, rng):
        data = posted(*rng.choice(self.good)[:2])
        with Client(self.port) as client:
            client.send(data[:rng.randrange(len(data))])
            if rng.random() < 0.5:
                client.reset()
        return "left"

    def leaves_reading(self, rng):
        path, body, _ = rng.choice(self.good)
        with Client(self.port) as client:
            client.send(posted(path, json.dumps(json.loads(body) | {"stream": True, "max_tokens": 100}).encode()))
            for _ in range(rng.randrange(6)):
                client._more()
            if rng.random() < 0.5:
                client.reset()
        return "left"

    def is_killed(self, rng):
        say = ("import socket, sys, time; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
               "s.sendall(bytes.fromhex(sys.argv[2])); time.sleep(60)")
        child = subprocess.Popen([sys.executable, "-S", "-E", "-c", say, str(self.port), posted(*rng.choice(self.good)[:2]).hex()])
        time.sleep(rng.random() * 0.3)
        child.kill()
        child.wait()
        return "killed"

    def kinds(self):
        return {self.good_whole: 40, self.good_slow: 4, self.good_half_closed: 5, self.good_chunked: 4, self.good_kept_alive: 4, self.bad_json: 6,
                self.bad_utf8: 5, self.bad_value: 6, self.bad_bytes: 4, self.bad_size: 1, self.other_path: 5, self.leaves_asking: 6,
                self.leaves_reading: 9, self.is_killed: 1}

    def state(self):
        """(KiB resident, files, threads) of the server at rest."""
        until = time.monotonic() + PATIENCE
        while True:
            with Client(self.port) as client:
                client.send(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")
                figures = dict(re.findall(r"^lockstep_(\w+) (\d+)$", client.answer()[2].decode(), re.M))
            if figures["texts_active"] == figures["texts_waiting"] == "0" and figures["cache_pages"] == figures["cache_pages_free"]:
                break
            self.assertLess(time.monotonic(), until, figures)
            time.sleep(0.05)
        time.sleep(6)  # connections that are kept open end
        process = pathlib.Path(f"/proc/{self.server.pid}")
        status = dict(re.findall(r"^(\w+):\s+(\d+)", (process / "status").read_text(), re.M))
        return int(status["VmRSS"]), len(list((process / "fd").iterdir())), int(status["Threads"])

    def weather(self, first, last):
        kinds, results = self.kinds(), collections.Counter()

        def one(number):
            rng = random.Random(SEED * 1_000_003 + number)
            kind = rng.choices(list(kinds), list(kinds.values()))[0]
            try:
                return f"{kind.__name__}: {kind(rng)}"
            except Exception as error:
                raise AssertionError(f"request {number}, {kind.__name__}: {error!r}") from error

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            try:
                results.update(pool.map(one, range(first, last)))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return results

    def test_storm(self):
        self.assertEqual([self.alone(*one) for one in self.good], self.expected)
        self.weather(0, max(100, REQUESTS // 5))
        before = self.state()
        began = time.monotonic()
        results = self.weather(max(100, REQUESTS // 5), REQUESTS + max(100, REQUESTS // 5))
        seconds = time.monotonic() - began
        after = self.state()
        self.assertEqual([self.alone(*one) for one in self.good], self.expected)
        with Client(self.port) as client:
            client.send(b"GET /health HTTP/1.1\r\n\r\n")
            self.assertEqual(client.answer()[::2], (200, b'{"status":"ok"}'))
        print(f"{REQUESTS} requests in {seconds:.0f} s; KiB, files and threads before {before}, after {after}")
        print("full:", dict(self.full))
        print(", ".join(f"{count} {what}" for what, count in sorted(results.items())))
        self.assertEqual(before[1:], after[1:])
        if "LOCKSTEP_SANITIZED" not in os.environ:  # which keep what was freed
            self.assertLess(after[0], before[0] + (8 << 10))
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(PATIENCE), 0)
        self.assertEqual(len(self.said.read_text().splitlines()), 1, self.said.read_text())


if __name__ == "__main__":
    unittest.main()
