#!/usr/bin/python3
"""Restarts every worker, then the scheduler, one after the other under load.

    bazel build //tests/e2e:kill_workers_test //clients/cli:bole
    tests/e2e/rolling_restart.py

Each gets SIGTERM, ends, and is started again at its address, while `bole bench`
sends requests all the time, and again what was refused or broke. Passes if every
request ended well, and nothing is left in the scheduler.

Needs Debian's python3-grpcio. Run it from the root of the tree.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # The folder may be a source tree.
# The build puts the stubs there, by the paths of the .proto files.
sys.path[:0] = ["tests/e2e/stubs", "bazel-bin/tests/e2e/stubs", "tests/e2e"]
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc
from fleet import FleetError, Worker, wait_until, what_is_held
from proto import bole_pb2, bole_pb2_grpc
from services import MODEL, SCHEDULER, WORKER, built

BOLE = "clients/cli/bole"
NUM_WORKERS = 3
# Before the first restart, between two, and after the last.
PAUSE_SECONDS = 3


def worker_command():
    return [built(WORKER), "--model", MODEL, "--device", "cpu", "--threads",
            "1", "--max-requests", "16", "--context", "1024"]


def scheduler_command(workers):
    command = [built(SCHEDULER), "--model", MODEL]
    for worker in workers:
        command += ["--worker", worker.address]
    return command


def bench_command(address, options, report):
    return [built(BOLE), "bench", "--server", address, "--synthetic", "64:48",
            "--rate", str(options.rate), "--duration", str(options.seconds),
            "-n", "1000000", "--retries", "200", "--out", report]


class Restarts:
    """A scheduler and its workers, killed at the end of a `with`."""

    def __init__(self):
        self.services = []

    def __enter__(self):
        for _ in range(NUM_WORKERS):
            self.services.append(Worker(worker_command()))
        self.services.append(Worker(scheduler_command(self.services)))
        return self

    def __exit__(self, *_):
        for service in self.services:
            service.kill()

    @property
    def address(self):
        return self.services[-1].address

    @contextlib.contextmanager
    def admin(self):
        with grpc.insecure_channel(self.address) as channel:
            grpc.channel_ready_future(channel).result(timeout=10)
            yield bole_pb2_grpc.AdminStub(channel)

    def num_connected(self):
        with self.admin() as admin:
            workers = admin.ListWorkers(bole_pb2.ListWorkersRequest(),
                                        timeout=10).workers
            return sum(w.connected for w in workers)

    def await_all(self):
        wait_until(lambda: self.num_connected() == NUM_WORKERS, 60,
                   "all workers")

    def restart(self, service):
        """How long it took to end."""
        began = time.monotonic()
        service.service.terminate()
        code = service.service.wait()
        seconds = time.monotonic() - began
        if code != 0:
            raise FleetError(f"{service.address} ended with {code}")
        service.start()
        self.await_all()
        return seconds


def run(options, report):
    with Restarts() as fleet:
        fleet.await_all()
        with subprocess.Popen(bench_command(fleet.address, options, report),
                              stdout=subprocess.DEVNULL) as bench:
            time.sleep(PAUSE_SECONDS)
            for service in fleet.services:
                seconds = fleet.restart(service)
                kind = ("scheduler" if service is fleet.services[-1]
                        else "worker")
                print(f"{kind} {service.address} ended within {seconds:.1f} s "
                      "and is back", flush=True)
                if bench.poll() is not None:
                    raise FleetError("the load ended before the restarts: "
                                     "--seconds is too short")
                time.sleep(PAUSE_SECONDS)
            bench.wait(timeout=options.seconds + 120)
        with fleet.admin() as admin:
            wait_until(lambda: not what_is_held(admin), 30, "idle")
            problems = admin.Audit(bole_pb2.AuditRequest()).problems
    counts = json.loads(pathlib.Path(report).read_text(encoding="utf-8"))
    if problems:
        raise FleetError(f"something is left: {problems}")
    return counts


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=3,
                        help="requests per second")
    parser.add_argument("--seconds", type=float, default=60,
                        help="how long requests are sent")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            report = run(options, str(pathlib.Path(folder, "report.json")))
        except (FleetError, OSError, subprocess.TimeoutExpired,
                grpc.RpcError) as error:
            print(f"FAILED: {type(error).__name__}: {error}")
            return 1
    counts = report["counts"]
    print(f"{counts['requests']} requests, {counts['succeeded']} ended well, "
          f"{counts['retries']} retries, {counts['resumes']} resumed")
    for reason, count in report["failures"].items():
        print(f"FAILED: {reason} ({count} times)")
    return 0 if counts["succeeded"] == counts["requests"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
