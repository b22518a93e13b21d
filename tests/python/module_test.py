"""The Python module, with the program that LOCKSTEP_PROGRAM names."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
import lockstep  # noqa: E402
from lockstep import _program, _weights  # noqa: E402

SETTINGS = {"model.n_layer": 1, "model.n_head": 2, "model.n_embd": 16, "model.block_size": 16, "model.batch_size": 2}
SETTINGS.update({"train.max_iters": 4, "train.eval_interval": 2, "train.eval_iters": 1, "train.log_interval": 1})
SETTINGS["model.bias"] = False


def write_checkpoint(folder: Path, dtype: str, values: bytes, shape: list) -> None:
    tensor = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(values)]}
    header = json.dumps({"__metadata__": {"a": "b"}, "w": tensor}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + values)


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        text = cls.folder / "text.txt"
        text.write_text("".join(f"line {i} of a text\n" for i in range(300)))
        cls.data = lockstep.prepare(text, cls.folder / "data")
        cls.run_folder = lockstep.run(cls.data, folder=cls.folder / "run", settings=SETTINGS, ranks=2)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.temporary.cleanup()

    def test_metrics_are_those_of_the_run(self) -> None:
        rows = lockstep.metrics(self.run_folder)
        self.assertEqual([row["step"] for row in rows if row.get("eval")], [0, 2, 4])
        self.assertEqual([row["step"] for row in rows if "loss" in row], [1, 2, 3, 4])

    def test_weights_have_names_and_shapes(self) -> None:
        for which in ("best", "last", 2):
            weights = lockstep.load(self.run_folder, which)
            self.assertEqual(tuple(weights["transformer.h.0.attn.c_attn.weight"].shape), (48, 16))
        with self.assertRaisesRegex(FileNotFoundError, "no checkpoint '3': it has those of steps 2, 4"):
            lockstep.load(self.run_folder, 3)

    def test_the_same_seed_writes_the_same_text(self) -> None:
        first = lockstep.generate(self.run_folder, prompt="line ", tokens=12, seed=3, temperature=1.0)
        self.assertEqual(first, lockstep.generate(self.run_folder, prompt="line ", tokens=12, seed=3, temperature=1.0))
        self.assertTrue(first.startswith("line "))

    def test_an_error_has_the_programs_words(self) -> None:
        with self.assertRaises(lockstep.Error) as caught:
            lockstep.run(self.data, folder=self.folder / "none", settings={"train.max_itres": 3})
        self.assertEqual(caught.exception.code, 2)
        self.assertIn("train.max_itres", str(caught.exception))

    def test_a_run_goes_on(self) -> None:
        folder = lockstep.run(self.data, folder=self.folder / "more", settings=SETTINGS)
        more = {**SETTINGS, "train.max_iters": 6, "train.init_from": "resume"}
        lockstep.run(self.data, folder=folder, settings=more)
        self.assertEqual(lockstep.metrics(folder)[-1]["step"], 6)


class Weights(unittest.TestCase):
    def setUp(self) -> None:
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)

    def tearDown(self) -> None:
        self.temporary.cleanup()

    def read(self, numpy: object) -> list:
        with mock.patch.object(_weights, "numpy", numpy):
            weights = lockstep.load(self.folder)["w"]
            self.assertEqual(tuple(weights.shape), (2, 2))
            return weights.tolist()

    def test_both_types_are_read_with_and_without_numpy(self) -> None:
        halves = struct.pack("<4H", 0x3F80, 0xC000, 0x3F00, 0x4040)
        for dtype, values in (("F32", struct.pack("<4f", 1, -2, 0.5, 3)), ("BF16", halves)):
            write_checkpoint(self.folder, dtype, values, [2, 2])
            for numpy in {None, _weights.numpy}:
                self.assertEqual(self.read(numpy), [[1, -2], [0.5, 3]])

    def test_other_types_are_refused(self) -> None:
        write_checkpoint(self.folder, "I64", bytes(32), [2, 2])
        with self.assertRaisesRegex(ValueError, "tensors of type I64 are not read"):
            lockstep.load(self.folder)


class Program(unittest.TestCase):
    def test_the_module_run_as_a_program_is_the_program(self) -> None:
        environment = {**os.environ, "PYTHONPATH": sys.path[0]}
        said = [
            subprocess.run([*words, "--version"], env=environment, capture_output=True, check=True).stdout
            for words in ([sys.executable, "-m", "lockstep"], [os.fspath(lockstep.program())])
        ]
        self.assertEqual(said[0], said[1])

    def test_without_the_program_the_remedy_is_said(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": ""}), mock.patch.object(_program.sysconfig, "get_path", lambda *_: "/none"):
            del os.environ["LOCKSTEP_PROGRAM"]
            with mock.patch.object(sys, "prefix", "/none"), self.assertRaisesRegex(FileNotFoundError, "install lockstep-train"):
                lockstep.program()


if __name__ == "__main__":
    unittest.main()
