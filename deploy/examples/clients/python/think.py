"""Live thinking, then the answer, then how the thinking ended: with OpenAI's own SDK.

    pip install openai
    python think.py --budget 64 "Tom has 3 apples. He buys 4 more and gives 2 to Anna. How many apples does Tom have?"

The gateway is OPENAI_BASE_URL (http://127.0.0.1:8080/v1 if unset), the key OPENAI_API_KEY.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from openai import APIError, OpenAI

DIM, PLAIN = ("\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "")


def main(asked: argparse.Namespace) -> None:
    client = OpenAI(
        base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1"),
        api_key=os.environ.get("OPENAI_API_KEY", "none"),
    )
    stream = client.chat.completions.create(
        model=asked.model,
        messages=[{"role": "user", "content": asked.question}],
        stream=True,
        stream_options={"include_usage": True},
        # What OpenAI's API has no word for travels in the extra body.
        extra_body={} if asked.budget is None else {"thinking_budget": asked.budget},
    )
    part, report, usage = "", {}, None
    for chunk in stream:
        for choice in chunk.choices:
            # The SDK has no field for thoughts, and keeps what it does not know.
            thought = getattr(choice.delta, "reasoning_content", None)
            for name, text in (("thinking", thought), ("answer", choice.delta.content)):
                if text:
                    if name != part:
                        print(heading(name, first=not part))
                        part = name
                    print(text, end="", flush=True)
        report = getattr(chunk, "thinkgate", report)
        usage = chunk.usage or usage
    print(f"{PLAIN}\n{summary(report, usage)}")


def heading(name: str, *, first: bool) -> str:
    start = PLAIN if first else f"{PLAIN}\n"
    return f"{start}[{name}]{DIM if name == 'thinking' else ''}"


def summary(report: dict[str, Any], usage: Any) -> str:
    """From thinkgate's own object, which comes with the finish reason, and from the usage, which comes last."""
    thinking = report["thinking"]
    ended = (
        f"{thinking['tokens']} tokens of thought, ended by {thinking['ended_by']}"
        if thinking["tokens"]
        else "no thought"
    )
    return f"[{report['pool']}: {ended}; {usage.prompt_tokens} tokens in, {usage.completion_tokens} out]"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Ask a question; see the thinking, then the answer.")
    parser.add_argument("question")
    parser.add_argument("--model", default="auto", help="a route, a pool's model, or an alias (default: auto)")
    parser.add_argument("--budget", type=int, help="most tokens of thinking; 0 for none")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main(arguments())
    except APIError as error:
        body = error.body if isinstance(error.body, dict) else {}
        sys.exit(f"{PLAIN}\n{body.get('message') or error}")
    except KeyboardInterrupt:  # the connection closes, and the gateway stops the engine
        sys.exit(130)
