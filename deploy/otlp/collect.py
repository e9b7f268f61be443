#!/usr/bin/python3
"""Takes spans over OTLP/HTTP in JSON, and writes each body as a line."""

import argparse
import http.server
import json
import threading


class Collector(http.server.ThreadingHTTPServer):
    """Calls `take` with every body, parsed."""

    daemon_threads = True

    def __init__(self, address, take):
        super().__init__(address, Handler)
        self.take = take
        self.lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_spans = (self.path == "/v1/traces" and
                    self.headers.get_content_type() == "application/json")
        if is_spans:
            with self.server.lock:
                self.server.take(json.loads(body))
        self.send_response(200 if is_spans else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:4318")
    parser.add_argument("--out", required=True, help="lines are appended")
    args = parser.parse_args()
    host, port = args.listen.rsplit(":", 1)
    with open(args.out, "a", encoding="utf-8") as out:

        def take(body):
            out.write(json.dumps(body) + "\n")
            out.flush()

        Collector((host, int(port)), take).serve_forever()


if __name__ == "__main__":
    main()
