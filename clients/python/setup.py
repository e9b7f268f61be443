"""Builds the package: pyproject.toml, and the stubs of the protocol.

The stubs are written by protoc and grpc_python_plugin from the .proto files of
the tree, and are not kept in it.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUBS = pathlib.Path("bole", "_proto")
# google.rpc gets a name of our own: a process may have the same messages from
# googleapis-common-protos, and protobuf knows each name once.
SOURCES = {
    "proto/bole.proto": None,
    "third_party/googleapis/google/rpc/status.proto": "google.rpc",
    "third_party/googleapis/google/rpc/error_details.proto": "google.rpc",
}


def version() -> str:
    text = (ROOT / "common" / "version.h").read_text(encoding="utf-8")
    found = re.search(r'kVersion\[\] = "([^"]+)"', text)
    if found is None:
        raise RuntimeError("common/version.h has no kVersion")
    return found[1]


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise RuntimeError(f"{name} is not installed: on Debian it is in "
                           "protobuf-compiler or protobuf-compiler-grpc")
    return path


def write_stubs(out: pathlib.Path) -> None:
    """Writes bole/_proto into the folder `out`."""
    with tempfile.TemporaryDirectory() as temporary:
        sources = pathlib.Path(temporary)
        (sources / STUBS).mkdir(parents=True)
        names = []
        for path, package in SOURCES.items():
            text = (ROOT / path).read_text(encoding="utf-8")
            if package is not None:
                text = text.replace(f"package {package};",
                                    "package bole.sdk.rpc;")
            names.append(str(STUBS / pathlib.Path(path).name))
            (sources / names[-1]).write_text(text, encoding="utf-8")
        subprocess.run(
            [program("protoc"), f"-I{sources}", f"--python_out={out}",
             f"--grpc_out={out}",
             f"--plugin=protoc-gen-grpc={program('grpc_python_plugin')}",
             *names],
            check=True)
    (out / STUBS / "__init__.py").write_text("", encoding="utf-8")


class BuildWithStubs(build_py):
    """Writes what is not in the tree into the folder of the build."""

    def run(self) -> None:
        super().run()
        out = pathlib.Path(self.build_lib)
        write_stubs(out)
        shutil.copy(ROOT / "LICENSE", out / "bole")


setup(version=version(), cmdclass={"build_py": BuildWithStubs})
