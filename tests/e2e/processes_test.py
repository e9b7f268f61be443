#!/usr/bin/python3
"""The binaries as they are deployed: signals, exit codes, metrics."""

import subprocess
import sys
import unittest

sys.dont_write_bytecode = True  # The folder may be a source tree.
# The build puts the stubs there, by the paths of the .proto files.
sys.path[:0] = ["tests/e2e/stubs", "tests/e2e"]

import grpc
from proto import bole_pb2, bole_pb2_grpc
from services import MODEL, SCHEDULER, WORKER, Service, Services, eventually

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


class ProcessesTest(unittest.TestCase):
    def test_sigterm_in_mid_stream_loses_nothing(self):
        with Services() as services:
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
        with Services() as services:
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
