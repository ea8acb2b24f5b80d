"""What the person asks, read out of an OpenAI message list.

The classifier must judge the ask, not what a harness wrapped around it: injected reminders, environment dumps and
tool results are dropped here, and nowhere else. Nothing in this file classifies, and nothing in it may raise on the
odd shapes clients send: what cannot be read counts as absent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

NOISE_TAGS: Final = (
    "system-reminder",
    "system_reminder",
    "environment",
    "environment_details",
    "environment_context",
    "env",
    "user_instructions",
    "local-command-stdout",
    "local-command-stderr",
    "command-name",
    "command-message",
    "command-args",
    "tool_result",
    "function_results",
    "user-memory",
    "memory",
    "memories",
    "ide_opened_file",
    "ide_selection",
    "additional_data",
    "attached_files",
    "git_status",
)
"""Tags whose blocks coding agents and chat front ends put into a user's turn; a config may name more."""
_ASK_TAGS: Final = ("user_query", "userRequest", "user_request", "user-request", "task")
"""Tags that harnesses put around the person's own words: when one is there, only its inside is the ask."""
_TEXT_TYPES: Final = frozenset({"text", "input_text"})
_IMAGE_TYPES: Final = frozenset({"image_url", "input_image", "image"})
_SYSTEM_ROLES: Final = frozenset({"system", "developer"})
_SYSTEM_CHARS: Final = 600
MOST_CHARS: Final = 65_536
"""Of a longer turn the first and the last half of this are read: what matters stands at its ends, and reading all of a
32 MiB paste would hold whoever waits."""
MOST_IN_ALL: Final = 4 * MOST_CHARS
"""Characters after which no further turn is looked for: turns of nothing but noise do not count as turns, and there may
be hundreds."""
MOST_PARTS: Final = 256
"""Content parts of one turn that are read, half of them from its end."""
MOST_MESSAGES: Final = 1_024
"""Messages that are looked at, an eighth of them from the start, where the system prompt stands."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The last user turn and the little of its past that the verdict may use."""

    text: str
    """The last user turn: text parts only, harness noise stripped."""
    earlier: str = ""
    """The user turn before it, read the same way; empty when there is none."""
    before: str = ""
    """The user turn before that one."""
    system: str = ""
    """The head of the first system prompt, at most 600 characters: a bounded prior, never classified as an ask."""
    has_tools: bool = False
    """The request offers tools. Carried for policy; the classifier does not weigh it."""
    has_images: bool = False
    """The last user turn holds at least one image part."""
    turns: int = 1
    """User turns that carry text or an image, at least 1."""


def read_ask(
    messages: Sequence[Mapping[str, Any]], *, has_tools: bool = False, noise: Sequence[str] = NOISE_TAGS
) -> Ask:
    """Read the ask from a message list, newest user turn last; `noise`: tags whose blocks are dropped.

    A user turn that holds harness noise alone (a reminder, a tool's output) is no turn. Never raises: messages
    without a role, content of any type, parts of any shape are skipped. Only the last three turns and the first
    system prompt are read, up to `MOST_CHARS` each, so that the time is bounded whatever is sent.
    """
    turns: list[tuple[str, bool]] = []
    system = ""
    count = 0
    seen = 0
    for message in reversed(_ends(cast("Sequence[object]", messages), MOST_MESSAGES, MOST_MESSAGES // 8)):
        if not isinstance(message, Mapping):
            continue
        fields = cast("Mapping[str, object]", message)
        role = fields.get("role")
        if not isinstance(role, str):
            continue
        if role in _SYSTEM_ROLES:
            system = _read_content(fields.get("content"), ())[0][:_SYSTEM_CHARS]
        elif role == "user":
            if len(turns) == 3 or seen >= MOST_IN_ALL:
                count += 1
                continue
            text, image, size = _read_content(fields.get("content"), noise)
            seen += size
            if text or image:
                turns.append((text, image))
                count += 1
    if not turns:
        return Ask("", system=system, has_tools=has_tools)
    text, image = turns[0]
    earlier = turns[1][0] if len(turns) > 1 else ""
    before = turns[2][0] if len(turns) > 2 else ""
    return Ask(text, earlier, before, system, has_tools=has_tools, has_images=image, turns=count)


def strip_noise(text: str, tags: Sequence[str] = NOISE_TAGS) -> str:
    """Remove closed harness blocks; an unclosed one stays, since the ask may follow it. Linear in the text."""
    if "</" not in text:
        return text.strip()
    for tag in _ASK_TAGS:
        inside = _inside(text, f"<{tag}>", f"</{tag}>")
        if inside:
            text = inside
            break
    for tag in tags:
        text = _strip_tag(text, f"<{tag}>", f"</{tag}>")
    return text.strip()


def _inside(text: str, opening: str, closing: str) -> str:
    """What stands between the last opening tag and the closing one after it; empty when there is no such pair."""
    start = text.rfind(opening)
    if start < 0:
        return ""
    end = text.find(closing, start)
    return text[start + len(opening) : end].strip() if end >= 0 else ""


def _strip_tag(text: str, opening: str, closing: str) -> str:
    start = text.find(opening)
    if start < 0:
        return text
    kept: list[str] = []
    position = 0
    while start >= 0:
        end = text.find(closing, start)
        if end < 0:
            break
        kept.append(text[position:start])
        position = end + len(closing)
        start = text.find(opening, position)
    kept.append(text[position:])
    return "".join(kept)


def _ends(items: Sequence[object], most: int, head: int) -> Sequence[object]:
    """The items, or the first `head` of them and the last ones when there are more than `most`."""
    return items if len(items) <= most else [*items[:head], *items[head - most :]]


def _ends_of(text: str, most: int = MOST_CHARS) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}\n{text[len(text) - most // 2 :]}"


def _read_content(content: object, noise: Sequence[str]) -> tuple[str, bool, int]:
    """Text and presence of an image in one message's content, and how many characters were looked at for it."""
    if isinstance(content, str):
        text = _ends_of(content)
        return strip_noise(text, noise), False, len(text)
    if not isinstance(content, Sequence) or isinstance(content, bytes | bytearray | memoryview):
        return "", False, 0
    texts: list[str] = []
    image = False
    for part in _ends(cast("Sequence[object]", content), MOST_PARTS, MOST_PARTS // 2):
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping):
            fields = cast("Mapping[str, object]", part)
            kind = fields.get("type")
            text = fields.get("text")
            if not isinstance(kind, str):
                continue
            if kind in _TEXT_TYPES and isinstance(text, str):
                texts.append(text)
            elif kind in _IMAGE_TYPES:
                image = True
    most = MOST_CHARS // len(texts) if sum(map(len, texts)) > MOST_CHARS else MOST_CHARS
    ends = [_ends_of(text, most) for text in texts]
    read = [strip_noise(text, noise) for text in ends]
    return "\n".join(text for text in read if text), image, sum(map(len, ends))
