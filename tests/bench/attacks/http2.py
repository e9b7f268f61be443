"""HTTP/2 by hand, as far as an attacker of a gRPC server needs it: frames that no
client library would send so fast, or at all."""

import asyncio
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
WINDOW_UPDATE = 8
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
CANCEL = 8
LAST_STREAM = 2**31 - 1


def frame(kind, flags, stream, payload=b""):
    return (struct.pack(">I", len(payload))[1:] +
            struct.pack(">BBI", kind, flags, stream) + payload)


def _text(value):
    """A string literal of HPACK, shorter than 127 bytes and not coded."""
    return bytes([len(value)]) + value


def call_headers(path, tenant):
    """The header of a gRPC call as an HPACK block that enters nothing in the
    table of the connection, so that it can be sent any number of times."""
    block = b"\x83\x86"  # :method POST, :scheme http, of the static table.
    block += b"\x04" + _text(path.encode())
    block += b"\x01" + _text(b"scheduler")  # :authority
    block += b"\x0f\x10" + _text(b"application/grpc")  # content-type
    for name, value in [(b"te", b"trailers"), (b"bole-tenant", tenant.encode())]:
        block += b"\x00" + _text(name) + _text(value)
    return block


def reset(stream):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))


class Connection:
    """One connection. `on_data` is told the stream of every DATA frame, `on_end`
    of every stream that the server ends."""

    def __init__(self, reader, writer, on_data=None, on_end=None):
        self._reader = reader
        self._writer = writer
        self._on_data = on_data or (lambda stream: None)
        self._on_end = on_end or (lambda stream: None)
        self._next = 1
        self.gone = False  # The server takes no more streams.
        # Room for as much as ever comes, so that no window has to be counted.
        writer.write(PREFACE + frame(SETTINGS, 0, 0, struct.pack(
            ">HI", 4, 2**31 - 1)) + frame(WINDOW_UPDATE, 0, 0, struct.pack(
                ">I", 2**31 - 1 - 65535)))
        self._reading = asyncio.create_task(self._read())

    def new_stream(self):
        stream = self._next
        self._next += 2
        if self._next > LAST_STREAM:
            self.gone = True
        return stream

    async def send(self, frames):
        self._writer.write(frames)
        await self._writer.drain()

    async def _read(self):
        try:
            while True:
                head = await self._reader.readexactly(9)
                kind, flags, stream = struct.unpack(">BBI", head[3:])
                payload = await self._reader.readexactly(
                    int.from_bytes(head[:3], "big"))
                if kind == SETTINGS and not flags & ACK:
                    self._writer.write(frame(SETTINGS, ACK, 0))
                elif kind == PING and not flags & ACK:
                    self._writer.write(frame(PING, ACK, 0, payload))
                elif kind == GOAWAY:
                    self.gone = True
                elif kind == DATA:
                    self._on_data(stream)
                ends = kind in (DATA, HEADERS) and flags & END_STREAM
                if ends or kind == RST_STREAM:
                    self._on_end(stream)
        except (OSError, EOFError):
            self.gone = True

    def close(self):
        self._reading.cancel()
        self._writer.transport.abort()
