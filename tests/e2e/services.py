"""Both services as processes of their own, on free ports."""

import os
import pathlib
import queue
import re
import signal
import subprocess
import threading
import time
import urllib.request

WORKER = "worker_service/bole-worker"
SCHEDULER = "scheduler_service/bole-scheduler"
MODEL = "models/demo"


def built(path):
    """Where a program of the build is: among a test's files, or by hand."""
    return path if os.path.exists(path) else os.path.join("bazel-bin", path)


def series_of(scrape):
    """{'name{label="x"}': value} of what metrics() returns."""
    found = re.findall(r"^(\w+(?:\{.*\})?) (\S+)$", scrape, re.MULTILINE)
    return {name: float(value) for name, value in found}


class Service:
    """A process that says on its standard output where it listens.
    Keyword arguments are those of subprocess.Popen."""

    def __init__(self, *command, **how):
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, **how)
        self.output = []
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address = None
        self.metrics_port = None
        self.http_port = None
        while self.address is None:
            line = self._lines.get(timeout=60)
            if line is None:
                raise RuntimeError(f"{command[0]} ended: {self.output}")
            if line.startswith("metrics on port "):
                self.metrics_port = int(line.split()[-1])
            elif line.startswith("http on port "):
                self.http_port = int(line.split()[-1])
            elif line.startswith("listening on "):
                self.address = line.split()[-1]

    def _read(self):
        for line in self.process.stdout:
            self.output.append(line)
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def metrics(self):
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.read().decode()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self):
        """The exit code."""
        return self.process.wait(timeout=60)

    def children(self):
        """The processes that it has started."""
        return sorted(pid for pid in map(int, filter(str.isdigit,
                                                     os.listdir("/proc")))
                      if stat_of(pid)[1] == self.process.pid)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()


class Services:
    """A worker and a scheduler, killed at the end of a `with`. Keyword arguments
    are the worker's, as Service takes them."""

    def __init__(self, worker_flags=(), scheduler_flags=(), **how):
        common = ["--model", MODEL, "--listen", "127.0.0.1:0",
                  "--metrics-listen", "127.0.0.1:0"]
        self.worker = Service(WORKER, *common, "--threads", "1", *worker_flags,
                              **how)
        try:
            self.scheduler = Service(SCHEDULER, *common, "--worker",
                                     self.worker.address, *scheduler_flags)
        except BaseException:
            self.worker.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.scheduler.kill()
        self.worker.kill()


def stat_of(pid):
    """The state of a process, and its parent; "X" and 0 if there is none."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return "X", 0
    state, parent = stat.rpartition(")")[2].split()[:2]
    return state, int(parent)


def runs(pid):
    """Whether there is such a process that has not ended."""
    return stat_of(pid)[0] not in "ZX"


def eventually(condition, seconds=30):
    """Whether `condition` holds within that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
