"""The client for asyncio. `bole.client` says more of what both have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, Unpack, overload

import grpc
import grpc.aio

from bole import _calls
from bole._connection import Connection, PathLike
from bole._generation import Generation
from bole._proto import bole_pb2_grpc
from bole._request import GenerateOptions, generate_request
from bole._retry import Retries, RetryPolicy
from bole.errors import Cancelled, from_rpc_error
from bole.types import (AuditProblem, Event, ModelInfo, Result, ServerInfo,
                        ServerLoad, Tokens, WorkerInfo)

T = TypeVar("T")


class AsyncStream(AsyncIterator[Event]):
    """The events of an answer, as they come.

    Leaving an `async with`, aclose(), cancel(), and the cancellation of a task
    that waits for an event, cancel what has not come. One task at a time.
    """

    def __init__(self, stub: Any, connection: Connection,
                 generation: Generation) -> None:
        self._stub = stub
        self._connection = connection
        self._generation = generation
        self._call: Any = None
        self._cancelled = asyncio.Event()
        self._closed = False

    async def __anext__(self) -> Event:
        while not self._closed:
            try:
                event = await self._read()
            except BaseException:
                await self.aclose()
                raise
            if event is not None:
                return event
        raise StopAsyncIteration

    async def _read(self) -> Event | None:
        """The next event, if the next response has one."""
        if self._cancelled.is_set():
            raise Cancelled("cancelled by the caller")
        try:
            if self._call is None:
                self._call = self._stub.Generate(
                    self._generation.request(),
                    timeout=self._generation.retries.remaining(),
                    metadata=self._connection.metadata())
            response = await self._call.read()
        except grpc.RpcError as error:
            await self._wait_after(error)
            return None
        except asyncio.CancelledError:
            self._raise_if_cancelled()
            raise
        if response is grpc.aio.EOF:
            self._generation.ended()
            await self.aclose()
            return None
        return self._generation.receive(response)

    def _raise_if_cancelled(self) -> None:
        """Cancelled for cancel(); the cancellation of the task goes first."""
        task = asyncio.current_task()
        if self._cancelled.is_set() and not (task and task.cancelling()):
            raise Cancelled("cancelled by the caller") from None

    async def _wait_after(self, error: grpc.RpcError) -> None:
        self._raise_if_cancelled()
        self._call = None
        delay = self._generation.failed(from_rpc_error(error))
        if delay is None:
            await self.aclose()
            return
        try:
            await asyncio.wait_for(self._cancelled.wait(), delay)
        except asyncio.TimeoutError:
            return
        raise Cancelled("cancelled by the caller") from None

    def cancel(self) -> None:
        """Ends the answer: whoever waits for an event gets Cancelled."""
        self._cancelled.set()
        if self._call is not None:
            self._call.cancel()

    async def aclose(self) -> None:
        """Cancels what has not come. There are no more events."""
        self._closed = True
        self.cancel()

    async def result(self) -> Result:
        """Takes all events that are left; the whole answer."""
        async for _ in self:
            pass
        if not self._generation.is_complete:
            raise Cancelled("the stream was closed before its end")
        return self._generation.result()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncAdmin:
    """What whoever runs the server asks of it: `client.admin`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def workers(self) -> tuple[WorkerInfo, ...]:
        return await self._client._unary(_calls.workers())

    async def load(self) -> ServerLoad:
        return await self._client._unary(_calls.load())

    async def audit(self) -> tuple[AuditProblem, ...]:
        """What is not as it must be; nothing, if all is well."""
        return await self._client._unary(_calls.audit())

    async def dump_rounds(self) -> tuple[dict[str, Any], ...]:
        """The last rounds in numbers, oldest first; before them who keeps them,
        and when this was written. Lines of JSON of these are what `bole debug
        rounds` reads."""
        return await self._client._unary(_calls.dump_rounds())


class AsyncClient:
    """A connection to a server, of the event loop that it is made in.

    The arguments are those of `Client`.
    """

    def __init__(self, address: str | None = None, *, model: str = "",
                 ca_file: PathLike | None = None,
                 cert_file: PathLike | None = None,
                 key_file: PathLike | None = None, tls: bool | None = None,
                 server_name: str | None = None, token: str | None = None,
                 token_file: PathLike | None = None,
                 allow_plaintext_token: bool = False,
                 tenant: str | None = None, timeout: float | None = None,
                 retry: RetryPolicy = RetryPolicy()) -> None:
        self._connection = Connection(
            address, ca_file=ca_file, cert_file=cert_file, key_file=key_file,
            tls=tls, server_name=server_name, token=token,
            token_file=token_file, tenant=tenant,
            allow_plaintext_token=allow_plaintext_token)
        self._model = model
        self._timeout = timeout
        self._retry = retry
        self._channel = self._connection.open(grpc.aio)
        self._stub = bole_pb2_grpc.BoleServiceStub(self._channel)
        self._admin_stub = bole_pb2_grpc.AdminStub(self._channel)
        self.admin = AsyncAdmin(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection!r})"

    async def aclose(self) -> None:
        """Ends the connection, and all calls."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None,
                        error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self.aclose()

    @overload
    def generate(self, text: str | None = None, *, stream: Literal[True],
                 timeout: float | None = None,
                 **options: Unpack[GenerateOptions]) -> AsyncStream: ...

    @overload
    def generate(self, text: str | None = None, *,
                 stream: Literal[False] = False, timeout: float | None = None,
                 **options: Unpack[GenerateOptions]) -> Awaitable[Result]: ...

    def generate(self, text: str | None = None, *, stream: bool = False,
                 timeout: float | None = None, **options: Unpack[GenerateOptions]
                 ) -> AsyncStream | Awaitable[Result]:
        """What the model writes after a text, ids of tokens, or messages.

        With `stream` its events, for `async for`, else the whole, to be awaited.
        """
        request = generate_request(text, options, self._model, stream)
        generation = Generation(request, self._retries(timeout))
        events = AsyncStream(self._stub, self._connection, generation)
        return events if stream else events.result()

    async def tokenize(self, text: str | None = None, *,
                       parse_special_tokens: bool | None = None,
                       model: str = "", **chat: Any) -> Tokens:
        """The tokens of a text, or of `messages` with what belongs to them."""
        return await self._unary(_calls.tokenize(
            text, chat, parse_special_tokens, model or self._model))

    async def detokenize(self, ids: Sequence[int], *,
                         skip_special_tokens: bool = False,
                         model: str = "") -> str:
        """The text of tokens."""
        return await self._unary(_calls.detokenize(ids, skip_special_tokens,
                                                   model or self._model))

    async def models(self) -> tuple[ModelInfo, ...]:
        """Every model that is served."""
        return await self._unary(_calls.models())

    async def model_info(self, model: str = "") -> ModelInfo:
        """One model: that of the client, if none is named."""
        return await self._unary(_calls.model_info(model or self._model))

    async def server_info(self) -> ServerInfo:
        return await self._unary(_calls.server_info())

    def _retries(self, timeout: float | None) -> Retries:
        return Retries(self._retry, self._timeout if timeout is None else timeout)

    async def _unary(self, call: _calls.Call[T]) -> T:
        retries = self._retries(None)
        stub = self._admin_stub if call.admin else self._stub
        while True:
            try:
                return call.convert(await getattr(stub, call.method)(
                    call.request, timeout=retries.remaining(),
                    metadata=self._connection.metadata()))
            except grpc.RpcError as error:
                failure = from_rpc_error(error)
            await asyncio.sleep(retries.delay_after(failure))
