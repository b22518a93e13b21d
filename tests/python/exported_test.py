"""Layouts that `lockstep plan search --out` writes for other systems, read by those systems' own code.

DeepSpeed's configuration class reads its JSON, torchtitan's configuration manager its arguments, Megatron-LM's parser its own.
What is not installed is left out; skips where none is. (megatron-core has no parser: a tree of Megatron-LM on PYTHONPATH has.)
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

os.environ.setdefault("DS_ACCELERATOR", "cpu")
try:
    import deepspeed.runtime.config as deepspeed
except ImportError:
    deepspeed = None
try:
    from torchtitan.config import ConfigManager
except ImportError:
    ConfigManager = None
try:
    from megatron.training.arguments import parse_args
except ImportError:
    parse_args = None

if deepspeed is None and ConfigManager is None and parse_args is None:
    print("skipped: neither deepspeed nor torchtitan nor Megatron-LM is installed")
    sys.exit(77)

PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", str(Path(__file__).resolve().parents[2] / "build" / "lockstep"))


class World:
    """Ranks that DeepSpeed asks for."""

    ranks = 1
    get_rank = staticmethod(lambda: 0)

    @classmethod
    def get_world_size(cls, group=None):
        return cls.ranks


def winner(system, model, machine, gpus, batch, seq):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "winner"
        words = ["plan", "search", model, machine, "--gpus", str(gpus), "--global-batch", str(batch), "--seq", str(seq),
                 "--system", system, "--out", str(out), "--json"]
        answer = json.loads(subprocess.run([PROGRAM, *words], check=True, capture_output=True, text=True).stdout)
        settings = dict(setting.split("=", 1) for setting in answer["best"][0]["settings"])
        return out.read_text(), settings


# Model, machine, devices, samples of a step, positions: small memories offload and run blocks again, large ones do not.
CASES = [("gpt2_xl", "a100", 8, 64, 1024), ("llama3_8B", "h100", 16, 128, 4096), ("llama3_8B", "rtx4090", 8, 64, 2048),
         ("qwen3_32B", "a100", 32, 256, 4096), ("llama3_70B", "h100", 64, 512, 8192), ("gpt2", "v100", 4, 32, 1024)]


class ExportedTest(unittest.TestCase):
    @unittest.skipIf(deepspeed is None, "deepspeed is not installed")
    def test_deepspeed_takes_its_file(self):
        deepspeed.dist = World
        for case in CASES:
            with self.subTest(case=case):
                text, settings = winner("deepspeed", *case)
                World.ranks = case[2]
                read = deepspeed.DeepSpeedConfig(json.loads(text))
                self.assertEqual(read.train_batch_size, case[3])
                self.assertEqual(read.train_micro_batch_size_per_gpu, int(settings["model.batch_size"]))
                self.assertEqual(read.gradient_accumulation_steps, int(settings["optimizer.gas"]))
                self.assertEqual(int(read.zero_config.stage), int(settings["memory.zero"]))
                self.assertTrue(read.zero_config.overlap_comm)
                self.assertTrue(read.bfloat16_config.enabled)
                offload = read.zero_config.offload_optimizer
                place = settings.get("memory.offload_optimizer", "none")
                self.assertEqual(offload.device if offload else "none", place)
                if settings["memory.recompute"] == "full":
                    self.assertGreater(read.activation_checkpointing_config.number_checkpoints, 0)

    @unittest.skipIf(ConfigManager is None, "torchtitan is not installed")
    def test_torchtitan_takes_its_arguments(self):
        for case in CASES:
            with self.subTest(case=case):
                text, settings = winner("torchtitan", *case)
                read = ConfigManager().parse_args(text.split())
                self.assertEqual(read.training.global_batch_size, case[3])
                self.assertEqual(read.training.seq_len, case[4])
                degrees = read.parallelism
                self.assertEqual(degrees.data_parallel_replicate_degree * degrees.data_parallel_shard_degree,
                                 int(settings["parallel.dp"]))
                self.assertEqual(degrees.tensor_parallel_degree, int(settings.get("parallel.tp", 1)))
                self.assertEqual(degrees.pipeline_parallel_degree, int(settings.get("parallel.pp", 1)))
                self.assertEqual(read.activation_checkpoint.mode, settings["memory.recompute"])
                self.assertTrue(read.compile.enable)

    @unittest.skipIf(parse_args is None, "Megatron-LM's parser is not installed")
    def test_megatron_takes_its_arguments(self):
        for case in CASES:
            with self.subTest(case=case):
                text, settings = winner("megatron", *case)
                sys.argv = ["pretrain_gpt.py", *text.replace('"', "").split()]
                read = parse_args()
                self.assertEqual(read.global_batch_size, case[3])
                self.assertEqual(read.seq_length, case[4])
                self.assertEqual(read.micro_batch_size, int(settings["model.batch_size"]))
                self.assertEqual(read.tensor_model_parallel_size, int(settings.get("parallel.tp", 1)))
                self.assertEqual(read.pipeline_model_parallel_size, int(settings.get("parallel.pp", 1)))
                self.assertEqual(read.use_distributed_optimizer, int(settings["memory.zero"]) > 0)
                self.assertTrue(read.bf16)


if __name__ == "__main__":
    unittest.main()
