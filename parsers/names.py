"""Reasoning formats as data: how each model family marks its thinking, and which name means which record.

A format is a record; `parsers.machine` runs every one of them, and knows no family by name. This file holds the
families whose thinking stands between literal `<think>` and `</think>` markers, and `none` for models that do not
think. What must not come in: parsing code, and behaviour that depends on anything but these fields.

Two records may differ in nothing but where the output starts (`qwen3` writes its own `<think>`, `qwen3_thinking`
finds it in the prompt): a wrong start is the most common way to lose an answer, so it is spelled out per generation.
"""

import difflib
import re
from dataclasses import dataclass, replace
from typing import Final, Literal


@dataclass(frozen=True)
class Format:
    """One family's convention. Every field is read by the machine, the start resolver or the look-ups."""

    id: str
    aliases: tuple[str, ...] = ()
    """Names of the same convention in engines (`--reasoning-parser`); compared without case, `-` equal to `_`."""

    open: tuple[str, ...] = ("<think>",)
    """Markers that begin reasoning. Empty: the model does not think, and its text is never touched."""

    close: tuple[str, ...] = ("</think>",)
    """Markers that end reasoning."""

    start: Literal["open", "closed"] = "open"
    """Where the output starts while thinking is on: `open` when the chat template already wrote the open marker."""

    switch: tuple[str, ...] = ()
    """Template arguments that turn thinking on and off, the preferred one first. Empty: it cannot be turned off."""

    default_on: bool = True
    """Whether the model thinks when a request does not say."""

    interrupts: tuple[str, ...] = ()
    """Tool-call markers that end reasoning and stay in the content. Only the outer wrapper of a call belongs here.

    They count anywhere in a line: in these families each is a token of its own, not prose.
    """

    reopen: bool = False
    """Whether an open marker in the answer begins another reasoning block, or is text like any other."""

    late_close: Literal["keep", "drop"] = "keep"
    """What becomes of a close marker in the answer: `drop` only for models known to repeat it."""


class UnknownFormat(LookupError):
    """No record has this name; `nearest` holds the names that look like it."""

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        self.name = name
        self.nearest = nearest
        hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
        super().__init__(f"unknown reasoning format {name!r}{hint}")


NONE: Final = Format(id="none", aliases=("identity",), open=(), close=(), start="closed", default_on=False)

_TOOL_CALL: Final = ("<tool_call>",)

_QWEN3: Final = Format(
    id="qwen3",
    aliases=("interns1", "intern_s1", "dots", "mimo", "qwen3_coder"),
    start="closed",
    switch=("enable_thinking",),
    interrupts=_TOOL_CALL,
)
_GLM45: Final = replace(_QWEN3, id="glm45", aliases=("glm46",), reopen=True)
_GLM47: Final = replace(_GLM45, id="glm47", aliases=("glm5",), start="open")
_KIMI_K2: Final = Format(
    id="kimi_k2",
    aliases=("kimi_thinking", "kimi_k2_thinking"),
    start="closed",
    switch=("thinking", "enable_thinking"),
    interrupts=("<|tool_calls_section_begin|>",),
)
_HY_V3: Final = Format(
    id="hy_v3",
    aliases=("hunyuan", "hy3"),
    switch=("reasoning_effort",),
    default_on=False,
    interrupts=("<tool_calls>",),
)

FORMATS: Final[tuple[Format, ...]] = (
    NONE,
    # The plain convention: a template that writes `<think>` itself and listens to `enable_thinking`.
    Format(id="think", aliases=("default",), switch=("enable_thinking",)),
    Format(
        id="deepseek_r1",
        aliases=("step3", "step5", "gigachat35", "nanbeige", "iquest_q1", "qwq"),
    ),
    Format(
        id="deepseek_v3",
        aliases=("deepseek_v31", "deepseek_v32", "deepseek"),
        switch=("thinking", "enable_thinking"),
        default_on=False,
    ),
    Format(
        id="deepseek_v4",
        aliases=("deepseek_v41",),
        switch=("thinking", "enable_thinking"),
        interrupts=("<｜DSML｜tool_calls>", "<｜DSML｜toolcalls>", "<｜DSML｜tool>", "<｜DSML｜ calls>"),
        reopen=True,
    ),
    Format(id="holo2", switch=("thinking", "enable_thinking")),
    _QWEN3,
    replace(_QWEN3, id="qwen3_thinking", aliases=("qwen3_5", "qwen35", "qwen3_6"), start="open"),
    _GLM45,
    _GLM47,
    replace(_GLM47, id="glm53", aliases=(), switch=()),
    replace(_GLM47, id="ling3", aliases=(), switch=("enable_thinking", "thinking")),
    _KIMI_K2,
    replace(_KIMI_K2, id="kimi_k25", aliases=("kimi_k2_5",), start="open"),
    Format(
        id="minimax_m2",
        # The "append think" parsers of the engines leave the same markers in the content, to be split here.
        aliases=("minimax", "minimax_m2_append_think", "minimax_append_think", "append_think"),
        interrupts=("<minimax:tool_call>",),
        late_close="drop",
    ),
    Format(
        id="nemotron_v3",
        aliases=("nemotron_3", "nemotron", "nano_v3"),
        switch=("enable_thinking",),
        interrupts=_TOOL_CALL,
    ),
    Format(id="olmo3"),
    Format(id="step3p5", aliases=("step3_5", "step3p7"), interrupts=_TOOL_CALL),
    Format(
        id="granite_thinking",
        aliases=("granite_thinking_parser", "granite42"),
        switch=("enable_thinking",),
        interrupts=_TOOL_CALL,
    ),
    # Checkpoints with suffixed marker tokens (`<think:6124c78e>`) take this record with their literals put in.
    _HY_V3,
    replace(_HY_V3, id="hy_v4", aliases=("hy4",), default_on=True),
    Format(id="poolside_v1", aliases=("poolside", "laguna"), switch=("enable_thinking", "thinking"), default_on=False),
    Format(id="minicpmv", switch=("enable_thinking",), default_on=False, interrupts=_TOOL_CALL),
    Format(id="hyperclovax", switch=("thinking",), default_on=False),
    Format(id="pangu", aliases=("openpangu",), open=("<think>", "[unused16]"), close=("</think>", "[unused17]")),
)


def _fold(name: str) -> str:
    return name.strip().lower().replace("-", "_")


_BY_NAME: Final = {_fold(name): record for record in FORMATS for name in (record.id, *record.aliases)}

# Published model names, first match wins, so the exceptions of a family stand before the family. Searched in the
# folded last path component; what follows the match (size, date, quantisation) does not matter.
_BY_MODEL: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(rf"(?:^|_)(?:{pattern})"), record_id)
    for pattern, record_id in (
        (r"deepseek_r1|r1_distill|r1_0528|qwq|gigachat_?3\.5|nanbeige|iquest_q1", "deepseek_r1"),
        (r"deepseek_v4", "deepseek_v4"),
        (r"deepseek_v3\.[12]", "deepseek_v3"),
        (r"step_?3[.p][57]", "step3p5"),
        (r"step_?[35](?![0-9.p])", "deepseek_r1"),
        (r"qwen_?3(?:\.\d)?_(?:coder|embedding|reranker|guard|asr|tts)", "none"),
        (r"qwen_?3(?:\.\d)?_.*thinking", "qwen3_thinking"),
        (r"qwen_?3(?:\.\d)?_.*instruct", "none"),
        (r"qwen_?3\.[5-9]", "qwen3_thinking"),
        (r"qwen_?3(?![0-9.])|mimo|intern_?s1", "qwen3"),
        (r"glm_?4\.[56]", "glm45"),
        (r"glm_?5\.3", "glm53"),
        (r"glm_?(?:4\.7|5)", "glm47"),
        (r"ling_?3", "ling3"),
        (r"kimi_k2_thinking", "kimi_k2"),
        (r"kimi_k2\.[5-9]", "kimi_k25"),
        (r"minimax_m2", "minimax_m2"),
        (r"nemotron_(?:3|nano_.*v2)", "nemotron_v3"),
        (r"olmo_?3.*think", "olmo3"),
        (r"granite_4\.2", "granite_thinking"),
        (r"holo_?2", "holo2"),
        (r"(?:hunyuan_)?hy_?3", "hy_v3"),
        (r"(?:hunyuan_)?hy_?4", "hy_v4"),
        (r"laguna", "poolside_v1"),
        (r"minicpm_v", "minicpmv"),
        (r"hyperclovax_seed_think", "hyperclovax"),
        (r"openpangu", "pangu"),
    )
)
_BASE_MODEL: Final = re.compile(r"_base(?:_|$)")


def lookup(name: str) -> Format:
    """The record of a format id or of an engine's parser name. Raises `UnknownFormat` with the nearest names."""
    folded = _fold(name)
    record = _BY_NAME.get(folded)
    if record is None:
        raise UnknownFormat(name, tuple(difflib.get_close_matches(folded, _BY_NAME, n=3, cutoff=0.5)))
    return record


def detect(model_name: str) -> Format:
    """The record a published model name suggests; `none` for a name that is not known to think.

    Owner, path, case and quantisation suffixes do not matter. A guess to be overridden by configuration.
    """
    folded = _fold(model_name.rstrip("/").rpartition("/")[2])
    if not _BASE_MODEL.search(folded):
        for pattern, record_id in _BY_MODEL:
            if pattern.search(folded):
                return _BY_NAME[record_id]
    return NONE
