#!/usr/bin/python3
"""Two schedulers share their workers, and outlive each other.

    bazel build //tests/e2e:peers_test
    tests/e2e/peers.py --rounds 3 --stops 1

Starts simulated workers and two schedulers with --peers, and clients that ask
both of them all the time. Then, in every round,

  kill     one scheduler gets SIGKILL: within 6 s the other has all workers
  return   it is started again: the other gives the surplus back, drained
  leave    it gets SIGTERM: its streams end well, the workers move at once
  return   as above

and at last, `--stops` times, one is stopped and goes on (SIGSTOP, SIGCONT). The
schedulers change parts from round to round. Every request of the scheduler that
lives on must end well, with its undisturbed text, ids and logprobs; so must
those that run when one is told to leave. Both audits must be empty. Exits with 1
if anything of that fails.

Needs Debian's python3-grpcio. Run it from the root of the tree.
"""

import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True  # The folder may be a source tree.
# The build puts the stubs there, by the paths of the .proto files.
sys.path[:0] = ["tests/e2e/stubs", "bazel-bin/tests/e2e/stubs", "tests/e2e"]
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc
from drawn_requests import draw_requests
from fleet import FleetError, Worker, free_port, wait_until
from proto import bole_pb2, bole_pb2_grpc
from services import MODEL, SCHEDULER, built, series_of
from streams import Clients

SIM_WORKER = "tests/simulation/bole-sim-worker"
MOST_TOKENS, MOST_CHARACTERS = 160, 3000
# From the signal until the other scheduler has all workers. A killed scheduler
# is silent to its peer for 3 s; a stopped one to its workers for 5 s.
MOST_SECONDS = {"kill": 6, "stop": 8}
# Idle workers move at once, others when the last stream has ended.
MOST_LEAVE_SECONDS = 2.5
# A surplus is given back once the share was the same for 2 s, and drained.
MOST_RETURN_SECONDS = 15
# 15 ms a round.
COSTS = {"terms": [{"axes": [["draft_top_k", [1]]], "microseconds": [15000]}]}


class Scheduler(Worker):
    """One of those that share, started again and again at its address."""

    def __init__(self, address, peers, workers):
        self.address = address
        self._command = [
            built(SCHEDULER), "--model", MODEL, "--metrics-listen",
            "127.0.0.1:0", "--allow-synthetic"]
        for peer in peers:
            self._command += ["--peers", peer]
        for worker in workers:
            self._command += ["--worker", worker.address]
        self.start()

    def start(self):
        super().start()
        self._channel = grpc.insecure_channel(
            self.address, [("grpc.use_local_subchannel_pool", 1)])
        self.stub = bole_pb2_grpc.BoleServiceStub(self._channel)
        self.admin = bole_pb2_grpc.AdminStub(self._channel)

    def num_held(self):
        workers = self.admin.ListWorkers(bole_pb2.ListWorkersRequest(),
                                         timeout=30, wait_for_ready=True)
        return sum(w.connected for w in workers.workers)

    def num_running(self):
        return self.admin.GetLoad(bole_pb2.GetLoadRequest(),
                                  timeout=30).total.running_requests

    def metrics(self):
        return series_of(self.service.metrics())


class Pool:
    """Workers and two schedulers, killed at the end of a `with`."""

    def __init__(self, num_workers, folder):
        costs = pathlib.Path(folder, "costs.json")
        costs.write_text(json.dumps(COSTS), encoding="utf-8")
        self.workers, self.schedulers = [], []
        try:
            for _ in range(num_workers):
                self.workers.append(Worker([
                    built(SIM_WORKER), "--model", MODEL, "--costs", str(costs),
                    "--max-requests", "16", "--context", "4096"]))
            addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
            for address in addresses:
                self.schedulers.append(
                    Scheduler(address, addresses, self.workers))
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.schedulers + self.workers:
            process.kill()

    def held(self):
        return [s.num_held() for s in self.schedulers]

    def await_balance(self):
        """Until each has its share; how long that took."""
        num = len(self.workers)
        began = time.monotonic()
        wait_until(lambda: sorted(self.held()) == [num // 2, (num + 1) // 2],
                   MOST_RETURN_SECONDS, f"a share for each: {self.held()}")
        return time.monotonic() - began

    def await_all_at(self, scheduler, seconds, began):
        wait_until(lambda: scheduler.num_held() == len(self.workers),
                   began + seconds - time.monotonic(),
                   f"{scheduler.address} to have all workers; it has "
                   f"{scheduler.num_held()}")
        return time.monotonic() - began

    def check(self):
        for scheduler in self.schedulers:
            problems = scheduler.admin.Audit(bole_pb2.AuditRequest(),
                                             timeout=30).problems
            if problems:
                raise FleetError(f"{scheduler.address}: {problems}")


class Streams:
    """Requests that are under way when their scheduler is told to leave."""

    def __init__(self, clients, scheduler, count):
        self._clients = Clients(scheduler.stub, clients.requests, count, 0)
        self._clients.expected = clients.expected
        self.failures = self._clients.failures
        self._threads = [
            threading.Thread(target=self._clients.ask_and_compare,
                             args=(i, 1, "while its scheduler leaves"))
            for i in range(count)]
        for thread in self._threads:
            thread.start()

        def run():
            return scheduler.num_running() == count

        wait_until(run, 30, "the streams to run")

    def join(self):
        for thread in self._threads:
            thread.join()


class Test:
    def __init__(self, pool, options):
        self.pool = pool
        requests = draw_requests(options.seed, options.requests, MOST_TOKENS,
                                 MOST_CHARACTERS)
        # Long enough to be under way when the signal comes.
        for request in requests[:options.clients]:
            request.sampling_params.max_tokens = MOST_TOKENS
            request.sampling_params.ignore_eos = True
            del request.sampling_params.stop[:]
        self.clients = [Clients(s.stub, requests, options.clients, i)
                        for i, s in enumerate(pool.schedulers)]
        self.clients[0].record()
        self.clients[1].expected = self.clients[0].expected
        self.failures = []
        self.times = {}

    def note(self, what, seconds):
        self.times.setdefault(what, []).append(seconds)
        print(f"{what:6} {seconds:5.2f} s", flush=True)

    def count_failures(self, clients):
        self.failures += [f"{what} ({count} times)" for what, count
                          in clients.failures.most_common(20)]
        clients.failures.clear()

    def kill(self, victim):
        """Its peer has all workers soon, and does not notice anything else."""
        other = self.pool.schedulers[1 - victim]
        for clients in self.clients:
            clients.start(len(self.times))
        time.sleep(1)
        began = time.monotonic()
        self.pool.schedulers[victim].kill()
        self.clients[victim].stop()
        self.clients[victim].failures.clear()  # Its requests died with it.
        seconds = self.pool.await_all_at(other, MOST_SECONDS["kill"], began)
        time.sleep(0.5)
        self.clients[1 - victim].stop()
        self.count_failures(self.clients[1 - victim])
        return seconds

    def come_back(self, victim):
        """The other one gives back what it has too much, under load."""
        clients = self.clients[1 - victim]
        clients.start(len(self.times))
        time.sleep(0.5)
        self.pool.schedulers[victim].start()
        self.clients[victim].stub = self.pool.schedulers[victim].stub
        seconds = self.pool.await_balance()
        clients.stop()
        self.count_failures(clients)
        return seconds

    def leave(self, victim):
        """What it runs ends well, and what it does not need moves at once."""
        scheduler = self.pool.schedulers[victim]
        other = self.pool.schedulers[1 - victim]
        self.clients[1 - victim].start(len(self.times))
        streams = Streams(self.clients[0], scheduler, self.clients[0].count)
        scheduler.service.terminate()
        streams.join()
        began = time.monotonic()
        if scheduler.service.wait() != 0:
            raise FleetError(f"{scheduler.address} ended badly")
        seconds = self.pool.await_all_at(other, MOST_LEAVE_SECONDS, began)
        self.clients[1 - victim].stop()
        self.count_failures(self.clients[1 - victim])
        self.count_failures(streams)
        scheduler.kill()
        return seconds

    def stop(self, victim):
        scheduler = self.pool.schedulers[victim]
        other = self.pool.schedulers[1 - victim]
        self.clients[1 - victim].start(len(self.times))
        began = time.monotonic()
        scheduler.send(signal.SIGSTOP)
        seconds = self.pool.await_all_at(other, MOST_SECONDS["stop"], began)
        scheduler.send(signal.SIGCONT)
        self.note("stop", seconds)
        seconds = self.pool.await_balance()
        self.clients[1 - victim].stop()
        self.count_failures(self.clients[1 - victim])
        return seconds


def run(options, folder):
    with Pool(options.workers, folder) as pool:
        print(f"a share for each after {pool.await_balance():.2f} s", flush=True)
        test = Test(pool, options)
        for number in range(options.rounds):
            victim = number % 2
            test.note("kill", test.kill(victim))
            test.note("return", test.come_back(victim))
            pool.check()
            test.note("leave", test.leave(victim))
            test.note("return", test.come_back(victim))
            pool.check()
        for number in range(options.stops):
            test.note("return", test.stop(number % 2))
            pool.check()
        series = pool.schedulers[0].metrics()
        if series['bole_schedulers{state="living"}'] != 2:
            raise FleetError(f"it does not see its peer: {series}")
        ended = sum(c.ended for c in test.clients)
    print(f"{ended} requests ended")
    return test.failures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--stops", type=int, default=0)
    parser.add_argument("--clients", type=int, default=6,
                        help="of each scheduler")
    parser.add_argument("--requests", type=int, default=24,
                        help="that clients choose from")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            failures = run(options, folder)
        except (FleetError, OSError, RuntimeError, grpc.RpcError) as error:
            failures = [f"{type(error).__name__}: {error}"]
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
