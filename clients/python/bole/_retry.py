"""When a call that failed is worth another try."""

from __future__ import annotations

import dataclasses
import random
import time

from bole.errors import BoleError, Overloaded, Unavailable


@dataclasses.dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a client tries again.

    A call is sent again if the server is overloaded and says when to come
    again, or is not available, as long as nothing of its answer has come; an
    answer that breaks off with UNAVAILABLE is gone on with (`resume`), so that
    every token comes once. Nothing is tried again whose turn would come after
    the deadline.
    """

    # Calls in a row that brought nothing, the first included. 1: no retries.
    max_attempts: int = 4
    initial_backoff: float = 0.25  # Seconds; where the server names none.
    max_backoff: float = 10.0  # It doubles up to this.
    resume: bool = True

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts is {self.max_attempts}")


class Retries:
    """The attempts of one call."""

    def __init__(self, policy: RetryPolicy, timeout: float | None) -> None:
        self.policy = policy
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._failed = 0

    def remaining(self) -> float | None:
        """Seconds until the deadline, at least 0; None if there is none."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - time.monotonic())

    def progress(self) -> None:
        """The current attempt brought something."""
        self._failed = 0

    def delay_after(self, error: BoleError) -> float:
        """Seconds to wait before the next attempt, or raises `error`."""
        worth_it = isinstance(error, Unavailable) or (
            isinstance(error, Overloaded) and error.retry_after is not None)
        self._failed += 1
        if not worth_it or self._failed >= self.policy.max_attempts:
            raise error
        if error.retry_after is not None:
            # Later than the server says, so that not all come at once.
            delay = error.retry_after * random.uniform(1.0, 1.2)
        else:
            delay = random.uniform(0.5, 1.0) * min(
                self.policy.max_backoff,
                self.policy.initial_backoff * 2.0 ** (self._failed - 1))
        remaining = self.remaining()
        if remaining is not None and delay >= remaining:
            raise error
        return delay
