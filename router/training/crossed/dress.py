"""What surrounds an ask without changing it: case, politeness, quoting, a harness's noise. Drawn without the label.

Every dress here must fit a simple ask and a reasoning one alike, or it would teach the dress instead of the ask.
"""

import random

_FILES = ("src/app.ts", "lib/queue.py", "README.md", "cmd/main.go", "tests/test_cart.py", "notes/plan.md")
_ROLES = (
    "You are a coding agent working in /repo. Use the tools. Be concise.",
    "You are a helpful assistant. Today is Friday. The user's locale is en-GB.",
    "You are running inside an IDE. The user has 3 files open.",
    "# Agent instructions\n- prefer small diffs\n- never push to main\n- think before you edit",
)


def dress(text: str, rng: random.Random, pre: list[str], post: list[str]) -> str:
    """One or two small changes of manner, or none."""
    if pre and rng.random() < 0.14:
        text = f"{rng.choice(pre)} {text}"
    if post and rng.random() < 0.14:
        text = f"{text}{rng.choice((' ', ' ', ', ', chr(10)))}{rng.choice(post)}"
    draw = rng.random()
    if draw < 0.14:
        text = text.lower()
    elif draw < 0.17:
        text = text.upper()
    draw = rng.random()
    if draw < 0.08:
        text = text.rstrip(".?!？。؟")
    elif draw < 0.1:
        text = _typo(text, rng)
    return text


def join(content: str, ask: str, rng: random.Random) -> str:
    """Content and ask in one turn, in either order, quoted or not."""
    if rng.random() < 0.3:
        content = rng.choice(('"{}"', "«{}»", "```\n{}\n```", "> {}", "---\n{}\n---", "'{}'")).format(content)
    if rng.random() < 0.5:
        return f"{content}{rng.choice((' ', chr(10), chr(10) * 2, ' -> '))}{ask}"
    return f"{ask.rstrip('.')}{rng.choice((': ', chr(10), chr(10) * 2, ' — ', ' '))}{content}"


def harness(text: str, rng: random.Random) -> str:
    """The turn as an agent's harness sends it: with environment, files or instructions before or after."""
    block = rng.choice((_environment, _listing, _role, _tool_output))(rng)
    if rng.random() < 0.75:
        return f"{block}\n\n{rng.choice(('', 'User: ', 'Task: ', '## Request' + chr(10), 'USER QUERY: '))}{text}"
    return f"{text}\n\n{block}"


def _environment(rng: random.Random) -> str:
    return (
        f"<env>\nWorking directory: /home/dev/{rng.choice(('shop', 'api', 'infra'))}\nIs directory a git repo: Yes\n"
        f"Platform: linux\nToday's date: 2025-{rng.randrange(1, 13):02d}-{rng.randrange(1, 28):02d}\n</env>"
    )


def _listing(rng: random.Random) -> str:
    return "Open files:\n" + "\n".join(f"- {name}" for name in rng.sample(_FILES, rng.randrange(2, 5)))


def _role(rng: random.Random) -> str:
    return rng.choice(_ROLES)


def _tool_output(rng: random.Random) -> str:
    return f"[tool: run_tests] {rng.randrange(1, 300)} passed, {rng.randrange(0, 4)} failed in {rng.randrange(2, 90)}s"


def _typo(text: str, rng: random.Random) -> str:
    if len(text) < 8:
        return text
    place = rng.randrange(1, len(text) - 2)
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
