"""scripts/package-wheel: a wheel of a small tree, and what scripts/package refuses."""

import base64
import csv
import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

scripts = Path(__file__).resolve().parents[2] / "scripts"


class Wheel(unittest.TestCase):
    def setUp(self) -> None:
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)

    def tearDown(self) -> None:
        self.temporary.cleanup()

    def make(self, out: str) -> Path:
        tree = self.folder / "tree"
        for part in ("bin", "lib/lockstep", "share/lockstep/configs", "share/doc/lockstep"):
            (tree / part).mkdir(parents=True, exist_ok=True)
        shutil.copy(shutil.which("true"), tree / "bin/lockstep")
        (tree / "share/lockstep/configs/first.toml").write_text("[data]\n")
        (tree / "share/doc/lockstep/third-party-licences").write_text("theirs\n")
        (self.folder / out).mkdir()
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        subprocess.run([scripts / "package-wheel", tree, "1.2.3", self.folder / out], env=environment, check=True)
        (wheel,) = (self.folder / out).iterdir()
        return wheel

    def test_its_list_names_every_file_and_its_digest(self) -> None:
        path = self.make("out")
        self.assertRegex(path.name, r"^lockstep_train-1\.2\.3-py3-none-manylinux_2_[0-9]+_[a-z0-9_]+\.whl$")
        with zipfile.ZipFile(path) as wheel:
            listed = list(csv.reader(wheel.read("lockstep_train-1.2.3.dist-info/RECORD").decode().splitlines()))
            self.assertEqual([name for name, _, _ in listed], wheel.namelist())
            for name, digest, size in listed[:-1]:
                data = wheel.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), (f"sha256={expected}", len(data)))
            program = "lockstep_train-1.2.3.data/scripts/lockstep"
            self.assertEqual(wheel.getinfo(program).external_attr >> 16 & 0o111, 0o111)
            recipe = "lockstep_train-1.2.3.data/data/share/lockstep/configs/first.toml"
            for name in ("lockstep/__init__.py", "lockstep/py.typed", "lockstep_dump.py", "lockstep_dump_names.py", recipe):
                self.assertIn(name, wheel.namelist())
            self.assertIn("Requires-Python: >=3.9", wheel.read("lockstep_train-1.2.3.dist-info/METADATA").decode())

    def test_the_same_tree_makes_the_same_bytes(self) -> None:
        self.assertEqual(self.make("one").read_bytes(), self.make("two").read_bytes())

    def refused(self, program: Path) -> str:
        words = [scripts / "package", program, self.folder / "packages"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertFalse((self.folder / "packages").exists())
        return done.stderr

    def test_a_program_that_is_missing_is_named(self) -> None:
        self.assertIn("none is missing: make builds it", self.refused(self.folder / "none"))

    @unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "dpkg-dev is not installed")
    def test_a_program_that_needs_more_than_the_runtime_is_refused(self) -> None:
        self.assertIn("is linked with libselinux", self.refused(Path(os.path.realpath(shutil.which("ls")))))


if __name__ == "__main__":
    unittest.main()
