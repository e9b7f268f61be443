"""A scheduler and several workers as processes, some of which are killed."""

import os
import random
import socket
import time

import grpc

from proto import bole_pb2, bole_pb2_grpc
from services import MODEL, SCHEDULER, Service, built, eventually, series_of


class FleetError(Exception):
    """Why the fleet is not as it should be."""


def free_port():
    """Below those that the system gives to outgoing connections, so that it is
    free again when its worker is started anew."""
    while True:
        port = random.randint(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Worker:
    """A worker that is started again and again at the same address."""

    flags = []  # More of them, for the next start.
    how = {}  # More of how it is started, as Service takes it.

    def __init__(self, command):
        self.address = f"127.0.0.1:{free_port()}"
        self._command = command
        self.start()

    def start(self):
        self.service = Service(*self._command, *self.flags, "--listen",
                               self.address, **self.how)

    def send(self, number):
        self.service.process.send_signal(number)

    def kill(self):
        self.service.kill()  # Also if it is stopped.


class Load:
    """What runs on a worker, by the scheduler's metrics."""

    def __init__(self, series, address):
        def of(name, labels=""):
            return series[f'{name}{{{labels}worker="{address}"}}']

        self.in_prefill = of("bole_worker_requests", 'stage="prefill",')
        self.running = self.in_prefill + of("bole_worker_requests",
                                            'stage="decode",')


class Footprint:
    """What a process holds of the system."""

    def __init__(self, pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        self.resident_kb = int(fields["VmRSS"].split()[0])
        self.threads = int(fields["Threads"])
        self.descriptors = len(os.listdir(f"/proc/{pid}/fd"))

    def __str__(self):
        return (f"{self.resident_kb} KB resident, {self.threads} threads, "
                f"{self.descriptors} descriptors")


class Fleet:
    """Workers and their scheduler, killed at the end of a `with`."""

    def __init__(self, starts, scheduler_flags):
        """`starts`: what makes each Worker."""
        self.workers = []
        self.scheduler = None
        self.audits = set()  # What the scheduler found wrong with itself.
        self.lost_at = 0  # When it was last seen to have lost a worker.
        self.num_losses = 0
        self._seen = {}  # What it said last of every worker.
        try:
            for start in starts:
                self.workers.append(start())
            addresses = [flag for worker in self.workers
                         for flag in ("--worker", worker.address)]
            self.scheduler = Service(
                built(SCHEDULER), "--model", MODEL, "--listen", "127.0.0.1:0",
                "--metrics-listen", "127.0.0.1:0", *addresses,
                "--allow-synthetic", *scheduler_flags)
            self._channel = grpc.insecure_channel(self.scheduler.address)
            self.stub = bole_pb2_grpc.BoleServiceStub(self._channel)
            self.admin = bole_pb2_grpc.AdminStub(self._channel)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.scheduler is not None:
            self._channel.close()
            self.scheduler.kill()
        for worker in self.workers:
            worker.kill()

    def audit(self):
        """Takes note of what the scheduler finds wrong with itself."""
        audit = self.admin.Audit(bole_pb2.AuditRequest(), timeout=30)
        self.audits.update(f"{problem.worker}: {problem.text}"
                           for problem in audit.problems)

    def statuses(self):
        """What the scheduler says of its workers."""
        self.audit()
        workers = self.admin.ListWorkers(bole_pb2.ListWorkersRequest(),
                                         timeout=30).workers
        for worker in workers:
            before = self._seen.get(worker.address)
            if before is not None and before.connected and (
                    not worker.connected or worker.epoch != before.epoch):
                self.lost_at = time.monotonic()
                self.num_losses += 1
            self._seen[worker.address] = worker
        return workers

    def status_of(self, worker):
        """What the scheduler says of it."""
        return next(w for w in self.statuses()
                    if w.address == worker.address)

    def num_connected(self):
        return sum(w.connected for w in self.statuses())

    def metrics(self):
        return series_of(self.scheduler.metrics())

    def loads(self):
        """[(worker, its load)]."""
        series = self.metrics()
        return [(w, Load(series, w.address)) for w in self.workers]

    def footprint(self):
        return Footprint(self.scheduler.process.pid)

    def await_all(self, seconds=60):
        def serve():
            return self.num_connected() == len(self.workers)

        if not eventually(serve, seconds):
            raise FleetError("not all workers serve: " + "; ".join(
                f"{w.address}: {w.last_error}" for w in self.statuses()))

    def await_idle(self, seconds=60):
        """Raises FleetError unless all that was held is given back."""
        self.await_all()
        if not eventually(lambda: not what_is_held(self.admin), seconds):
            raise FleetError(f"not idle: {what_is_held(self.admin)}")


def what_is_held(admin):
    """The requests that are there, and workers with slots or pages in use."""
    load = admin.GetLoad(bole_pb2.GetLoadRequest(), timeout=30).total
    workers = admin.ListWorkers(bole_pb2.ListWorkersRequest(),
                                timeout=30).workers
    held = [f"{w.address} has {w.slots} slots and {w.pages} pages"
            for w in workers
            if w.slots.free != w.slots.total or w.pages.free != w.pages.total]
    if load.running_requests + load.waiting_requests > 0:
        held.append(str(load))
    return held


def wait_until(condition, seconds, what):
    if not eventually(condition, seconds):
        raise FleetError(f"waited {seconds} s for {what}")
