"""How a client reaches a server, and what it tells with each call."""

from __future__ import annotations

import os
import pathlib
import re
from typing import Any, TypeAlias

import grpc

PathLike: TypeAlias = "str | os.PathLike[str]"

_LOOPBACK = re.compile(r"(unix:.*|(ipv4:)?(localhost|127\.[0-9.]+)(:\d+)?"
                       r"|(ipv6:)?\[::1\](:\d+)?)")
# An answer that is not streamed is one message.
_OPTIONS = [
    ("grpc.max_receive_message_length", 256 << 20),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5000),
    # While calls are open; the server allows one each 10 s.
    ("grpc.keepalive_time_ms", 60000),
    ("grpc.keepalive_timeout_ms", 20000),
]


def _of_environment(name: str) -> str | None:
    return os.environ.get(name) or None


def _checked_token(token: str) -> str:
    # gRPC would print what it cannot send.
    if not re.fullmatch(r"[!-~]+", token):
        raise ValueError("the token is empty or has characters that no header "
                         "can have")
    return token


class Connection:
    """An address and the credentials for it. Its repr has no secret."""

    def __init__(self, address: str | None, *, ca_file: PathLike | None,
                 cert_file: PathLike | None, key_file: PathLike | None,
                 tls: bool | None, server_name: str | None, token: str | None,
                 token_file: PathLike | None, tenant: str | None,
                 allow_plaintext_token: bool) -> None:
        self.address: str = (address or os.environ.get("BOLE_SERVER") or
                             "127.0.0.1:8400")
        self.tenant = tenant
        if tls is not False:
            ca_file = ca_file or _of_environment("BOLE_CA")
            if cert_file is None and key_file is None:
                cert_file = _of_environment("BOLE_CERT")
                key_file = _of_environment("BOLE_KEY")
        if token is None:
            token_file = token_file or _of_environment("BOLE_TOKEN_FILE")
        files = (ca_file, cert_file, key_file)
        self.tls = any(files) if tls is None else tls
        if not self.tls and any(files):
            raise ValueError("tls is False, and there are files for it")
        if (cert_file is None) != (key_file is None):
            raise ValueError("cert_file and key_file belong together")
        if token is not None and token_file is not None:
            raise ValueError("token and token_file are two of one thing")
        self._files = [None if f is None else pathlib.Path(f) for f in files]
        self._server_name = server_name
        self._token = None if token is None else _checked_token(token)
        self._token_file = None if token_file is None else pathlib.Path(token_file)
        has_token = token is not None or token_file is not None
        if has_token and not self.tls and not allow_plaintext_token and \
                not _LOOPBACK.fullmatch(self.address):
            raise ValueError(
                f"a token would go to {self.address} for all to read; use TLS, "
                "or allow_plaintext_token on a network of your own")

    def __repr__(self) -> str:
        return f"{self.address!r}, tls={self.tls}, tenant={self.tenant!r}"

    def open(self, grpc_api: Any) -> Any:
        """A channel of `grpc_api`, which is grpc or grpc.aio."""
        options = list(_OPTIONS)
        if not self.tls:
            return grpc_api.insecure_channel(self.address, options=options)
        if self._server_name:
            options.append(("grpc.ssl_target_name_override",
                            self._server_name))  # type: ignore[arg-type]
        ca, cert, key = (None if f is None else f.read_bytes()
                         for f in self._files)
        credentials = grpc.ssl_channel_credentials(ca, key, cert)
        return grpc_api.secure_channel(self.address, credentials,
                                       options=options)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Of a call that begins now: a token file is read each time."""
        token = self._token
        if self._token_file is not None:
            token = _checked_token(
                self._token_file.read_text(encoding="utf-8").strip())
        metadata = []
        if token is not None:
            metadata.append(("authorization", f"Bearer {token}"))
        if self.tenant is not None:
            metadata.append(("bole-tenant", self.tenant))
        return tuple(metadata)
