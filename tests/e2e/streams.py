"""Streams of answers: what came of each, and clients that ask for many."""

import collections
import random
import threading
import time

import grpc

from proto import bole_pb2

# How many choices every request has in the undisturbed run.
NUM_CHOICES = 2
# How much a logprob may differ: a prefill adds the same float32 terms as the
# rounds that it repeats, but in another order.
LOGPROB_TOLERANCE = 1e-4
# No request takes so long, however often its worker is lost.
CALL_SECONDS = 300


class WrongStream(Exception):
    """What is wrong with a stream."""


def logprobs_of(tokens):
    """[(logprob, [logprobs of the likeliest])]. Ids of ties may change places."""
    return [(t.logprob, [other.logprob for other in t.top]) for t in tokens]


class _Choice:
    """What came of one choice so far."""

    def __init__(self):
        # All chunks put together, as if nothing had been streamed.
        self.whole = bole_pb2.GenerateComplete()
        self.is_complete = False

    def add_chunk(self, chunk):
        self._check_open()
        self.whole.text += chunk.text
        self.whole.output_ids.extend(chunk.token_ids)
        self.whole.output_logprobs.extend(chunk.output_logprobs)
        self._check_usage(chunk.usage)

    def end(self, complete):
        self._check_open()
        self.is_complete = True
        if complete.text or complete.output_ids or complete.output_logprobs:
            raise WrongStream(f"a final message repeats chunks: {complete}")
        self.whole.MergeFrom(complete)
        self._check_usage(complete.usage)

    def _check_open(self):
        if self.is_complete:
            raise WrongStream("a message came after the final one")

    def _check_usage(self, usage):
        if usage.completion_tokens != len(self.whole.output_ids):
            raise WrongStream(
                f"{usage.completion_tokens} tokens by the usage, "
                f"{len(self.whole.output_ids)} by the chunks")


def read_stream(responses, count, on_chunk=lambda: None):
    """What came of each of `count` choices, as final messages that have all."""
    choices = [_Choice() for _ in range(count)]
    for response in responses:
        if response.HasField("complete"):
            choices[response.complete.index].end(response.complete)
        else:
            on_chunk()
            choices[response.chunk.index].add_chunk(response.chunk)
    if not all(choice.is_complete for choice in choices):
        raise WrongStream("it ended without a final message")
    return [choice.whole for choice in choices]


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
    """Threads that ask, one request after the other; half of them for one choice
    of it, the others for NUM_CHOICES."""

    def __init__(self, stub, requests, count, seed):
        self.stub = stub
        self.requests = requests
        self.count = count
        self.seed = seed
        self.expected = {}  # The choices, by index in `requests`.
        self.failures = collections.Counter()  # By what is wrong.
        self.ended = 0
        self._open = {}
        self._lock = threading.Lock()

    def _ask(self, number, count):
        message = bole_pb2.GenerateRequest()
        message.CopyFrom(self.requests[number])
        message.n = count
        request = Open()
        key = object()
        with self._lock:
            self._open[key] = request
        try:
            call = self.stub.Generate(message, timeout=CALL_SECONDS)
            return read_stream(call, count, request.on_chunk)
        finally:
            with self._lock:
                self._open.pop(key)
                self.ended += 1

    def ask_and_compare(self, number, count, was):
        """`was`: in which run, for messages."""
        try:
            got = self._ask(number, count)
            for want, choice in zip(self.expected.setdefault(number, got), got):
                compare(want, choice)
        except grpc.RpcError as error:
            self._fail(number, f"{was}: {error.code().name}: {error.details()}")
        except (WrongStream, IndexError) as error:
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
                self.ask_and_compare(number, NUM_CHOICES, "undisturbed")

        for thread in self._run(work):
            thread.join()

    def longest_prompt(self):
        return max(first.usage.prompt_tokens
                   for first, *_ in self.expected.values())

    def start(self, round_number):
        """Asks requests at random until stop() is called."""
        self._stopping = threading.Event()

        def work(client):
            rng = random.Random(f"{self.seed} {round_number} {client}")
            while not self._stopping.is_set():
                self.ask_and_compare(rng.randrange(len(self.requests)),
                                      1 + client % NUM_CHOICES, "disturbed")

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
