#!/usr/bin/python3
"""Well-behaved streaming clients, until standard input ends.

    tests/bench/attacks/good_clients.py --http-port PORT --grpc-port PORT

Every client asks, reads the whole text, rests, and asks the same again; half of
them over HTTP with a connection for each request, half over gRPC on one
connection. Each prompt has its one text, which both doors have to give every
time. Prints a line of JSON for each request. Run from the root of the tree, with
//tests/e2e:python_stubs built.
"""

import argparse
import asyncio
import json
import os
import ssl
import sys
import time

sys.dont_write_bytecode = True  # The folder may be a source tree.
sys.path[:0] = ["tests/e2e/stubs", "bazel-bin/tests/e2e/stubs"]

import grpc
from proto import bole_pb2, bole_pb2_grpc

TENANT = "good"
REST_SECONDS = 0.05
CALL_SECONDS = 60


class BadAnswer(Exception):
    """What is wrong with an answer."""


class HttpClient:
    door = "http"

    def __init__(self, args):
        self._port = args.http_port
        self._tokens = args.tokens
        self._context = None
        if args.ca:
            self._context = ssl.create_default_context(cafile=args.ca)

    async def ask(self, prompt, on_text):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._context,
            server_hostname="bole.test" if self._context else None)
        try:
            body = json.dumps({
                "prompt": prompt, "stream": True, "temperature": 0,
                "max_tokens": self._tokens, "ignore_eos": True}).encode()
            writer.write((
                "POST /v1/completions HTTP/1.1\r\nHost: bole.test\r\n"
                "Content-Type: application/json\r\n"
                f"X-Bole-Tenant: {TENANT}\r\nConnection: close\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200 "):
                raise BadAnswer(head.split(b"\r\n")[0].decode())
            return await self._read(reader, on_text)
        finally:
            writer.transport.abort()

    async def _read(self, reader, on_text):
        """Events, each in a chunk of its own or several in one."""
        events = b""
        while size := int(await reader.readline(), 16):
            events += await reader.readexactly(size)
            await reader.readexactly(2)
            if b'"text":"' in events:
                on_text()
        text, reason = "", None
        *lines, end = [line for line in events.split(b"\n\n") if line]
        if end != b"data: [DONE]":
            raise BadAnswer(f"ends with {end}")
        for line in lines:
            for choice in json.loads(line.removeprefix(b"data: "))["choices"]:
                text += choice["text"]
                reason = choice["finish_reason"] or reason
        if reason != "length":
            raise BadAnswer(f"finish_reason {reason}")
        return text


class GrpcClient:
    door = "grpc"

    def __init__(self, args):
        self._tokens = args.tokens
        target = f"127.0.0.1:{args.grpc_port}"
        if args.ca:
            with open(args.ca, "rb") as file:
                credentials = grpc.ssl_channel_credentials(file.read())
            self._channel = grpc.aio.secure_channel(
                target, credentials,
                [("grpc.ssl_target_name_override", "bole.test")])
        else:
            self._channel = grpc.aio.insecure_channel(target)
        self._stub = bole_pb2_grpc.BoleServiceStub(self._channel)

    async def ask(self, prompt, on_text):
        request = bole_pb2.GenerateRequest(
            text=prompt, sampling_params=bole_pb2.SamplingParams(
                temperature=0, ignore_eos=True, max_tokens=self._tokens))
        text, complete = "", None
        async for response in self._stub.Generate(
                request, timeout=CALL_SECONDS,
                metadata=[("bole-tenant", TENANT)]):
            if response.HasField("complete"):
                complete = response.complete
            else:
                text += response.chunk.text
                on_text()
        if complete is None or (complete.usage.completion_tokens !=
                                self._tokens):
            raise BadAnswer(f"{complete}")
        return text


async def repeat(client, prompt, expected, ending):
    while not ending.is_set():
        record = {"door": client.door, "began": time.monotonic()}

        def on_text():
            record.setdefault("ttft", time.monotonic() - record["began"])
        try:
            text = await asyncio.wait_for(client.ask(prompt, on_text),
                                          CALL_SECONDS)
            if text != expected.setdefault(prompt, text) or not text:
                raise BadAnswer("another text than before")
            record["seconds"] = time.monotonic() - record["began"]
        except (OSError, EOFError, ValueError, BadAnswer, grpc.RpcError,
                asyncio.TimeoutError) as error:
            record["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(record), flush=True)
        await asyncio.sleep(REST_SECONDS)


async def run(args):
    ending = asyncio.Event()
    expected = {}
    half = args.clients // 2
    grpc_client = GrpcClient(args)
    clients = [HttpClient(args)] * (args.clients - half) + [grpc_client] * half
    asking = [
        asyncio.create_task(repeat(client, f"Good client {i % 3} asks",
                                   expected, ending))
        for i, client in enumerate(clients)]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    ending.set()
    await asyncio.gather(*asking)
    sys.stdout.flush()
    os._exit(0)  # gRPC's threads are not waited for.


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--http-port", type=int, required=True)
    parser.add_argument("--grpc-port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=8,
                        help="of both doors together (default: 8)")
    parser.add_argument("--tokens", type=int, default=64,
                        help="of each answer (default: 64)")
    parser.add_argument("--ca", help="authority in PEM: over TLS, to a server "
                        "whose name is bole.test")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
