#!/usr/bin/python3
"""One kind of hostile client, at a stated rate, until standard input ends.

    tests/bench/attacks/attackers.py KIND --port PORT --rate 200

Prints what came of its actions, as JSON. All its connections come from
127.0.0.2, so that they are told from others. Run from the root of the tree, with
//tests/e2e:python_stubs built.
"""

import argparse
import asyncio
import collections
import json
import resource
import socket
import ssl
import struct
import sys
import time

sys.dont_write_bytecode = True  # The folder may be a source tree.
sys.path[:0] = ["tests/e2e/stubs", "bazel-bin/tests/e2e/stubs",
                "tests/bench/attacks"]

import http2
from proto import bole_pb2

ADDRESS = "127.0.0.2"
TENANT = "attacker"
BLOCK = b"x" * (64 << 10)
DEPTH = 1_000_000
LARGEST_BODY = 4 << 20
GENERATE = "/bole.v1.BoleService/Generate"
# Longer than any of them is waited for.
LONG_ANSWER = 2000


def post(path, *lines):
    head = [f"POST {path} HTTP/1.1", "Host: h", f"X-Bole-Tenant: {TENANT}",
            "Content-Type: application/json", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n"


def stream_request():
    body = json.dumps({"prompt": "An attacker asks", "stream": True,
                       "max_tokens": LONG_ANSWER, "ignore_eos": True}).encode()
    return post("/v1/completions", f"Content-Length: {len(body)}") + body


class Attack:
    """What attackers share: a rate, and what came of their actions."""

    def __init__(self, args):
        self.args = args
        self.outcomes = collections.Counter()
        self.actions = 0

    async def connect(self, context=None):
        return await asyncio.open_connection(
            self.args.host, self.args.port, local_addr=(ADDRESS, 0),
            ssl=context)

    async def repeat(self, action):
        """Does `action` --rate times per second, unless --connections of them
        are under way."""
        running = set()
        due = time.monotonic()
        while not self.args.count or self.actions < self.args.count:
            due = max(due + 1 / self.args.rate, time.monotonic() - 0.1)
            await asyncio.sleep(max(0, due - time.monotonic()))
            if len(running) >= self.args.connections:
                await asyncio.wait(running,
                                   return_when=asyncio.FIRST_COMPLETED)
            self.actions += 1
            task = asyncio.create_task(self._counted(action))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.wait(running)

    async def _counted(self, action):
        try:
            outcome = await action()
        except (OSError, EOFError) as error:
            outcome = type(error).__name__
        self.outcomes[outcome] += 1

    async def told(self, head, blocks):
        """Sends `head` and then `blocks` without an end until the server has
        had enough. Returns its status."""
        reader, writer = await self.connect()
        try:
            async def send():
                writer.write(head)
                for block in blocks:
                    writer.write(block)
                    await writer.drain()
                    await asyncio.sleep(0)  # drain() lets nobody run.
            sending = asyncio.create_task(send())
            try:
                line = await reader.readline()
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
            return line.decode().split(" ")[1] if line else "closed"
        finally:
            writer.transport.abort()


def forever(block):
    while True:
        yield block


class Attacks(Attack):
    """Every method without an underscore below is a kind of its own."""

    async def slow_headers(self):
        async def dribble():
            reader, writer = await self.connect()
            try:
                writer.write(b"GET /health HTTP/1.1\r\nHost: h\r\nX: ")
                answer = asyncio.create_task(reader.readline())
                while not answer.done():
                    writer.write(b"x")
                    await asyncio.wait({answer}, timeout=0.5)
                return answer.result().decode().split(" ")[1]
            finally:
                writer.transport.abort()
        await self.repeat(dribble)

    async def endless_headers(self):
        head = b"GET /health HTTP/1.1\r\nHost: h\r\n"
        await self.repeat(lambda: self.told(head, forever(b"A: b\r\n" * 50)))

    async def declared_bodies(self):
        head = post("/v1/completions", f"Content-Length: {10 << 30}")
        await self.repeat(lambda: self.told(head, forever(BLOCK)))

    async def chunked_bodies(self):
        head = post("/v1/completions", "Transfer-Encoding: chunked")
        chunk = b"%x\r\n%s\r\n" % (len(BLOCK), BLOCK)
        await self.repeat(lambda: self.told(head, forever(chunk)))

    async def held_bodies(self):
        """As large as may be, but for the last byte, which never comes."""
        head = post("/v1/completions", f"Content-Length: {LARGEST_BODY}")
        body = b"x" * (LARGEST_BODY - 1)
        await self.repeat(lambda: self.told(head, [body]))

    async def deep_json(self):
        body = b'{"messages": ' + b"[" * DEPTH
        head = post("/v1/chat/completions", f"Content-Length: {len(body)}")
        await self.repeat(lambda: self.told(head, [body]))

    async def half_closed(self):
        """Clients that send no more and read nothing, but stay for a second."""
        async def ask():
            _, writer = await self.connect()
            try:
                writer.transport.pause_reading()
                writer.write(stream_request())
                writer.write_eof()
                await asyncio.sleep(1)
                return "left"
            finally:
                writer.transport.abort()
        await self.repeat(ask)

    async def open_and_reset(self):
        loop = asyncio.get_running_loop()

        async def touch():
            with socket.socket() as client:
                client.setblocking(False)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                  struct.pack("ii", 1, 0))
                client.bind((ADDRESS, 0))
                await loop.sock_connect(client,
                                        (self.args.host, self.args.port))
            return "reset"
        await self.repeat(touch)

    async def http_cancels(self):
        async def leave():
            reader, writer = await self.connect()
            try:
                writer.write(stream_request())
                line = await reader.readline()
                await reader.readuntil(b"data: ")
                return f"{line.decode().split(' ')[1]}, left in mid-stream"
            finally:
                writer.transport.abort()
        await self.repeat(leave)

    async def stream_resets(self):
        """Calls that are reset in the same write as they begin."""
        context = None
        if self.args.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
        headers = http2.call_headers(GENERATE, TENANT)
        batch = max(1, int(self.args.rate / 100))
        connection = None
        due = time.monotonic()
        while not self.args.count or self.actions < self.args.count:
            due = max(due + batch / self.args.rate, time.monotonic() - 0.1)
            await asyncio.sleep(max(0, due - time.monotonic()))
            try:
                if connection is None or connection.gone:
                    if connection is not None:
                        connection.close()
                        self.outcomes["connection ended by the server"] += 1
                    connection = http2.Connection(*await self.connect(context))
                streams = [connection.new_stream() for _ in range(batch)]
                await connection.send(b"".join(
                    http2.frame(http2.HEADERS, http2.END_HEADERS, stream,
                                headers) + http2.reset(stream)
                    for stream in streams))
                self.actions += batch
                self.outcomes["reset"] += batch
            except OSError as error:
                self.outcomes[type(error).__name__] += 1
                if connection is not None:
                    connection.gone = True
        connection.close()

    async def grpc_cancels(self):
        """Calls that are reset when the first of their text has come."""
        request = bole_pb2.GenerateRequest(
            text="An attacker asks",
            sampling_params=bole_pb2.SamplingParams(
                max_tokens=LONG_ANSWER, ignore_eos=True)).SerializeToString()
        message = struct.pack(">BI", 0, len(request)) + request
        headers = http2.call_headers(GENERATE, TENANT)
        waiting = {}

        def news(stream, what):
            if stream in waiting and not waiting[stream].done():
                waiting[stream].set_result(what)
        connection = http2.Connection(
            *await self.connect(), lambda stream: news(stream, "cancelled"),
            lambda stream: news(stream, "ended by the server"))

        async def call():
            if connection.gone:
                raise EOFError
            stream = connection.new_stream()
            waiting[stream] = asyncio.get_running_loop().create_future()
            await connection.send(
                http2.frame(http2.HEADERS, http2.END_HEADERS, stream, headers) +
                http2.frame(http2.DATA, http2.END_STREAM, stream, message))
            try:
                return await asyncio.wait_for(waiting[stream], 30)
            except asyncio.TimeoutError:
                return "no answer in 30 s"
            finally:
                del waiting[stream]
                await connection.send(http2.reset(stream))
        try:
            await self.repeat(call)
        finally:
            connection.close()


KINDS = [name for name in vars(Attacks) if not name.startswith("_")]


async def run(args):
    attack = Attacks(args)
    attacking = asyncio.create_task(getattr(attack, args.kind)())
    ending = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait({attacking, ending} if not args.count else {attacking},
                       return_when=asyncio.FIRST_COMPLETED)
    if attacking.done():
        attacking.result()  # Raises what it failed with.
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({
        "actions": attack.actions,
        "outcomes": dict(attack.outcomes),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
    }), flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True,
                        help="of HTTP, or of gRPC for streams and calls")
    parser.add_argument("--rate", type=float, default=100,
                        help="actions per second (default: 100)")
    parser.add_argument("--connections", type=int, default=64,
                        help="actions at the same time (default: 64)")
    parser.add_argument("--count", type=int, default=0,
                        help="end after so many actions, instead of with "
                        "standard input")
    parser.add_argument("--tls", action="store_true",
                        help="stream_resets: over TLS, as to a proxy")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
