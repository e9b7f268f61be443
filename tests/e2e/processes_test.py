#!/usr/bin/python3
"""The binaries as they are deployed: signals, exit codes, metrics."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # The folder may be a source tree.
# The build puts the stubs there, by the paths of the .proto files.
sys.path[:0] = ["tests/e2e/stubs", "tests/e2e"]

import grpc
from certificates import Authority
from proto import bole_pb2, bole_pb2_grpc
from services import (MODEL, SCHEDULER, WORKER, Service, Services, eventually,
                      runs, series_of)

PROMPT = "def fibonacci(n):\n"


def greedy(max_tokens):
    return bole_pb2.GenerateRequest(
        text=PROMPT,
        sampling_params=bole_pb2.SamplingParams(
            temperature=0, ignore_eos=True, max_tokens=max_tokens))


def connect(services):
    channel = grpc.insecure_channel(services.scheduler.address)
    stub = bole_pb2_grpc.BoleServiceStub(channel)

    def generates():
        try:
            return list(stub.Generate(greedy(1)))
        except grpc.RpcError:
            return False

    assert eventually(generates)
    return channel, stub


def curl(url, *flags):
    """The exit code of curl, and what it read."""
    done = subprocess.run(
        ["curl", "--silent", "--max-time", "20", "--fail", *flags, url],
        capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


# curl's exit code if the server answered with a status of 400 or more.
HTTP_ERROR = 22


# For drains that have to end by themselves, however slow the machine is.
PATIENT = ["--drain-seconds", "300"]


# A worker of two processes.
RANKS = ["--ranks", "2", "--rank-processes"]


class TlsTest(unittest.TestCase):
    """Both services with certificates of their own, and of their clients."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.authority = Authority(self.folder, "authority")
        cert, key = self.authority.issue("client")
        self.client = ["--cert", cert, "--key", key]
        self.trust = ["--cacert", self.authority.ca]
        tls = ["--tls-cert", *self.authority.issue("server")]
        tls[2:2] = ["--tls-key"]
        tls += ["--tls-client-ca", self.authority.ca]
        tokens = os.path.join(self.folder, "tokens")
        with open(tokens, "w", encoding="ascii") as file:
            for token, scope in [("asks", "generate"), ("scrapes", "metrics")]:
                digest = hashlib.sha256(token.encode()).hexdigest()
                file.write(f"{digest} blue {scope}\n")
        os.chmod(tokens, 0o600)
        self.services = Services(
            worker_flags=tls,
            scheduler_flags=[*tls, "--http-listen", "127.0.0.1:0", "--tokens",
                             tokens, "--worker-ca", self.authority.ca,
                             "--worker-cert", cert, "--worker-key", key,
                             "--worker-name", "localhost"])
        self.services.__enter__()
        self.addCleanup(self.services.__exit__)
        self.api = f"https://localhost:{self.services.scheduler.http_port}"
        self.assertTrue(eventually(lambda: curl(
            self.api + "/ready", *self.trust, *self.client)[0] == 0))

    def ask(self, path, token, *flags):
        return curl(self.api + path, *self.trust, *self.client, "--header",
                    f"Authorization: Bearer {token}", *flags)

    def test_the_api_answers_whoever_has_a_certificate_and_a_token(self):
        body = {"prompt": PROMPT, "max_tokens": 8, "temperature": 0}
        post = ["--header", "Content-Type: application/json", "--data"]

        code, whole = self.ask("/v1/completions", "asks", *post,
                               json.dumps(body))
        self.assertEqual(code, 0)
        code, events = self.ask("/v1/completions", "asks", "--no-buffer", *post,
                                json.dumps({**body, "stream": True}))
        self.assertEqual(code, 0)

        streamed = [json.loads(line[6:]) for line in events.splitlines()
                    if line.startswith("data: {")]
        self.assertEqual("".join(event["choices"][0]["text"]
                                 for event in streamed if event["choices"]),
                         json.loads(whole)["choices"][0]["text"])
        self.assertTrue(events.endswith("data: [DONE]\n\n"))
        self.assertEqual(self.ask("/v1/models", "asks")[0], 0)
        self.assertEqual(self.ask("/v1/models", "scrapes")[0], HTTP_ERROR)

    def test_metrics_are_for_those_who_are_known(self):
        scheduler, worker = [
            f"https://localhost:{service.metrics_port}/metrics"
            for service in [self.services.scheduler, self.services.worker]]
        known = [*self.trust, *self.client]

        def bearer(token):
            return ["--header", f"Authorization: Bearer {token}"]

        self.assertIn('bole_requests_running{model="demo"} 0\n',
                      curl(scheduler, *known, *bearer("scrapes"))[1])
        self.assertEqual(curl(scheduler, *known)[0], HTTP_ERROR)
        self.assertEqual(curl(scheduler, *known, *bearer("asks"))[0],
                         HTTP_ERROR)
        self.assertIn("bole_worker_connected 1\n", curl(worker, *known)[1])
        for url in [scheduler, worker]:
            code, body = curl(url, *self.trust, *bearer("scrapes"))
            self.assertNotIn(code, [0, HTTP_ERROR])
            self.assertEqual(body, "")

    def test_nobody_is_answered_without_a_certificate_or_in_the_clear(self):
        for url, flags in [(self.api, self.trust),
                           (self.api.replace("https", "http"), []),
                           (self.api, self.client)]:
            code, body = curl(url + "/health", *flags)
            self.assertNotIn(code, [0, HTTP_ERROR])
            self.assertEqual(body, "")
        self.assertEqual(self.ask("/health", "none")[0], 0)

    def test_a_certificate_is_replaced_while_the_services_run(self):
        newer = Authority(self.folder, "newer")
        trust_newer = ["--cacert", newer.ca, *self.client]
        self.assertNotEqual(curl(self.api + "/health", *trust_newer)[0], 0)

        newer.issue("server")

        for service, path in [(self.services.scheduler, "/metrics"),
                              (self.services.worker, "/metrics")]:
            url = f"https://localhost:{service.metrics_port}{path}"
            self.assertTrue(eventually(
                lambda url=url: curl(url, *trust_newer)[0] in [0, HTTP_ERROR]))
        self.assertTrue(eventually(
            lambda: curl(self.api + "/health", *trust_newer)[0] == 0))


class ProcessesTest(unittest.TestCase):
    def test_sigterm_in_mid_stream_loses_nothing(self):
        with Services(PATIENT, PATIENT) as services:
            channel, stub = connect(services)
            want = list(stub.Generate(greedy(600)))
            call = stub.Generate(greedy(600))
            first = next(call)

            services.scheduler.terminate()
            services.worker.terminate()
            rest = list(call)

            for field in ["text", "token_ids"]:
                self.assertEqual(
                    [x for r in [first, *rest] for x in getattr(r.chunk, field)],
                    [x for r in want for x in getattr(r.chunk, field)])
            self.assertTrue(rest[-1].HasField("complete"))
            self.assertEqual(services.scheduler.wait(), 0)
            self.assertEqual(services.worker.wait(), 0)
            channel.close()

    def test_the_worker_may_be_told_first(self):
        with Services(PATIENT, PATIENT) as services:
            channel, stub = connect(services)
            call = stub.Generate(greedy(600))
            next(call)

            services.worker.terminate()
            rest = list(call)

            self.assertEqual(rest[-1].complete.usage.completion_tokens, 600)
            self.assertEqual(services.worker.wait(), 0)
            services.scheduler.terminate()
            self.assertEqual(services.scheduler.wait(), 0)
            channel.close()

    def test_a_signal_to_all_ranks_lets_the_first_one_drain(self):
        # Like Ctrl-C on a terminal, which signals all processes there.
        for number in [signal.SIGTERM, signal.SIGINT]:
            with Services([*PATIENT, *RANKS], PATIENT,
                          start_new_session=True) as services:
                channel, stub = connect(services)
                want = list(stub.Generate(greedy(300)))
                call = stub.Generate(greedy(300))
                first = next(call)
                [rank] = services.worker.children()

                os.killpg(services.worker.process.pid, number)
                rest = list(call)

                self.assertEqual(
                    [i for r in [first, *rest] for i in r.chunk.token_ids],
                    [i for r in want for i in r.chunk.token_ids])
                self.assertEqual(services.worker.wait(), 0)
                self.assertFalse(runs(rank))
                channel.close()

    def test_ranks_die_with_the_first_one(self):
        with Services(RANKS) as services:
            channel, stub = connect(services)
            call = stub.Generate(greedy(4000))
            next(call)
            [rank] = services.worker.children()
            self.assertTrue(runs(rank))

            services.worker.process.kill()

            self.assertTrue(eventually(lambda: not runs(rank), 2))
            call.cancel()
            channel.close()

    def test_a_rank_that_dies_while_nothing_runs_ends_the_worker(self):
        with Services(RANKS, stderr=subprocess.PIPE) as services:
            [rank] = services.worker.children()
            began = time.monotonic()
            os.kill(rank, signal.SIGKILL)
            self.assertEqual(services.worker.wait(), 1)
            self.assertLess(time.monotonic() - began, 2 + 3)  # Even if busy.
            self.assertIn(
                f"rank 1 of 2 (process {rank}) was killed by signal 9",
                services.worker.process.stderr.read())

    def test_a_drain_ends_at_its_deadline(self):
        with Services(worker_flags=["--drain-seconds", "1",
                                    "--step-timeout-seconds", "60"],
                      scheduler_flags=["--drain-seconds", "1"]) as services:
            channel, stub = connect(services)
            call = stub.Generate(greedy(4000))
            next(call)

            services.scheduler.terminate()
            with self.assertRaises(grpc.RpcError):
                list(call)

            self.assertEqual(call.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertEqual(services.scheduler.wait(), 0)
            services.worker.terminate()
            self.assertEqual(services.worker.wait(), 0)
            channel.close()

    def test_both_have_metrics(self):
        with Services() as services:
            channel, stub = connect(services)
            list(stub.Generate(greedy(10)))

            scheduler = services.scheduler.metrics()
            worker = services.worker.metrics()

            for name in ["bole_requests_total", "bole_generation_tokens_total",
                         "bole_time_to_first_token_seconds"]:
                self.assertIn(name, scheduler)
            self.assertRegex(scheduler, r'bole_worker_up\{worker=".*"\} 1')
            for name in ["bole_worker_steps_total", "bole_step_seconds",
                         "bole_worker_connected 1"]:
                self.assertIn(name, worker)
            channel.close()

    def test_calls_are_counted_by_method_and_code(self):
        def handled(service, method, code):
            return series_of(service.metrics()).get(
                "bole_grpc_server_handled_total"
                f'{{code="{code}",method="{method}"}}', 0)

        with Services() as services:
            channel, stub = connect(services)
            scheduler, worker = services.scheduler, services.worker
            generate = "bole.v1.BoleService/Generate"
            before = handled(scheduler, generate, "OK")
            list(stub.Generate(greedy(10)))
            with self.assertRaises(grpc.RpcError):
                list(stub.Generate(greedy(-1)))
            self.assertEqual(handled(scheduler, generate, "OK"), before + 1)
            self.assertEqual(
                handled(scheduler, generate, "INVALID_ARGUMENT"), 1)
            self.assertGreaterEqual(
                handled(worker, "bole.worker.v1.Worker/Describe", "OK"), 1)
            channel.close()
            scheduler.terminate()
            self.assertEqual(scheduler.wait(), 0)
            self.assertTrue(eventually(lambda: 1 == sum(
                handled(worker, "bole.worker.v1.Worker/Execute", code)
                for code in ["OK", "CANCELLED"])))

    def test_an_address_that_is_taken_is_an_error_that_names_it(self):
        with Services() as services:
            for binary, address in [(WORKER, services.worker.address),
                                    (SCHEDULER, services.scheduler.address)]:
                with self.assertRaises(RuntimeError):
                    flags = ["--model", "models/demo", "--listen", address]
                    if binary == SCHEDULER:
                        flags += ["--worker", services.worker.address]
                    Service(binary, *flags)

    def test_bounds_that_make_no_sense_are_errors_that_name_the_flag(self):
        for flags in [["--max-open-requests", "0"],
                      ["--max-open-requests", "many"],
                      ["--stalled-reader-seconds", "0"],
                      ["--max-undelivered-mb", "8", "--max-output-mb", "4"],
                      ["--share", "3/2"],
                      ["--share", "1/2", "--peers", "127.0.0.1:8400"]]:
            result = subprocess.run([SCHEDULER, "--model", MODEL, *flags],
                                    capture_output=True, text=True, timeout=60)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(flags[0], result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
