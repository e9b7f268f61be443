"""The Python SDK against a server that does as it is told."""

import asyncio
import functools
import os
import pathlib
import tempfile
import threading
import time
import unittest
from unittest import mock

import grpc

import bole
from bole._proto import bole_pb2
from fake_server import FakeServer, Model, fail, text_of

SECRET = "s3cret-t0ken"
QUICK = bole.RetryPolicy(max_attempts=4, initial_backoff=0.01)
Code = grpc.StatusCode


def failing(code, **details):
    def play(request, context):
        yield from ()
        fail(context, code, **details)
    return play


def breaking(after):
    return functools.partial(Model().respond, stop_after=after)


def texts_of(events):
    """{choice: its text}, of chunks."""
    texts = {}
    for event in events:
        if isinstance(event, bole.Chunk):
            texts[event.index] = texts.get(event.index, "") + event.text
    return texts


def expected(seed, count):
    return {i: "".join(map(text_of, Model().tokens(seed + i)))
            for i in range(count)}


class SyncCase(unittest.TestCase):
    def serve(self, *plays, **arguments):
        server = self.enterContext(FakeServer(*plays))
        arguments = {"retry": QUICK, "timeout": 20, **arguments}
        client = self.enterContext(bole.Client(server.address, **arguments))
        return server, client


class GenerateTest(SyncCase):
    def test_streams_chunks_and_ends(self):
        _, client = self.serve()

        events = list(client.generate("x", seed=3, logprobs=0, stream=True))

        self.assertEqual([type(e) for e in events],
                         [bole.Chunk] * 6 + [bole.Complete])
        self.assertEqual(texts_of(events), expected(3, 1))
        self.assertEqual(events[-1].text, expected(3, 1)[0])
        self.assertEqual(events[-1].token_ids, tuple(Model().tokens(3)))
        self.assertEqual([t.logprob for t in events[-1].logprobs],
                         [0, -1, -2, -3, -4, -5])
        self.assertEqual(events[-1].finish_reason, "length")

    def test_sends_every_parameter(self):
        server, client = self.serve()
        sampling = {
            "temperature": 0.5, "top_p": 0.25, "top_k": 3, "min_p": 0.125,
            "frequency_penalty": 1.0, "presence_penalty": -1.0,
            "repetition_penalty": 1.5, "max_tokens": 9, "min_tokens": 0,
            "stop": ["a", "b"], "stop_token_ids": [4], "ignore_eos": True,
            "skip_special_tokens": False, "logprobs": 2, "seed": 5,
            "include_stop_str_in_output": True, "logit_bias": {7: -2.0}}
        self.assertEqual(
            set(sampling),
            {f.name for f in bole_pb2.SamplingParams.DESCRIPTOR.fields})

        client.generate(
            token_ids=[1, 2], **sampling, request_id="r", model="m", priority=2,
            n=2, cache_salt="s", echo=True, prompt_logprobs=1, regex="a*",
            speculation=bole.SpeculationOverride("chain", depth=2),
            targets=bole.LatencyTargets(time_per_output_token_ms=20))

        [request] = server.requests
        self.assertEqual(request, bole_pb2.GenerateRequest(
            token_ids=bole_pb2.TokenIds(ids=[1, 2]), request_id="r", model="m",
            sampling_params=bole_pb2.SamplingParams(**sampling), stream=False,
            priority=2, n=2, cache_salt="s", echo=True, prompt_logprobs=1,
            regex="a*", speculation=bole_pb2.SpeculationOverride(
                mode=bole_pb2.SPECULATION_MODE_CHAIN, depth=2),
            targets=bole_pb2.LatencyTargets(time_per_output_token_ms=20)))

    def test_sends_messages_and_tools_as_openai_has_them(self):
        server, client = self.serve()

        client.generate(messages=[
            {"role": "user", "content": [{"type": "text", "text": "Hi"},
                                         {"type": "text", "text": "!"}]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "1", "type": "function",
                 "function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "tool", "tool_call_id": "1", "content": "2"},
        ], tools=[{"type": "function"}], tool_choice="none", parse_output=True,
            template_kwargs={"enable_thinking": False})

        chat = server.requests[0].chat
        self.assertEqual([m.content for m in chat.messages], ["Hi!", "", "2"])
        [call] = chat.messages[1].tool_calls
        self.assertEqual((call.id, call.name, call.arguments_json),
                         ("1", "f", '{"a": 1}'))
        self.assertEqual(chat.messages[2].tool_call_id, "1")
        self.assertEqual(list(chat.tools_json), ['{"type": "function"}'])
        self.assertEqual(chat.template_kwargs_json, '{"enable_thinking": false}')
        self.assertEqual(chat.tool_choice, bole_pb2.TOOL_CHOICE_NONE)
        self.assertTrue(chat.parse_output)

    def test_refuses_what_no_message_can_hold(self):
        server, client = self.serve()
        for field, options in [
            ("input", {}),
            ("input", {"text": "x", "token_ids": [1]}),
            ("sampling_params.seed", {"text": "x", "seed": -1}),
            ("sampling_params.top_k", {"text": "x", "top_k": "many"}),
            ("tools", {"text": "x", "tools": []}),
            ("chat.messages[0].colour",
             {"messages": [{"role": "user", "colour": "red"}]}),
            ("chat.messages[0].content[0]",
             {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            ("speculation.mode", {"text": "x", "speculation": "bush"}),
        ]:
            with self.subTest(field), \
                    self.assertRaises(bole.InvalidArgument) as raised:
                client.generate(**options)
            self.assertEqual(raised.exception.field, field)
        with self.assertRaises(TypeError):
            client.generate("x", temprature=1)
        self.assertEqual(server.requests, [])

    def test_reads_tool_calls_and_reasoning(self):
        def play(request, context):
            chunk = bole_pb2.GenerateChunk(token_ids=[1], reasoning_content="so")
            chunk.tool_calls.add(id="1", name="f", arguments_json='{"a": 2}')
            yield bole_pb2.GenerateResponse(chunk=chunk)
            yield bole_pb2.GenerateResponse(complete=bole_pb2.GenerateComplete(
                finish_reason=bole_pb2.FINISH_REASON_STOP, matched_token_id=9))
        _, client = self.serve(play)

        [_, end] = client.generate("x", stream=True)

        self.assertEqual(end.tool_calls[0].arguments, {"a": 2})
        self.assertEqual((end.finish_reason, end.matched_stop), ("stop", 9))
        self.assertEqual(end.message(), {
            "role": "assistant", "content": "", "reasoning_content": "so",
            "tool_calls": [{"id": "1", "type": "function", "function": {
                "name": "f", "arguments": '{"a": 2}'}}]})


class RetryTest(SyncCase):
    def test_comes_again_when_the_server_says(self):
        server, client = self.serve(
            failing(Code.RESOURCE_EXHAUSTED, reason="QUEUE_REQUESTS",
                    retry_ms=150),
            failing(Code.UNAVAILABLE, reason="NO_WORKER"))
        began = time.monotonic()

        result = client.generate("x", seed=1)

        self.assertGreaterEqual(time.monotonic() - began, 0.15)
        self.assertEqual(result.text, expected(1, 1)[0])
        self.assertEqual(len(server.requests), 3)
        self.assertFalse(server.requests[-1].resume)

    def test_gives_up(self):
        server, client = self.serve(*[failing(Code.UNAVAILABLE)] * 9)
        with self.assertRaises(bole.Unavailable):
            client.generate("x")
        self.assertEqual(len(server.requests), 4)

    def test_does_not_wait_beyond_the_deadline(self):
        server, client = self.serve(failing(
            Code.RESOURCE_EXHAUSTED, reason="QUEUE_REQUESTS", retry_ms=60000))
        began = time.monotonic()
        with self.assertRaises(bole.Overloaded) as raised:
            client.generate("x", timeout=5)
        self.assertLess(time.monotonic() - began, 4)
        self.assertEqual(raised.exception.retry_after, 60)
        self.assertEqual(len(server.requests), 1)

    def test_does_not_retry_after_output(self):
        for code in (Code.RESOURCE_EXHAUSTED, Code.INTERNAL, Code.CANCELLED):
            def play(request, context, code=code):
                chunk = Model().chunk(request, 0, 1, 0)
                yield bole_pb2.GenerateResponse(chunk=chunk)
                fail(context, code, retry_ms=1)
            server, client = self.serve(play)
            with self.subTest(code), self.assertRaises(bole.BoleError):
                list(client.generate("x", stream=True))
            self.assertEqual(len(server.requests), 1)

    def test_does_not_resume_unless_it_may(self):
        server, client = self.serve(
            breaking(2), retry=bole.RetryPolicy(resume=False))
        with self.assertRaises(bole.Unavailable):
            list(client.generate("x", stream=True))
        self.assertEqual(len(server.requests), 1)

    def test_retries_other_calls(self):
        server, client = self.serve()
        server.unary_failures.put({"code": Code.UNAVAILABLE})
        self.assertEqual(client.tokenize("x").input_ids, (1, 2))
        self.assertEqual(len(server.requests), 2)


class ResumeTest(SyncCase):
    def test_every_token_comes_once(self):
        for n in (1, 3):
            for after in range(1, 7 * n):
                server, client = self.serve(breaking(after))
                with self.subTest(n=n, after=after):
                    events = list(client.generate("x", n=n, logprobs=0, echo=True,
                                                  stream=True))
                    first, second, *_ = server.requests
                    seed = first.sampling_params.seed
                    self.assertTrue(first.sampling_params.HasField("seed"))
                    self.assertEqual(second.sampling_params.seed, seed)
                    self.assertEqual(second.request_id, "made-up")
                    self.assertEqual(texts_of(events), expected(seed, n))
                    ends = [e for e in events if isinstance(e, bole.Complete)]
                    self.assertEqual(sorted(e.index for e in ends),
                                     list(range(n)))
                    for end in ends:
                        self.assertEqual(end.token_ids, tuple(
                            Model().tokens(seed + end.index)))
                        self.assertEqual(len(end.logprobs), 6)
                    self.assertEqual(
                        [e.prompt.text for e in events
                         if isinstance(e, bole.Chunk) and e.prompt], ["x"])

    def test_sends_what_has_come(self):
        server, client = self.serve(breaking(4), breaking(3))

        list(client.generate("x", n=3, seed=0, stream=True))

        def sent(request):
            return [(list(r.output_ids), r.complete) for r in request.resume]
        self.assertEqual(sent(server.requests[1]),
                         [([0, 1], False), ([100], False), ([200], False)])
        self.assertEqual(sent(server.requests[2]),
                         [([0, 1, 2], False), ([100, 101], False),
                          ([200, 201], False)])

    def test_ends_that_were_lost_are_asked_for_again(self):
        for n in (1, 3):
            server, client = self.serve(
                functools.partial(Model().respond, without_end=True))
            with self.subTest(n):
                events = list(client.generate("x", n=n, seed=2, stream=True))
                self.assertEqual(texts_of(events), expected(2, n))
                self.assertEqual(sum(isinstance(e, bole.Complete)
                                     for e in events), n)
                self.assertEqual(
                    [list(r.output_ids) for r in server.requests[-1].resume],
                    [Model().tokens(2 + i)[:-1] for i in range(n)])

    def test_goes_on_from_what_the_caller_has(self):
        server, client = self.serve(breaking(2))
        result = client.generate("x", seed=0,
                                 resume=[bole.ResumedChoice((0, 1))])
        self.assertEqual(result.token_ids, (2, 3, 4, 5))
        self.assertEqual([list(r.resume[0].output_ids) for r in server.requests],
                         [[0, 1], [0, 1, 2, 3]])


class EndTest(SyncCase):
    def test_cancel_by_another_thread(self):
        server = FakeServer()
        server.plays.append(server.stream_forever)
        with server, bole.Client(server.address) as client:
            events = client.generate("x", stream=True)
            next(events)
            threading.Timer(0.1, events.cancel).start()
            with self.assertRaises(bole.Cancelled):
                next(events)
            self.assertTrue(server.cancelled.wait(10))
            self.assertEqual(len(server.requests), 1)

    def test_leaving_cancels(self):
        server = FakeServer()
        server.plays.append(server.stream_forever)
        with server, bole.Client(server.address) as client:
            with client.generate("x", stream=True) as events:
                for _ in events:
                    break
            self.assertTrue(server.cancelled.wait(10))
            self.assertEqual(list(events), [])
            with self.assertRaises(bole.Cancelled):
                events.result()

    def test_cancel_while_it_waits_for_another_try(self):
        _, client = self.serve(failing(Code.UNAVAILABLE, retry_ms=10000))
        events = client.generate("x", stream=True)
        threading.Timer(0.1, events.cancel).start()
        began = time.monotonic()
        with self.assertRaises(bole.Cancelled):
            next(events)
        self.assertLess(time.monotonic() - began, 5)

    def test_deadline(self):
        server = FakeServer()
        server.plays.append(server.stream_forever)
        with server, bole.Client(server.address, timeout=30) as client:
            with self.assertRaises(bole.DeadlineExceeded):
                list(client.generate("x", stream=True, timeout=0.3))
            self.assertEqual(len(server.requests), 1)


class ErrorTest(SyncCase):
    def test_every_kind(self):
        for code, kind, details in [
            (Code.INVALID_ARGUMENT, bole.InvalidArgument,
             {"reason": "INVALID_ARGUMENT", "field": "sampling_params.top_p"}),
            (Code.NOT_FOUND, bole.NotFound, {"reason": "UNKNOWN_MODEL"}),
            (Code.UNIMPLEMENTED, bole.Unimplemented,
             {"reason": "UNIMPLEMENTED", "field": "regex"}),
            (Code.RESOURCE_EXHAUSTED, bole.Overloaded,
             {"reason": "QUEUE_REQUESTS", "retry_ms": 2500,
              "metadata": {"max": "3"}}),
            (Code.RESOURCE_EXHAUSTED, bole.SlowReader,
             {"reason": "SLOW_READER"}),
            (Code.DEADLINE_EXCEEDED, bole.DeadlineExceeded,
             {"reason": "DEADLINE",
              "usage": bole_pb2.Usage(prompt_tokens=4)}),
            (Code.CANCELLED, bole.Cancelled, {"reason": "CANCELLED"}),
            (Code.UNAVAILABLE, bole.Unavailable, {"reason": "DRAINING"}),
            (Code.UNAUTHENTICATED, bole.Unauthenticated,
             {"reason": "UNAUTHENTICATED"}),
            (Code.PERMISSION_DENIED, bole.PermissionDenied,
             {"reason": "FORBIDDEN"}),
            (Code.INTERNAL, bole.Internal, {"reason": "WORKER_FAILED"}),
            (Code.DATA_LOSS, bole.BoleError, {}),
        ]:
            _, client = self.serve(failing(code, **details),
                                   retry=bole.RetryPolicy(max_attempts=1))
            with self.subTest(kind), self.assertRaises(bole.BoleError) as raised:
                client.generate("x")
            error = raised.exception
            self.assertIs(type(error), kind)
            self.assertEqual(error.code, code.name)
            self.assertEqual(error.message, "told to")
            self.assertEqual(error.reason, details.get("reason", ""))
            self.assertEqual(error.field, details.get("field", ""))
            self.assertEqual(error.metadata, details.get("metadata", {}))
            self.assertEqual(error.retry_after,
                             2.5 if "retry_ms" in details else None)
            self.assertEqual(error.usage,
                             bole.Usage(4) if "usage" in details else None)

    def test_nothing_answers(self):
        with bole.Client("127.0.0.1:1", retry=QUICK) as client, \
                self.assertRaises(bole.Unavailable):
            client.generate("x")

    def test_an_answer_without_an_end(self):
        _, client = self.serve(lambda request, context: iter(()))
        with self.assertRaises(bole.Internal):
            client.generate("x")


class CredentialsTest(SyncCase):
    def test_token_and_tenant_are_sent_with_every_call(self):
        server, client = self.serve(token=SECRET, tenant="me")
        client.generate("x")
        client.tokenize("x")
        self.assertEqual(client.admin.audit(),
                         (bole.AuditProblem("w", "a slot is lost"),))
        self.assertEqual(client.admin.dump_rounds(),
                         ({"flight_record": "fake"}, {"emitted": 3}))
        self.assertEqual(len(server.metadata), 4)
        for metadata in server.metadata:
            self.assertEqual(metadata["authorization"], f"Bearer {SECRET}")
            self.assertEqual(metadata["bole-tenant"], "me")

    def test_token_file_is_read_for_every_call(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "token")
            file.write_text("first\n")
            server, client = self.serve(token_file=file)
            client.tokenize("x")
            file.write_text("second\n")
            client.tokenize("x")
        self.assertEqual([m["authorization"] for m in server.metadata],
                         ["Bearer first", "Bearer second"])

    def test_the_environment_says_what_is_not_given(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "token")
            file.write_text("of-the-environment")
            with mock.patch.dict(os.environ, {"BOLE_TOKEN_FILE": str(file)}):
                server, client = self.serve()
                client.tokenize("x")
                given, client = self.serve(token=SECRET)
                client.tokenize("x")
            with mock.patch.dict(os.environ, {"BOLE_CA": str(file)}):
                for tls, want in [(None, True), (False, False)]:
                    with bole.Client(server.address, tls=tls) as client:
                        self.assertEqual(client._connection.tls, want)
        self.assertEqual(server.metadata[0]["authorization"],
                         "Bearer of-the-environment")
        self.assertEqual(given.metadata[0]["authorization"], f"Bearer {SECRET}")

    def test_token_is_told_nobody(self):
        server, client = self.serve(
            failing(Code.UNAUTHENTICATED, reason="UNAUTHENTICATED"),
            token=SECRET)
        said = [repr(client), repr(client._connection)]
        with self.assertRaises(bole.Unauthenticated) as raised:
            client.generate("x")
        said += [repr(raised.exception), str(raised.exception)]
        for wrong in (SECRET + "\n", SECRET + "ä", ""):
            with self.assertRaises(ValueError) as refused:
                bole.Client(server.address, token=wrong)
            said.append(str(refused.exception))
        with self.assertRaises(ValueError) as refused:
            bole.Client("bole.example.com:8400", token=SECRET)
        said.append(str(refused.exception))
        for text in said:
            self.assertNotIn(SECRET, text)


class AsyncTest(unittest.IsolatedAsyncioTestCase):
    def serve(self, *plays, **arguments):
        server = self.enterContext(FakeServer(*plays))
        return server, bole.AsyncClient(
            server.address, **{"retry": QUICK, "timeout": 20, **arguments})

    async def was_cancelled(self, server):
        return await asyncio.to_thread(server.cancelled.wait, 10)

    async def test_streams_and_resumes(self):
        for n in (1, 3):
            for after in (0, 1, 5):
                server, client = self.serve(breaking(after))
                async with client:
                    events = [e async for e in client.generate(
                        "x", n=n, seed=4, stream=True)]
                with self.subTest(n=n, after=after):
                    self.assertEqual(texts_of(events), expected(4, n))
                    self.assertEqual(len(server.requests), 2)

    async def test_whole_answers_and_other_calls(self):
        server, client = self.serve(failing(Code.UNAVAILABLE), token=SECRET)
        async with client:
            result = await client.generate("x", seed=1)
            tokens = await client.tokenize("x")
            problems = await client.admin.audit()
            rounds = await client.admin.dump_rounds()
        self.assertEqual(result.text, expected(1, 1)[0])
        self.assertEqual(tokens.input_ids, (1, 2))
        self.assertEqual(len(problems), 1)
        self.assertEqual(rounds[-1], {"emitted": 3})
        self.assertNotIn(SECRET, repr(client))
        self.assertEqual({m["authorization"] for m in server.metadata},
                         {f"Bearer {SECRET}"})

    async def test_tells_what_is_wrong(self):
        _, client = self.serve(failing(Code.INVALID_ARGUMENT, field="n",
                                       reason="INVALID_ARGUMENT"))
        async with client:
            with self.assertRaises(bole.InvalidArgument) as raised:
                await client.generate("x")
        self.assertEqual(raised.exception.field, "n")

    async def test_cancel(self):
        server, client = self.serve()
        server.plays.append(server.stream_forever)
        async with client:
            events = client.generate("x", stream=True)
            await anext(events)
            asyncio.get_running_loop().call_later(0.1, events.cancel)
            with self.assertRaises(bole.Cancelled):
                await anext(events)
            self.assertTrue(await self.was_cancelled(server))

    async def test_leaving_cancels(self):
        server, client = self.serve()
        server.plays.append(server.stream_forever)
        async with client:
            async with client.generate("x", stream=True) as events:
                async for _ in events:
                    break
            self.assertTrue(await self.was_cancelled(server))

    async def test_cancelling_the_task_cancels_the_call(self):
        server, client = self.serve()
        server.plays.append(server.stream_forever)
        async with client:
            task = asyncio.create_task(client.generate("x"))
            while not server.requests:
                await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertTrue(await self.was_cancelled(server))

    async def test_deadline(self):
        server, client = self.serve()
        server.plays.append(server.stream_forever)
        async with client:
            with self.assertRaises(bole.DeadlineExceeded):
                await client.generate("x", timeout=0.3)


if __name__ == "__main__":
    unittest.main()
