"""A flight's usage in tokens over all its legs: what an OpenAI client reads, and what the ledger books.

Sums only. What a leg cost its watch says; what was put in between two legs the continuation says.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.leg import Leg
from gateway.legwatch import LegWatch


@dataclass(slots=True)
class Account:
    """`reasoning` is part of `completion`; `injected` is part of it too, and `phrases` is what of it went into the
    thought."""

    prompt: int = 0
    completion: int = 0
    reasoning: int = 0
    cached: int | None = None
    injected: int = 0
    phrases: int = 0

    def inject(self, thought: int, answer: int) -> None:
        """Tokens the gateway has put in itself."""
        self.completion += thought + answer
        self.reasoning += thought
        self.injected += thought + answer
        self.phrases += thought

    def book(self, leg: Leg, watch: LegWatch, *, is_first: bool) -> None:
        """A leg that is over, as far as it came."""
        completion, reasoning = watch.count()
        self.completion += completion
        self.reasoning += reasoning
        usage = watch.usage
        if self.prompt:
            return
        if (handed := leg.handed_prompt) is not None and is_first:
            self.prompt, self.cached = handed.tokens, handed.cached
        elif usage is not None and is_first:
            self.prompt, self.cached = usage.prompt, usage.cached
        elif leg.prompt is not None:
            self.prompt, self.cached = leg.prompt.tokens, leg.prompt.cached
        elif usage is not None:
            # The first leg was cut before it could say; what this one read is the prompt and the thought.
            self.prompt = max(1, usage.prompt - self.reasoning)
