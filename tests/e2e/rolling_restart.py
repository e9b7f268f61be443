#!/usr/bin/python3
"""Restarts every worker, then the scheduler, one after the other under load.

    bazel build //tests/e2e:kill_workers_test //clients/cli:bole
    tests/e2e/rolling_restart.py
    tests/e2e/rolling_restart.py --schedulers 2
    tests/e2e/rolling_restart.py --workers 2 --schedulers 2 --chart --seconds 90

Each gets SIGTERM, ends, and is started again at its address, while `bole bench`
sends requests to each scheduler all the time, and again what was refused or
broke. Several schedulers share the workers. Passes if every request ended well,
with the tokens that it gets when nothing is restarted, and nothing is left in the
schedulers.

With --chart each waits, drains and is killed by the times of deploy/helm/bole. A
cluster sends no new requests to what waits for SIGTERM; here they still come.

Needs Debian's python3-grpcio. Run it from the root of the tree.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import yaml

sys.dont_write_bytecode = True  # The folder may be a source tree.
# The build puts the stubs there, by the paths of the .proto files.
sys.path[:0] = ["tests/e2e/stubs", "bazel-bin/tests/e2e/stubs", "tests/e2e"]
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc
from fleet import FleetError, Worker, free_port, wait_until, what_is_held
from proto import bole_pb2, bole_pb2_grpc
from services import MODEL, SCHEDULER, WORKER, built

BOLE = "clients/cli/bole"
CHART = "deploy/helm/bole/values.yaml"
# Before the first restart, between two, and after the last.
PAUSE_SECONDS = 3


class Times:
    """How long what is to end waits before SIGTERM, and then has until it is
    killed; and the flags that tell it so."""

    def __init__(self, of_chart=None):
        self.before, self.within, self.flags = 0, 60, []
        if of_chart is not None:
            drain = of_chart["drainSeconds"]
            self.before = of_chart["preStopSeconds"]
            self.within = drain + 15  # As the chart's grace period.
            self.flags = [f"--drain-seconds={drain}"]


def times_of(options):
    """Those of a worker, and of a scheduler."""
    if not options.chart:
        return Times(), Times()
    values = yaml.safe_load(pathlib.Path(CHART).read_text(encoding="utf-8"))
    return Times(values["poolDefaults"]), Times(values["scheduler"])


def worker_command(times):
    return [built(WORKER), "--model", MODEL, "--device", "cpu", "--threads",
            "1", "--max-requests", "16", "--context", "1024", *times.flags]


class Scheduler(Worker):
    """One at `address` that shares the workers with those at `peers`."""

    def __init__(self, address, peers, workers, times):
        self.address = address
        self._command = [built(SCHEDULER), "--model", MODEL, *times.flags]
        for peer in peers:
            self._command += ["--peers", peer]
        for worker in workers:
            self._command += ["--worker", worker.address]
        self.start()

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


def bench_command(address, report, *how):
    return [built(BOLE), "bench", "--server", address, "--synthetic", "64:48",
            "--temperature", "0", "--out", str(report), *how]


def outputs_of(report):
    """{a request: the digest of its tokens}."""
    return {(row["instance"], row["turn"]): row["output_sha256"]
            for row in report["requests"] if row["status"] == "OK"}


def read(report):
    return json.loads(report.read_text(encoding="utf-8"))


class Restarts:
    """Schedulers and their workers, killed at the end of a `with`."""

    def __init__(self, options):
        self.options = options
        self.worker_times, self.scheduler_times = times_of(options)
        self.services = []

    def __enter__(self):
        for _ in range(self.options.workers):
            self.services.append(Worker(worker_command(self.worker_times)))
        workers = list(self.services)
        addresses = [f"127.0.0.1:{free_port()}"
                     for _ in range(self.options.schedulers)]
        peers = addresses if self.options.schedulers > 1 else []
        for address in addresses:
            self.services.append(Scheduler(address, peers, workers,
                                           self.scheduler_times))
        return self

    def __exit__(self, *_):
        for service in self.services:
            service.kill()

    @property
    def schedulers(self):
        return self.services[self.options.workers:]

    def await_all(self):
        """Until all workers are there, and every scheduler has its share."""
        least = self.options.workers // self.options.schedulers

        def are_shared():
            held = [s.num_connected() for s in self.schedulers]
            return sum(held) == self.options.workers and min(held) >= least

        wait_until(are_shared, 60, "all workers")

    def restart(self, service):
        """How long it took to end."""
        times = (self.scheduler_times if service in self.schedulers
                 else self.worker_times)
        time.sleep(times.before)
        began = time.monotonic()
        service.service.terminate()
        code = service.service.process.wait(timeout=times.within)
        seconds = time.monotonic() - began
        if code != 0:
            raise FleetError(f"{service.address} ended with {code}")
        service.start()
        self.await_all()
        return seconds


def check_idle(scheduler):
    with scheduler.admin() as admin:
        wait_until(lambda: not what_is_held(admin), 30, "idle")
        problems = admin.Audit(bole_pb2.AuditRequest()).problems
    if problems:
        raise FleetError(f"something is left: {problems}")


def count_other_outputs(disturbed, address, folder):
    """How many requests of the reports `disturbed` got other tokens than they
    get when nobody disturbs them, nor sends all of them at once."""
    outputs = [outputs_of(report) for report in disturbed]
    count = max(instance for of in outputs for instance, _ in of) + 1
    path = pathlib.Path(folder, "undisturbed.json")
    subprocess.run(bench_command(address, path, "--concurrency", "8",
                                 "-n", str(count)),
                   stdout=subprocess.DEVNULL, check=True)
    want = outputs_of(read(path))
    return sum(want[request] != got for of in outputs
               for request, got in of.items())


def run(options, folder):
    """What `bole bench` reports of each scheduler, and how many requests had
    other tokens than they should."""
    reports = []
    with Restarts(options) as fleet, contextlib.ExitStack() as loads:
        fleet.await_all()
        benches = []
        for scheduler in fleet.schedulers:
            reports.append(pathlib.Path(folder, f"{len(reports)}.json"))
            benches.append(loads.enter_context(subprocess.Popen(
                bench_command(scheduler.address, reports[-1], "--rate",
                              str(options.rate), "--duration",
                              str(options.seconds), "-n", "1000000",
                              "--retries", "200"),
                stdout=subprocess.DEVNULL)))
        time.sleep(PAUSE_SECONDS)
        for service in fleet.services:
            seconds = fleet.restart(service)
            kind = ("scheduler" if service in fleet.schedulers else "worker")
            print(f"{kind} {service.address} ended within {seconds:.1f} s "
                  "and is back", flush=True)
            if any(bench.poll() is not None for bench in benches):
                raise FleetError("the load ended before the restarts: "
                                 "--seconds is too short")
            time.sleep(PAUSE_SECONDS)
        for bench in benches:
            bench.wait(timeout=options.seconds + 120)
        for scheduler in fleet.schedulers:
            check_idle(scheduler)
        reports = [read(report) for report in reports]
        return reports, count_other_outputs(
            reports, fleet.schedulers[0].address, folder)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=3,
                        help="requests per second to each scheduler")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--schedulers", type=int, default=1)
    parser.add_argument("--chart", action="store_true",
                        help=f"the times of {CHART}")
    parser.add_argument("--seconds", type=float, default=60,
                        help="how long requests are sent")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            reports, num_other = run(options, folder)
        except (FleetError, OSError, subprocess.SubprocessError,
                grpc.RpcError) as error:
            print(f"FAILED: {type(error).__name__}: {error}")
            return 1
    counts = collections.Counter()
    for report in reports:
        counts.update(report["counts"])
        for reason, count in report["failures"].items():
            print(f"FAILED: {reason} ({count} times)")
    print(f"{counts['requests']} requests, {counts['succeeded']} ended well, "
          f"{counts['retries']} retries, {counts['resumes']} resumed, "
          f"{num_other} with other tokens than undisturbed")
    well = counts["succeeded"] == counts["requests"] > 0 and num_other == 0
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
