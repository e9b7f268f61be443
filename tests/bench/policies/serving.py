"""Bole's programs out of a bundle, and loads on them."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/e2e"))

from services import Service

DEMO = str(ROOT / "models/demo")
LISTEN = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]


class Failure(Exception):
    """What is wrong with a program or its answer."""


def tokenizer_of(model):
    """--model of a scheduler. A synthetic model has no tokenizer; the demo
    model's will do, because prompts and answers are ids."""
    return f"{model}={DEMO}" if model.startswith("synthetic:") else model


class Bundle:
    """The programs of DIR/bin with the libraries of DIR/lib (deploy/bundle.sh)."""

    def __init__(self, folder):
        self.bin = pathlib.Path(folder).resolve() / "bin"
        if not (self.bin / "bole-worker").exists():
            raise Failure(f"there is no program {self.bin / 'bole-worker'}")
        os.environ["LD_LIBRARY_PATH"] = ":".join(filter(
            None, [str(self.bin.parent / "lib"),
                   os.environ.get("LD_LIBRARY_PATH")]))

    def program(self, name):
        return str(self.bin / name)

    def call(self, *command, timeout=600):
        """Standard output of a program of the bundle."""
        done = subprocess.run(
            [self.program(command[0]), *command[1:]], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, timeout=timeout)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)} ended with {done.returncode}: "
                          f"{done.stderr.strip()[-600:]}")
        return done.stdout

    @contextlib.contextmanager
    def running(self, program, *flags):
        """A service, ended with SIGTERM at the end of a `with`."""
        service = Service(self.program(program), *flags, *LISTEN)
        try:
            yield service
            service.terminate()
            code = service.wait()
            if code != 0:
                raise Failure(f"{program} ended with {code}")
        finally:
            service.kill()

    def worker(self, model, device, *flags):
        return self.running("bole-worker", "--model", model, "--device", device,
                            *flags)

    @contextlib.contextmanager
    def scheduler(self, model, worker, *flags):
        """A scheduler of `worker`, once it is ready."""
        with self.running("bole-scheduler", "--allow-synthetic", "--model",
                          tokenizer_of(model), "--worker", worker.address,
                          *flags) as scheduler:
            self.call("bole", "health", "--server", scheduler.address, "--wait",
                      "60")
            yield scheduler

    def calibrate(self, model, device, table, *flags, worker_flags=()):
        """Measures a worker of its own, unless `table` is there already."""
        if os.path.exists(table):
            return
        print(f"calibrating {model}", flush=True)
        with self.worker(model, device, *worker_flags) as worker:
            self.call("bole-calibrate", "--worker", worker.address, "--out",
                      table + ".new", *flags, timeout=580)
        os.rename(table + ".new", table)

    def bench(self, scheduler, load, requests, sessions, *flags):
        """The report of `bole bench` on a closed loop: the JSON without the
        single requests."""
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            self.call("bole", "bench", "--server", scheduler.address,
                      "--synthetic", load, "--concurrency", str(requests),
                      "--sessions", str(sessions), "--temperature", "0.2",
                      "--out", out.name, *flags)
            report = json.load(open(out.name))
        del report["requests"]
        if report["counts"]["succeeded"] != report["counts"]["requests"]:
            raise Failure(f"not all requests ended well: {report['failures']}")
        return report
