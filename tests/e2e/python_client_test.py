#!/usr/bin/python3
"""A client that knows nothing of Bole but its .proto files.

Debian's python3-grpcio, with stubs that the build makes; health and reflection
by their standard protocols.
"""

import os
import sys
import unittest

sys.dont_write_bytecode = True  # The folder may be a source tree.
# The build puts the stubs there, by the paths of the .proto files.
sys.path[:0] = ["tests/e2e/stubs", "tests/e2e"]

import grpc
from google.protobuf import descriptor_pb2
from google.rpc import error_details_pb2, status_pb2
from proto import bole_pb2, bole_pb2_grpc, health_pb2, health_pb2_grpc
from services import Services, eventually
from tests.e2e import reflection_pb2, reflection_pb2_grpc

PROMPT = "def fibonacci(n):\n"
SERVICE = "bole.v1.BoleService"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def details_of(error):
    """{type: message} of what a failed call tells besides code and message."""
    binary = next(value for key, value in error.trailing_metadata()
                  if key == "grpc-status-details-bin")
    status = status_pb2.Status.FromString(binary)
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    types = {kind.DESCRIPTOR.full_name: kind for kind in (
        error_details_pb2.ErrorInfo, error_details_pb2.RetryInfo,
        error_details_pb2.BadRequest, bole_pb2.Usage)}
    found = {}
    for detail in status.details:
        kind = types[detail.TypeName()]
        found[kind] = kind()
        assert detail.Unpack(found[kind])
    return found


def greedy(max_tokens, **fields):
    return bole_pb2.GenerateRequest(
        text=PROMPT,
        sampling_params=bole_pb2.SamplingParams(
            temperature=0, ignore_eos=True, max_tokens=max_tokens),
        **fields)


class PythonClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.services = Services(worker_flags=["--context", "8192"])
        cls.channel = grpc.insecure_channel(cls.services.scheduler.address)
        cls.stub = bole_pb2_grpc.BoleServiceStub(cls.channel)
        cls.admin = bole_pb2_grpc.AdminStub(cls.channel)
        cls.health = health_pb2_grpc.HealthStub(cls.channel)
        assert eventually(lambda: cls.status_of(SERVICE) == SERVING)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        cls.services.__exit__()

    @classmethod
    def status_of(cls, service):
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            return cls.health.Check(request).status
        except grpc.RpcError:
            return None

    def assert_idle(self):
        def num_there():
            load = self.admin.GetLoad(bole_pb2.GetLoadRequest()).total
            return load.running_requests + load.waiting_requests

        self.assertTrue(eventually(lambda: num_there() == 0))
        audit = self.admin.Audit(bole_pb2.AuditRequest())
        self.assertFalse(audit.problems)
        for worker in self.admin.ListWorkers(
                bole_pb2.ListWorkersRequest()).workers:
            self.assertEqual(worker.slots.free, worker.slots.total)
            self.assertEqual(worker.pages.free, worker.pages.total)

    def test_streams(self):
        responses = list(self.stub.Generate(greedy(24, request_id="mine")))

        chunks = [r.chunk for r in responses if r.HasField("chunk")]
        complete = responses[-1].complete
        self.assertEqual({r.request_id for r in responses}, {"mine"})
        self.assertGreater(len(chunks), 1)
        self.assertEqual([r.HasField("complete") for r in responses],
                         [False] * len(chunks) + [True])
        self.assertEqual({r.model for r in responses}, {"demo"})
        self.assertEqual(sum(len(c.token_ids) for c in chunks), 24)
        self.assertEqual(complete.text, "")
        self.assertEqual(list(complete.output_ids), [])
        self.assertEqual(complete.usage.completion_tokens, 24)
        self.assertEqual(complete.finish_reason, bole_pb2.FINISH_REASON_LENGTH)

    def test_does_not_stream(self):
        streamed = list(self.stub.Generate(greedy(24)))
        response, = self.stub.Generate(greedy(24, stream=False))

        complete = response.complete
        self.assertEqual(complete.text,
                         "".join(r.chunk.text for r in streamed))
        self.assertEqual(list(complete.output_ids),
                         [i for r in streamed for i in r.chunk.token_ids])

    def test_asks_for_choices_and_the_prompt(self):
        responses = list(self.stub.Generate(
            greedy(24, stream=False, n=3, echo=True)))

        completes = {r.complete.index: r.complete for r in responses}
        self.assertEqual(sorted(completes), [0, 1, 2])
        self.assertEqual(completes[0].prompt.text, PROMPT)
        self.assertFalse(completes[1].HasField("prompt"))

    def test_cancels(self):
        call = self.stub.Generate(greedy(8000))
        next(call)

        call.cancel()

        with self.assertRaises(grpc.RpcError):
            for _ in call:
                pass
        self.assertEqual(call.code(), grpc.StatusCode.CANCELLED)
        self.assert_idle()

    def test_sets_a_deadline(self):
        call = self.stub.Generate(greedy(8000), timeout=0.5)

        with self.assertRaises(grpc.RpcError):
            for _ in call:
                pass
        self.assertEqual(call.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assert_idle()

    def test_is_told_what_is_wrong(self):
        request = greedy(8)
        request.sampling_params.top_p = 2

        with self.assertRaises(grpc.RpcError) as raised:
            list(self.stub.Generate(request))

        self.assertEqual(raised.exception.code(),
                         grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("top_p", raised.exception.details())
        details = details_of(raised.exception)
        info = details[error_details_pb2.ErrorInfo]
        self.assertEqual((info.domain, info.reason),
                         ("bole", "INVALID_ARGUMENT"))
        [violation] = details[error_details_pb2.BadRequest].field_violations
        self.assertEqual(violation.field, "sampling_params.top_p")
        self.assertIn("top_p is 2", violation.description)

    def test_is_told_what_is_not_offered(self):
        with self.assertRaises(grpc.RpcError) as raised:
            list(self.stub.Generate(greedy(8, regex="a*")))

        self.assertEqual(raised.exception.code(),
                         grpc.StatusCode.UNIMPLEMENTED)
        details = details_of(raised.exception)
        self.assertEqual(details[error_details_pb2.ErrorInfo].reason,
                         "UNIMPLEMENTED")
        [violation] = details[error_details_pb2.BadRequest].field_violations
        self.assertEqual(violation.field, "regex")

    def test_is_told_when_to_come_again(self):
        with Services(scheduler_flags=["--max-open-requests", "1"]) \
                as services, \
                grpc.insecure_channel(services.scheduler.address) as channel:
            stub = bole_pb2_grpc.BoleServiceStub(channel)
            health = health_pb2_grpc.HealthStub(channel)
            watch = health.Watch(
                health_pb2.HealthCheckRequest(service=SERVICE))
            self.assertTrue(any(r.status == SERVING for r in watch))
            first = stub.Generate(greedy(1000))
            next(first)

            with self.assertRaises(grpc.RpcError) as raised:
                list(stub.Generate(greedy(1)))
            first.cancel()

        self.assertEqual(raised.exception.code(),
                         grpc.StatusCode.RESOURCE_EXHAUSTED)
        details = details_of(raised.exception)
        info = details[error_details_pb2.ErrorInfo]
        self.assertEqual(info.reason, "TOO_MANY_OPEN")
        self.assertEqual(info.metadata["max"], "1")
        delay = details[error_details_pb2.RetryInfo].retry_delay
        self.assertGreaterEqual(delay.ToMilliseconds(), 100)

    def test_tokenizes_there_and_back(self):
        tokens = self.stub.Tokenize(bole_pb2.TokenizeRequest(text=PROMPT))
        text = self.stub.Detokenize(
            bole_pb2.DetokenizeRequest(ids=tokens.input_ids)).text

        self.assertGreater(len(tokens.input_ids), 3)
        self.assertEqual(text, PROMPT)

    def test_reads_what_is_served(self):
        info = self.stub.GetModelInfo(bole_pb2.GetModelInfoRequest())
        models = self.stub.ListModels(bole_pb2.ListModelsRequest()).models
        server = self.stub.GetServerInfo(bole_pb2.GetServerInfoRequest())
        [worker] = self.admin.ListWorkers(
            bole_pb2.ListWorkersRequest()).workers

        self.assertEqual(info.model, "demo")
        self.assertEqual(info.max_context, 8192)
        self.assertTrue(info.has_drafter)
        self.assertTrue(info.ready)
        self.assertEqual(list(models), [info])
        self.assertEqual(server.speculation.mode,
                         bole_pb2.SPECULATION_MODE_TREE)
        self.assertTrue(worker.connected)

    def test_checks_health(self):
        self.assertEqual(self.status_of(""), SERVING)
        self.assertEqual(self.status_of(SERVICE), SERVING)
        with self.assertRaises(grpc.RpcError) as raised:
            self.health.Check(health_pb2.HealthCheckRequest(service="other"))
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_checks_health_of_the_worker(self):
        with grpc.insecure_channel(self.services.worker.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            response = health.Check(health_pb2.HealthCheckRequest(
                service="bole.worker.v1.Worker"))
        self.assertEqual(response.status, SERVING)

    def test_watches_health_while_the_server_drains(self):
        # The drain has to end by itself, however slow the machine is.
        with Services(scheduler_flags=["--drain-seconds", "300"]) as services, \
                grpc.insecure_channel(services.scheduler.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            stub = bole_pb2_grpc.BoleServiceStub(channel)
            watch = health.Watch(
                health_pb2.HealthCheckRequest(service=SERVICE))
            self.assertTrue(any(r.status == SERVING for r in watch))
            call = stub.Generate(greedy(1000))
            next(call)

            services.scheduler.terminate()

            self.assertEqual(next(watch).status, NOT_SERVING)
            self.assertTrue(list(call)[-1].HasField("complete"))

    def test_finds_services_by_reflection(self):
        for address, expected in [
            (self.services.scheduler.address, SERVICE),
            (self.services.scheduler.address, "bole.v1.Admin"),
            (self.services.worker.address, "bole.worker.v1.Worker"),
        ]:
            with grpc.insecure_channel(address) as channel:
                stub = reflection_pb2_grpc.ServerReflectionStub(channel)
                requests = [
                    reflection_pb2.ServerReflectionRequest(list_services=""),
                    reflection_pb2.ServerReflectionRequest(
                        file_containing_symbol=expected),
                ]
                listed, described = stub.ServerReflectionInfo(iter(requests))

            names = [s.name for s in listed.list_services_response.service]
            self.assertIn(expected, names)
            self.assertIn("grpc.health.v1.Health", names)
            file = descriptor_pb2.FileDescriptorProto.FromString(
                described.file_descriptor_response.file_descriptor_proto[0])
            self.assertIn(expected.rsplit(".", 1)[-1],
                          [s.name for s in file.service])


if __name__ == "__main__":
    # Debian's libraries, whatever python the environment prefers.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    unittest.main(verbosity=2)
