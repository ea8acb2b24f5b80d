"""Live thinking, then the answer: with LangChain.

    pip install langchain-deepseek
    python langchain_think.py --budget 64 "What is 3 + 4 - 2?"

langchain-openai's ChatOpenAI keeps to OpenAI's own fields: it drops `reasoning_content`, and no setting of it helps.
ChatDeepSeek is the same client, from the same makers, with that field read; it takes any address.

The gateway is OPENAI_BASE_URL (http://127.0.0.1:8080/v1 if unset), the key OPENAI_API_KEY.
"""

from __future__ import annotations

import argparse
import os
import sys

from langchain_core.messages import AIMessageChunk
from langchain_deepseek import ChatDeepSeek
from openai import APIError

DIM, PLAIN = ("\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "")


def main(asked: argparse.Namespace) -> None:
    chat = ChatDeepSeek(
        model=asked.model,
        base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1"),
        api_key=os.environ.get("OPENAI_API_KEY", "none"),
        stream_usage=True,
        # What OpenAI's API has no word for travels in the extra body.
        extra_body=None if asked.budget is None else {"thinking_budget": asked.budget},
    )
    part, whole = "", AIMessageChunk("")
    for chunk in chat.stream(asked.question):
        for block in chunk.content_blocks:
            for name, text in (("thinking", block.get("reasoning")), ("answer", block.get("text"))):
                if text:
                    if name != part:
                        print(heading(name, first=not part))
                        part = name
                    print(text, end="", flush=True)
        whole += chunk
    print(f"{PLAIN}\n{summary(whole)}")


def heading(name: str, *, first: bool) -> str:
    start = PLAIN if first else f"{PLAIN}\n"
    return f"{start}[{name}]{DIM if name == 'thinking' else ''}"


def summary(whole: AIMessageChunk) -> str:
    """LangChain keeps the usage, and drops the object in which thinkgate says how the thinking ended."""
    usage = whole.usage_metadata
    thought = usage["output_token_details"]["reasoning"] or "no"
    return f"[{thought} tokens of thought; {usage['input_tokens']} tokens in, {usage['output_tokens']} out]"


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
