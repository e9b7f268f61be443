"""Streams of answers: what came of each, and clients that ask for many."""

import collections
import random
import threading
import time

import grpc

# What a logprob may differ by: a prefill adds the same terms as the rounds that
# it repeats, in another order, in float32.
LOGPROB_TOLERANCE = 1e-4
# No request takes so long, however often its worker is lost.
CALL_SECONDS = 300


class WrongStream(Exception):
    """What is wrong with a stream."""


def logprobs_of(tokens):
    """[(logprob, [logprobs of the likeliest])]. Ids of ties may change places."""
    return [(t.logprob, [other.logprob for other in t.top]) for t in tokens]


def read_stream(responses, on_chunk=lambda: None):
    """The final message, once it is certain that the chunks repeat it."""
    text, ids, logprobs = [], [], []
    complete = None
    for response in responses:
        if complete is not None:
            raise WrongStream("a message came after the final one")
        if response.HasField("complete"):
            complete = response.complete
            continue
        on_chunk()
        text.append(response.chunk.text)
        ids.extend(response.chunk.token_ids)
        logprobs.extend(response.chunk.output_logprobs)
        if response.chunk.usage.completion_tokens != len(ids):
            raise WrongStream(f"{response.chunk.usage.completion_tokens} tokens "
                              f"by the usage, {len(ids)} by the chunks")
    if complete is None:
        raise WrongStream("it ended without a final message")
    for name, chunks, final in [
        ("text", "".join(text), complete.text),
        ("ids", ids, list(complete.output_ids)),
        ("logprobs", logprobs, list(complete.output_logprobs)),
        ("usage", len(ids), complete.usage.completion_tokens),
    ]:
        if chunks != final:
            raise WrongStream(
                f"{name} of the chunks: {chunks}; of the final message: {final}")
    return complete


def compare(want, got):
    """Raises WrongStream unless `got` says what `want` says."""
    ids = list(zip(want.output_ids, got.output_ids))
    differs = [a != b for a, b in ids]
    if any(differs) or len(want.output_ids) != len(got.output_ids):
        raise WrongStream(
            f"{len(got.output_ids)} ids, undisturbed {len(want.output_ids)}, "
            f"of which {differs.index(True) if any(differs) else len(ids)} are "
            "the same")
    for field in ["text", "finish_reason", "seed", "matched_stop_str",
                  "matched_token_id"]:
        if getattr(want, field) != getattr(got, field):
            raise WrongStream(f"{field} is {getattr(got, field)!r}, undisturbed "
                              f"{getattr(want, field)!r}")
    wanted, given = (logprobs_of(c.output_logprobs) for c in (want, got))
    if len(wanted) != len(given):
        raise WrongStream(f"{len(given)} logprobs, undisturbed {len(wanted)}")
    for i, ((a, tops_a), (b, tops_b)) in enumerate(zip(wanted, given)):
        differences = [abs(x - y) for x, y in zip([a, *tops_a], [b, *tops_b])]
        if len(tops_a) != len(tops_b) or max(differences) > LOGPROB_TOLERANCE:
            raise WrongStream(f"logprobs of token {i} are {b}, {tops_b}, "
                              f"undisturbed {a}, {tops_a}")


class Open:
    """A request that is under way."""

    def __init__(self):
        self.began = time.monotonic()
        self.moved = self.began  # When its last chunk came.

    def on_chunk(self):
        self.moved = time.monotonic()


class Clients:
    """Threads that ask, one request after the other."""

    def __init__(self, stub, requests, count, seed):
        self.stub = stub
        self.requests = requests
        self.count = count
        self.seed = seed
        self.expected = {}  # By the place in `requests`.
        self.failures = collections.Counter()  # By what is wrong.
        self.ended = 0
        self._open = {}
        self._lock = threading.Lock()

    def _ask(self, number):
        request = Open()
        key = object()
        with self._lock:
            self._open[key] = request
        try:
            call = self.stub.Generate(self.requests[number],
                                      timeout=CALL_SECONDS)
            return read_stream(call, request.on_chunk)
        finally:
            with self._lock:
                self._open.pop(key)
                self.ended += 1

    def _ask_and_compare(self, number, was):
        """`was`: in which run, for messages."""
        try:
            got = self._ask(number)
            if number in self.expected:
                compare(self.expected[number], got)
            else:
                self.expected[number] = got
        except grpc.RpcError as error:
            self._fail(number, f"{was}: {error.code().name}: {error.details()}")
        except WrongStream as error:
            self._fail(number, f"{was}: {error}")

    def _fail(self, number, what):
        with self._lock:
            self.failures[f"request {number}, {what}"] += 1

    def _run(self, work):
        threads = [threading.Thread(target=work, args=(i,), daemon=True)
                   for i in range(self.count)]
        for thread in threads:
            thread.start()
        return threads

    def record(self):
        """Asks every request once, undisturbed, for what is expected later."""
        numbers = iter(range(len(self.requests)))

        def work(_):
            while True:
                with self._lock:
                    number = next(numbers, None)
                if number is None:
                    return
                self._ask_and_compare(number, "undisturbed")

        for thread in self._run(work):
            thread.join()

    def longest_prompt(self):
        return max(c.usage.prompt_tokens for c in self.expected.values())

    def start(self, round_number):
        """Asks requests at random until stop() is called."""
        self._stopping = threading.Event()

        def work(client):
            rng = random.Random(f"{self.seed} {round_number} {client}")
            while not self._stopping.is_set():
                self._ask_and_compare(rng.randrange(len(self.requests)),
                                      "disturbed")

        self._threads = self._run(work)

    def stop(self):
        """Waits for those that are under way."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def unmoved_since(self, moment):
        """How many requests were under way then and have had no token since."""
        with self._lock:
            return sum(r.began <= moment and r.moved <= moment
                       for r in self._open.values())
