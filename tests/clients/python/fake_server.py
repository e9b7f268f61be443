"""A server of bole.v1 that answers as a test tells it to."""

import concurrent.futures
import queue
import threading

import grpc
from google.protobuf import any_pb2

from bole._proto import (bole_pb2, bole_pb2_grpc, error_details_pb2,
                         status_pb2)


def packed(message):
    """As a server sends it, by the published name of its type."""
    name = message.DESCRIPTOR.full_name.replace("bole.sdk.rpc.", "google.rpc.")
    return any_pb2.Any(type_url="type.googleapis.com/" + name,
                       value=message.SerializeToString())


def fail(context, code, message="told to", *, reason="", field="",
         retry_ms=None, metadata=None, usage=None):
    """Ends a call with an error that has details, as bole.proto lists them."""
    status = status_pb2.Status(code=code.value[0], message=message)
    if reason:
        status.details.append(packed(error_details_pb2.ErrorInfo(
            domain="bole", reason=reason, metadata=metadata)))
    if field:
        bad = error_details_pb2.BadRequest()
        bad.field_violations.add(field=field, description=message)
        status.details.append(packed(bad))
    if retry_ms is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(retry_ms)
        status.details.append(packed(retry))
    if usage is not None:
        status.details.append(packed(usage))
    if status.details:
        context.set_trailing_metadata(
            [("grpc-status-details-bin", status.SerializeToString())])
    context.abort(code, message)


def text_of(token):
    return f"<{token}>"


class Model:
    """Writes tokens that depend on the seed and the place alone."""

    def __init__(self, length=6):
        self.length = length

    def tokens(self, seed):
        return [seed % 1000 * 100 + place for place in range(self.length)]

    def chunk(self, request, index, token, place):
        chunk = bole_pb2.GenerateChunk(index=index, token_ids=[token],
                                       text=text_of(token))
        chunk.usage.completion_tokens = place + 1
        if request.sampling_params.HasField("logprobs"):
            chunk.output_logprobs.add(token_id=token, logprob=-place)
        return chunk

    def respond(self, request, context, stop_after=None, without_end=False):
        """What comes after the resumed, one token of each choice in turn.

        After `stop_after` messages the call fails with UNAVAILABLE; or, with
        `without_end`, when all tokens have come and no choice has ended.
        """
        count = request.n or 1
        had = [list(r.output_ids) for r in request.resume] or [[]] * count
        over = [r.complete for r in request.resume] or [False] * count
        for index, ids in enumerate(had):
            wanted = self.tokens(request.sampling_params.seed + index)
            if not over[index] and len(ids) == self.length:
                fail(context, grpc.StatusCode.INVALID_ARGUMENT,
                     reason="INVALID_ARGUMENT", field=f"resume[{index}]")
            if ids != wanted[:len(ids)]:
                fail(context, grpc.StatusCode.INTERNAL, f"got {ids}")
        sent = 0
        prompt = request.echo
        for place in range(self.length + 1):
            for index in range(count):
                if over[index] or place < len(had[index]):
                    continue
                if sent == stop_after:
                    fail(context, grpc.StatusCode.UNAVAILABLE,
                         reason="WORKERS_LOST")
                response = bole_pb2.GenerateResponse(
                    request_id=request.request_id or "made-up", model="fake")
                wanted = self.tokens(request.sampling_params.seed + index)
                if place < self.length:
                    response.chunk.CopyFrom(
                        self.chunk(request, index, wanted[place], place))
                    if prompt:
                        response.chunk.prompt.text = request.text
                        prompt = False
                elif without_end:
                    fail(context, grpc.StatusCode.UNAVAILABLE)
                else:
                    response.complete.index = index
                    response.complete.finish_reason = (
                        bole_pb2.FINISH_REASON_LENGTH)
                    response.complete.seed = request.sampling_params.seed + index
                    response.complete.usage.completion_tokens = self.length
                sent += 1
                yield response


class FakeServer(bole_pb2_grpc.BoleServiceServicer,
                 bole_pb2_grpc.AdminServicer):
    """Answers each Generate with the next of `plays`, and then as Model does.

    A play is a function of request and context, which yields responses.
    """

    def __init__(self, *plays):
        self.plays = list(plays)
        self.requests = []
        self.metadata = []
        self.cancelled = threading.Event()  # A call of stream_forever().
        self.unary_failures = queue.SimpleQueue()
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        bole_pb2_grpc.add_BoleServiceServicer_to_server(self, self._server)
        bole_pb2_grpc.add_AdminServicer_to_server(self, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self._server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.stop(grace=None).wait()

    def _note(self, request, context):
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata()))

    def Generate(self, request, context):
        self._note(request, context)
        play = self.plays.pop(0) if self.plays else Model().respond
        yield from play(request, context)

    def stream_forever(self, request, context):
        """A chunk, and then nothing until the client cancels."""
        # Not after the chunk: the call may end while that is sent.
        context.add_callback(self.cancelled.set)
        chunk = Model().chunk(request, 0, 1, 0)
        yield bole_pb2.GenerateResponse(chunk=chunk)
        self.cancelled.wait(30)

    def Tokenize(self, request, context):
        self._note(request, context)
        if not self.unary_failures.empty():
            fail(context, **self.unary_failures.get())
        return bole_pb2.TokenizeResponse(input_ids=[1, 2], text=request.text)

    def Audit(self, request, context):
        self._note(request, context)
        response = bole_pb2.AuditResponse()
        response.problems.add(worker="w", text="a slot is lost")
        return response

    def DumpRounds(self, request, context):
        self._note(request, context)
        return bole_pb2.DumpRoundsResponse(
            json_lines='{"flight_record": "fake"}\n{"emitted": 3}\n')
