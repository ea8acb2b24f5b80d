"""Every family whose thinking stands between literal `<think>` and `</think>`, and `none` for models without thinking.

Two records may differ in nothing but where the output starts (`qwen3` writes its own `<think>`, `qwen3_thinking`
finds it in the prompt): a wrong start is the most common way to lose an answer, so it is spelled out per generation.
What must not come in: code. Families with markers of their own stand in `parsers.records_tokens`.
"""

from dataclasses import replace
from typing import Final

from parsers.format import Format

NONE: Final = Format(
    id="none",
    models="Models that do not think",
    aliases=("identity",),
    open=(),
    close=(),
    start="closed",
    default_on=False,
)

_TOOL_CALL: Final = ("<tool_call>",)
_BOTH: Final = ("thinking", "enable_thinking")

_QWEN3: Final = Format(
    id="qwen3",
    models="Qwen3 (hybrid), MiMo, Intern-S1, dots",
    aliases=("interns1", "intern_s1", "dots", "mimo", "qwen3_coder"),
    start="closed",
    switch=("enable_thinking",),
    interrupts=_TOOL_CALL,
)
_GLM45: Final = replace(_QWEN3, id="glm45", models="GLM-4.5, GLM-4.6", aliases=("glm46",), reopen=True)
_GLM47: Final = replace(_GLM45, id="glm47", models="GLM-4.7, GLM-5", aliases=("glm5",), start="open")
_KIMI_K2: Final = Format(
    id="kimi_k2",
    models="Kimi-K2-Thinking",
    aliases=("kimi_thinking", "kimi_k2_thinking"),
    start="closed",
    switch=_BOTH,
    interrupts=("<|tool_calls_section_begin|>",),
    end_tokens=("<|im_end|>",),
    needs_special_tokens=True,
)
# Checkpoints suffix their marker tokens; the one known suffix is here, others are a record of their own in YAML.
_HY_V3: Final = Format(
    id="hy_v3",
    models="Hunyuan Hy3",
    aliases=("hunyuan", "hy3"),
    open=("<think>", "<think:6124c78e>"),
    close=("</think>", "</think:6124c78e>"),
    switch=("reasoning_effort",),
    switch_on="high",
    switch_off="no_think",
    efforts=("low", "high"),
    default_on=False,
    interrupts=("<tool_calls>",),
    needs_special_tokens=True,
)

THINK_RECORDS: Final[tuple[Format, ...]] = (
    NONE,
    Format(
        id="think",
        models="Any template that writes `<think>` itself and listens to `enable_thinking`",
        aliases=("default",),
        switch=("enable_thinking",),
    ),
    Format(
        id="deepseek_r1",
        models="DeepSeek-R1, R1-0528, R1-Distill, QwQ-32B, Step-3, Step-5, GigaChat-3.5, Nanbeige, IQuest-Q1",
        aliases=("step3", "step5", "gigachat35", "nanbeige", "iquest_q1", "qwq"),
    ),
    Format(
        id="deepseek_v3",
        models="DeepSeek-V3.1, V3.2",
        aliases=("deepseek_v31", "deepseek_v32", "deepseek"),
        switch=_BOTH,
        default_on=False,
    ),
    Format(
        id="deepseek_v4",
        models="DeepSeek-V4, V4-Flash, V4.1",
        aliases=("deepseek_v41",),
        switch=_BOTH,
        interrupts=("<｜DSML｜tool_calls>", "<｜DSML｜toolcalls>", "<｜DSML｜tool>", "<｜DSML｜ calls>"),
        reopen=True,
    ),
    Format(id="holo2", models="Holo2", switch=_BOTH),
    _QWEN3,
    replace(
        _QWEN3,
        id="qwen3_thinking",
        models="Qwen3-Thinking-2507, Qwen3.5, Qwen3.6",
        aliases=("qwen3_5", "qwen35", "qwen3_6"),
        start="open",
    ),
    _GLM45,
    _GLM47,
    replace(_GLM47, id="glm53", models="GLM-5.3 (always thinks)", aliases=(), switch=()),
    replace(_GLM47, id="ling3", models="Ling-3.0", aliases=(), switch=("enable_thinking", "thinking")),
    _KIMI_K2,
    replace(_KIMI_K2, id="kimi_k25", models="Kimi-K2.5 and later", aliases=("kimi_k2_5",), start="open"),
    Format(
        id="minimax_m2",
        models="MiniMax-M2 to M2.7",
        # The "append think" parsers of the engines leave the same markers in the content, to be split here.
        aliases=("minimax", "minimax_m2_append_think", "minimax_append_think", "append_think"),
        interrupts=("<minimax:tool_call>",),
        late_close="drop",
    ),
    Format(
        id="nemotron_v3",
        models="Nemotron-3 (Nano, Super), Nemotron-Nano-v2",
        aliases=("nemotron_3", "nemotron", "nano_v3"),
        switch=("enable_thinking",),
        interrupts=_TOOL_CALL,
    ),
    Format(id="olmo3", models="OLMo-3-Think"),
    Format(
        id="step3p5",
        models="Step-3.5-Flash, Step-3.7-Flash",
        aliases=("step3_5", "step3p7"),
        interrupts=_TOOL_CALL,
    ),
    Format(
        id="granite33",
        models="Granite 3.3",
        # The wrapper is plain text, which an answer may quote: it counts at the two ends of an answer only.
        close=("</think>", *(f"</think>{blank}<response>" for blank in ("", "\n", "\n\n"))),
        start="closed",
        switch=("thinking",),
        default_on=False,
        end_tokens=("\n</response>", "</response>"),
    ),
    Format(
        id="granite_thinking",
        models="Granite 4.2",
        aliases=("granite_thinking_parser", "granite42"),
        switch=("enable_thinking",),
        interrupts=_TOOL_CALL,
    ),
    Format(id="magistral_2506", models="Magistral-2506 (told to think by its system prompt)", start="closed"),
    Format(
        id="hunyuan_a13b",
        models="Hunyuan-A13B",
        open=("<think>\n", "<think>"),
        close=("\n</think>\n<answer>\n", "</think>\n<answer>\n", "</think>"),
        start="closed",
        switch=("enable_thinking",),
        end_tokens=("\n</answer>", "</answer>"),
        answer_open="",
    ),
    _HY_V3,
    replace(_HY_V3, id="hy_v4", models="Hunyuan Hy4", aliases=("hy4",), default_on=True),
    Format(
        id="ernie45",
        models="ERNIE-4.5-VL, ERNIE-4.5-21B-A3B-Thinking",
        drop=("<response>", "</response>"),
    ),
    # Its repair of literal `\n` escapes in prose is a content filter and left out.
    Format(
        id="minicpmv",
        models="MiniCPM-V",
        open=("<think>", "<reserved_12>", "<|reserved_12|>"),
        switch=("enable_thinking",),
        default_on=False,
        interrupts=_TOOL_CALL,
        drop=tuple(form.format(n) for n in (13, 14, 15) for form in ("<reserved_{}>", "<|reserved_{}|>")),
    ),
    Format(
        id="poolside_v1",
        models="Laguna",
        aliases=("poolside", "laguna"),
        switch=("enable_thinking", "thinking"),
        default_on=False,
    ),
    Format(id="hyperclovax", models="HyperCLOVAX-SEED-Think", switch=("thinking",), default_on=False),
    Format(
        id="pangu",
        models="openPangu",
        aliases=("openpangu",),
        open=("<think>", "[unused16]"),
        close=("</think>", "[unused17]"),
    ),
    Format(id="telechat4", models="TeleChat4", switch=("enable_thinking",), on_no_close="content"),
)
