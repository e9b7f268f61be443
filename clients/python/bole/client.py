"""The client that waits for its answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, Unpack, overload

import grpc

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


class Stream(Iterator[Event]):
    """The events of an answer, as they come.

    Leaving a `with`, or close(), cancels what has not come. cancel() may be
    called by any thread; everything else by one at a time.
    """

    def __init__(self, stub: Any, connection: Connection,
                 generation: Generation) -> None:
        self._stub = stub
        self._connection = connection
        self._generation = generation
        self._call: Any = None
        self._lock = threading.Lock()  # Of _call against cancel().
        self._cancelled = threading.Event()
        self._closed = False

    def __next__(self) -> Event:
        while not self._closed:
            try:
                event = self._read()
            except BaseException:
                self.close()
                raise
            if event is not None:
                return event
        raise StopIteration

    def _read(self) -> Event | None:
        """The next event, if the next response has one."""
        try:
            call = self._begin() if self._call is None else self._call
            response = next(call, None)
        except grpc.RpcError as error:
            self._wait_after(error)
            return None
        if response is None:
            self._generation.ended()
            self.close()
            return None
        return self._generation.receive(response)

    def _begin(self) -> Any:
        request = self._generation.request()
        metadata = self._connection.metadata()
        with self._lock:
            if self._cancelled.is_set():
                raise Cancelled("cancelled by the caller")
            self._call = self._stub.Generate(
                request, timeout=self._generation.retries.remaining(),
                metadata=metadata)
            return self._call

    def _wait_after(self, error: grpc.RpcError) -> None:
        with self._lock:
            self._call = None
        if self._cancelled.is_set():
            raise Cancelled("cancelled by the caller") from None
        delay = self._generation.failed(from_rpc_error(error))
        if delay is None:
            self.close()
        elif self._cancelled.wait(delay):
            raise Cancelled("cancelled by the caller") from None

    def cancel(self) -> None:
        """Ends the answer: whoever waits for an event gets Cancelled."""
        with self._lock:
            self._cancelled.set()
            if self._call is not None:
                self._call.cancel()

    def close(self) -> None:
        """Cancels what has not come. There are no more events."""
        self._closed = True
        self.cancel()

    def result(self) -> Result:
        """Takes all events that are left; the whole answer."""
        for _ in self:
            pass
        if not self._generation.is_complete:
            raise Cancelled("the stream was closed before its end")
        return self._generation.result()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed:
            self.close()


class Admin:
    """What whoever runs the server asks of it: `client.admin`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def workers(self) -> tuple[WorkerInfo, ...]:
        return self._client._unary(_calls.workers())

    def load(self) -> ServerLoad:
        return self._client._unary(_calls.load())

    def audit(self) -> tuple[AuditProblem, ...]:
        """What is not as it must be; nothing, if all is well."""
        return self._client._unary(_calls.audit())

    def dump_rounds(self) -> tuple[dict[str, Any], ...]:
        """The last rounds in numbers, oldest first; before them who keeps them,
        and when this was written. Lines of JSON of these are what `bole debug
        rounds` reads."""
        return self._client._unary(_calls.dump_rounds())


class Client:
    """A connection to a server. Threads may share it.

    Args:
      address: "HOST:PORT"; else the environment's BOLE_SERVER, else
        127.0.0.1:8400.
      model: the name of the model, if several are served.
      ca_file: whom to trust, in PEM; else the environment's BOLE_CA. It, or a
        certificate, means TLS.
      cert_file, key_file: the client's own certificate and its key, in PEM;
        else the environment's BOLE_CERT and BOLE_KEY.
      tls: True for TLS with the system's certificates; False for none, whatever
        the environment says.
      server_name: whom the server's certificate has to name, if not the address.
      token: sent with every call; or `token_file`, which is read for every call;
        else the file of the environment's BOLE_TOKEN_FILE.
      allow_plaintext_token: without TLS a token goes to this machine alone,
        unless this is set.
      tenant: for whom calls ask.
      timeout: seconds that a call may take, with its retries; None: any time.
      retry: how often calls that failed are sent again.

    Every call raises `BoleError`.
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
        self._channel = self._connection.open(grpc)
        self._stub = bole_pb2_grpc.BoleServiceStub(self._channel)
        self._admin_stub = bole_pb2_grpc.AdminStub(self._channel)
        self.admin = Admin(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection!r})"

    def close(self) -> None:
        """Ends the connection, and all calls."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    @overload
    def generate(self, text: str | None = None, *, stream: Literal[True],
                 timeout: float | None = None,
                 **options: Unpack[GenerateOptions]) -> Stream: ...

    @overload
    def generate(self, text: str | None = None, *,
                 stream: Literal[False] = False, timeout: float | None = None,
                 **options: Unpack[GenerateOptions]) -> Result: ...

    def generate(self, text: str | None = None, *, stream: bool = False,
                 timeout: float | None = None,
                 **options: Unpack[GenerateOptions]) -> Stream | Result:
        """What the model writes after a text, ids of tokens, or messages.

        With `stream` its events as they come, else the whole. The options are
        those of `GenerateOptions`; `timeout` is this call's.
        """
        request = generate_request(text, options, self._model, stream)
        generation = Generation(request, self._retries(timeout))
        events = Stream(self._stub, self._connection, generation)
        return events if stream else events.result()

    def tokenize(self, text: str | None = None, *,
                 parse_special_tokens: bool | None = None, model: str = "",
                 **chat: Any) -> Tokens:
        """The tokens of a text, or of `messages` with what belongs to them."""
        return self._unary(_calls.tokenize(text, chat, parse_special_tokens,
                                           model or self._model))

    def detokenize(self, ids: Sequence[int], *,
                   skip_special_tokens: bool = False, model: str = "") -> str:
        """The text of tokens."""
        return self._unary(_calls.detokenize(ids, skip_special_tokens,
                                             model or self._model))

    def models(self) -> tuple[ModelInfo, ...]:
        """Every model that is served."""
        return self._unary(_calls.models())

    def model_info(self, model: str = "") -> ModelInfo:
        """One model: that of the client, if none is named."""
        return self._unary(_calls.model_info(model or self._model))

    def server_info(self) -> ServerInfo:
        return self._unary(_calls.server_info())

    def _retries(self, timeout: float | None) -> Retries:
        return Retries(self._retry, self._timeout if timeout is None else timeout)

    def _unary(self, call: _calls.Call[T]) -> T:
        retries = self._retries(None)
        stub = self._admin_stub if call.admin else self._stub
        while True:
            try:
                return call.convert(getattr(stub, call.method)(
                    call.request, timeout=retries.remaining(),
                    metadata=self._connection.metadata()))
            except grpc.RpcError as error:
                failure = from_rpc_error(error)
            time.sleep(retries.delay_after(failure))
