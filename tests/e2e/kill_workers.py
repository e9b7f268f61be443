#!/usr/bin/python3
"""Streams outlive the machines under them.

    bazel build //tests/e2e:kill_workers_test
    tests/e2e/kill_workers.py --kills 100
    tests/e2e/kill_workers.py --kills 100 --workers simulated
    tests/e2e/kill_workers.py --kills 20 --workers ranks

Starts three workers and a scheduler, and clients that ask for texts of all
kinds, half of them for two choices of each. An undisturbed run records every
answer. Then workers with at least four requests are lost, again and again, half
of the times while half of the requests or more are in their prefill, and are
started anew at the same address:

  demo       workers of models/demo: SIGKILL and SIGSTOP in turn
  ranks      workers of models/demo whose two ranks are processes: SIGKILL and
             SIGSTOP, in turn, of the second rank, upon which the worker ends by
             itself, in time, and says why
  simulated  bole-sim-worker: it crashes, hangs, returns garbage or is far too
             slow in the round after a signal, which may lie within a lease

Every choice must end well with its undisturbed text, ids, finish reason and
logprobs, and say nothing twice, the scheduler's audit must be empty at every
look, all slots and pages must be free whenever nothing runs, and the scheduler
must not grow. Exits with 1 if anything of that fails.

Needs Debian's python3-grpcio. Run it from the root of the tree.
"""

import argparse
import collections
import functools
import json
import os
import pathlib
import random
import re
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # The folder may be a source tree.
# The build puts the stubs there, by the paths of the .proto files.
sys.path[:0] = ["tests/e2e/stubs", "bazel-bin/tests/e2e/stubs", "tests/e2e"]
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
# AddressSanitizer holds back what is freed, which looks like growth.
os.environ["ASAN_OPTIONS"] = (
    os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1")

import grpc
from drawn_requests import draw_requests
from fleet import Fleet, FleetError, Worker, wait_until
from services import MODEL, WORKER, built, runs
from streams import Clients

SIM_WORKER = "tests/simulation/bole-sim-worker"
NUM_WORKERS = 3
LEAST_RUNNING = 4
# A kill waits this long for the right moment; after that, any moment will do.
AIM_SECONDS = 3
# Clients may be this far behind in reading what the scheduler has sent.
READ_SECONDS = 0.2
# Memory is returned in whole pages, over which the blocks of some dozen threads
# are spread by chance; this amounts to some MB in e2e_soak_test. Depending on
# the load, gRPC keeps a few threads, and descriptors of what just ended. A
# leak at every kill would exceed these bounds after the 80 of 100 kills that
# follow the warm-up.
MOST_GROWTH_KB = 16_000
MOST_MORE_THREADS = 12
MOST_MORE_DESCRIPTORS = 16

SIZES = ["--max-requests", "16", "--context", "4096", "--heartbeat-ms", "100"]


class KilledWorker(Worker):
    """One that a signal ends, or stops until the scheduler gives it up."""

    most_tokens, most_characters = 48, 1500
    # A stopped worker is detected by its silence. On two busy cores, all three
    # workers were silent for 1.5 s at once, with none left to go to.
    scheduler_flags = ["--worker-timeout-ms", "4000",
                       "--round-timeout-ms", "30000"]

    def __init__(self, _number, _rng, _folder):
        super().__init__([
            built(WORKER), "--model", MODEL, "--device", "cpu", "--threads",
            "1", "--max-prefill", "192", *SIZES])

    def strike(self, number):
        """Returns what was done."""
        # In prefill as well as outside of it, half are killed and half stopped.
        name = ["SIGKILL", "SIGSTOP"][number // 2 % 2]
        self.send(getattr(signal, name))
        return name

    def recover(self):
        self.kill()
        self.start()


class RankWorker(KilledWorker):
    """One of two processes, of which the second is killed or stopped."""

    # The time until the first process has ended. A rank that is gone is noticed
    # at once, and one that does not respond after 5 s. After that, a step has
    # half a second to report it, and the scheduler 0.3 s to receive the report.
    most_seconds = {"SIGKILL": 2, "SIGSTOP": 7}
    # How much a busy machine may add.
    slack_seconds = 3
    says = {"SIGKILL": r"rank 1 of 2 \(process \d+\) was killed by signal 9",
            "SIGSTOP": r"rank 1 of 2 (did not come to call \d+|gave no result "
                       r"for round \d+|did not finish) within 5000 ms"}

    def __init__(self, number, rng, folder):
        self._log = pathlib.Path(folder, f"worker{number}.log")
        super().__init__(number, rng, folder)

    def start(self):
        self.flags = ["--ranks", "2", "--rank-processes"]
        with open(self._log, "wb") as log:
            self.how = {"stderr": log}
            super().start()

    def strike(self, number):
        name = ["SIGKILL", "SIGSTOP"][number // 2 % 2]
        [rank] = self.service.children()
        began = time.monotonic()
        os.kill(rank, getattr(signal, name))
        code = self.service.process.wait(timeout=30)
        took = time.monotonic() - began
        said = self._log.read_text(encoding="utf-8")
        most = self.most_seconds[name] + self.slack_seconds
        if code != 1 or took > most or not re.search(self.says[name], said):
            raise FleetError(f"{self.address} ended {took:.2f} s after {name} "
                             f"of a rank, with {code}: {said}")
        wait_until(lambda: not runs(rank), 2, f"the end of rank {rank}")
        print(f"     it ended {took:.2f} s after that, saying: "
              f"{said.strip().splitlines()[-1]}")
        return f"{name} of a rank"


class FaultyWorker(Worker):
    """One that fails by itself, each time in another way."""

    most_tokens, most_characters = 160, 5000
    scheduler_flags = ["--round-timeout-ms", "1000",
                       "--worker-timeout-ms", "5000"]
    # All rounds draft, and take 15 ms. A slow one is late even if its deadline
    # is extended by half for 512 tokens of prefill. It ends before the next
    # plan, which comes once the worker is connected again, is late.
    kinds = ["crash", "hang", "garbage", "slow:120"]
    costs = {"terms": [
        {"axes": [["draft_top_k", [1]]], "microseconds": [15000]}]}

    def __init__(self, number, rng, folder):
        # The first worker has so few pages that requests are evicted at times.
        pages = 400 if number else 75
        self._rng = rng
        self._costs = pathlib.Path(folder, "costs.json")
        self._costs.write_text(json.dumps(self.costs), encoding="utf-8")
        self._plan()

        super().__init__([
            built(SIM_WORKER), "--model", MODEL, "--max-prefill", "512",
            "--pages", str(pages), "--costs", str(self._costs), *SIZES])

    def _plan(self):
        """Draws what the next life brings, up to its end."""
        self._faults = [self._rng.choice(self.kinds)]
        while self._faults[-1] not in ("crash", "hang"):
            self._faults.append(self._rng.choice(self.kinds))
        self.flags = [flag for number, kind in enumerate(self._faults)
                      for flag in ("--fault", f"{kind}@signal")]

    def strike(self, _number):
        kind = self._faults.pop(0)
        said = len(self.service.output)
        self.send(signal.SIGUSR1)
        wait_until(lambda: len(self.service.output) > said, 30,
                   f"the fault {kind} of {self.address}")
        at = re.search(r"round (\d+) of (\d+)", self.service.output[said])
        where = " within a lease" if int(at[1]) > 1 else ""
        self._is_over = not self._faults
        return kind.split(":")[0] + where

    def recover(self):
        if not self._is_over:
            return
        self.kill()
        self._plan()
        self.start()


class Report:
    """What happened so far."""

    def __init__(self):
        self.began = time.monotonic()
        self.kinds = collections.Counter()
        self.in_prefill = 0  # Kills with half or more of them in prefill.
        self.failures = []

    def num_kills(self):
        return self.kinds.total()


def migrations(fleet):
    series = fleet.metrics()
    return {reason: int(series[f'bole_migrations_total{{reason="{reason}"}}'])
            for reason in ("lost", "evicted", "preempted", "drained")}


def choose(fleet, rng, in_prefill):
    """A worker with enough requests, and its load: half of them or more are in
    their prefill, or none."""
    found = []
    until = time.monotonic() + AIM_SECONDS

    def find():
        is_late = time.monotonic() > until
        found[:] = [
            (worker, load) for worker, load in fleet.loads()
            if load.running >= LEAST_RUNNING and (
                is_late or (2 * load.in_prefill >= load.running if in_prefill
                            else load.in_prefill == 0))]
        return bool(found)

    wait_until(find, 60, f"a worker with {LEAST_RUNNING} requests")
    return rng.choice(found)


def await_progress(fleet, clients):
    """Until two workers serve, and every request has had a token since the last
    loss: one that is lost twice without a token in between is ended."""
    def is_ready():
        return (fleet.num_connected() >= 2 and
                clients.unmoved_since(fleet.lost_at + READ_SECONDS) == 0)

    wait_until(is_ready, 120, "every request to go on")


def kill_one(fleet, clients, rng, report):
    number = report.num_kills()
    await_progress(fleet, clients)
    worker, load = choose(fleet, rng, in_prefill=number % 2 == 1)
    epoch = fleet.status_of(worker).epoch
    what = worker.strike(number)

    def is_lost():
        status = fleet.status_of(worker)
        return not status.connected or status.epoch != epoch

    wait_until(is_lost, 60, f"the scheduler to lose {worker.address} ({what})")
    worker.recover()
    report.kinds[what] += 1
    report.in_prefill += 2 * load.in_prefill >= load.running
    print(f"{number + 1:4} {what} of {worker.address}, {load.running:.0f} "
          f"running, {load.in_prefill:.0f} in prefill; {clients.ended} requests "
          f"ended, {migrations(fleet)['lost']} migrations", flush=True)


def disturb(fleet, clients, rng, report, kills, deadline):
    """Kills until there were so many, and lets what runs end."""
    clients.start(report.num_kills())
    try:
        while report.num_kills() < kills:
            if time.monotonic() > deadline:
                raise FleetError(f"out of time after {report.num_kills()} kills")
            kill_one(fleet, clients, rng, report)
    finally:
        clients.stop()
    fleet.await_idle()


def check_growth(before, after, report):
    for name, most in [("resident_kb", MOST_GROWTH_KB),
                       ("threads", MOST_MORE_THREADS),
                       ("descriptors", MOST_MORE_DESCRIPTORS)]:
        had, has = getattr(before, name), getattr(after, name)
        if has > had + most:
            report.failures.append(f"the scheduler's {name} grew from {had} to "
                                   f"{has}, by more than {most}")


def run(fleet, clients, options, report):
    """Returns what the table says."""
    rng = random.Random(f"kills {options.seed}")
    deadline = report.began + options.seconds_limit
    fleet.await_all()
    clients.record()
    if clients.failures:
        raise FleetError("the undisturbed run failed")
    recorded = clients.ended
    print(f"{recorded} answers recorded in "
          f"{time.monotonic() - report.began:.0f} s", flush=True)
    fleet.await_idle()
    disturb(fleet, clients, rng, report, max(options.kills // 5, 1), deadline)
    before = fleet.footprint()
    disturb(fleet, clients, rng, report, options.kills, deadline)
    after = fleet.footprint()
    check_growth(before, after, report)
    moved = migrations(fleet)
    if moved["lost"] < options.kills:
        report.failures.append(
            f"{moved['lost']} migrations of {options.kills} kills")
    return {
        "workers": options.workers,
        "seed": options.seed,
        "kills": dict(sorted(report.kinds.items())),
        "kills with half or more in prefill": report.in_prefill,
        "losses besides": fleet.num_losses - report.num_kills(),
        "requests, undisturbed": recorded,
        "longest prompt, in tokens": clients.longest_prompt(),
        "requests, disturbed": clients.ended - recorded,
        "requests, failed": clients.failures.total(),
        "migrations": moved,
        "scheduler after the warm-up": str(before),
        "scheduler at the end": str(after),
        "seconds": round(time.monotonic() - report.began),
    }


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--workers", choices=["demo", "ranks", "simulated"],
                        default="demo")
    parser.add_argument("--seed", type=int, default=1,
                        help="of requests, of whom is killed and when")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=64,
                        help="different ones, asked for again and again")
    parser.add_argument("--seconds-limit", type=int, default=1800,
                        help="fail if the kills are not over then")
    parser.add_argument("--json", metavar="FILE", help="where the table goes")
    options = parser.parse_args()
    if min(options.kills, options.clients, options.requests) < 1:
        parser.error("--kills, --clients and --requests are 1 or more")
    return options


def main():
    options = parse_options()
    # On SIGTERM this exits normally, which ends the started processes, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    kind = {"demo": KilledWorker, "ranks": RankWorker,
            "simulated": FaultyWorker}[options.workers]
    report = Report()
    table = {}
    rng = random.Random(f"faults {options.seed}")
    with tempfile.TemporaryDirectory() as folder, Fleet(
            [functools.partial(kind, number, rng, folder)
             for number in range(NUM_WORKERS)], kind.scheduler_flags) as fleet:
        clients = Clients(
            fleet.stub, draw_requests(options.seed, options.requests,
                                      kind.most_tokens, kind.most_characters),
            options.clients, options.seed)
        try:
            table = run(fleet, clients, options, report)
        except (FleetError, OSError, RuntimeError, grpc.RpcError) as error:
            report.failures.append(f"{type(error).__name__}: {error}")
        report.failures += [f"{what} ({count} times)" for what, count
                            in clients.failures.most_common(20)]
        report.failures += [f"audit: {audit}" for audit in fleet.audits]
    table["failures"] = report.failures
    print()
    for name, value in table.items():
        print(f"{name:36}{value if name != 'failures' else len(value)}")
    for failure in report.failures:
        print(f"FAILED: {failure}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(table, indent=1),
                                              encoding="utf-8")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
