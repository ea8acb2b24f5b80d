"""The grammars of message-framed families: which tokens they use, and what a header means.

What must not come in: code; `parsers.framed` runs them.
"""

from typing import Final

from parsers.format import Framing

HARMONY: Final = Framing(
    begin=("<|start|>", "<|channel|>"),
    bodies=(("<|message|>", None),),
    end=("<|end|>", "<|return|>", "<|call|>"),
    inner=("<|constrain|>",),
    tool=r"\bto=(?!assistant\b|user\b|all\b)[^\s<]",
    reasoning=r"<\|channel\|>\s*analysis(?!.*<\|channel\|>)",
    header=(
        r"\s*(?:assistant)*(?:\s*to=\S*)?\s*(?:analysis|commentary|final)?"
        r"(?:\s*to=\S*)?\s*(?:analysis|commentary|final)?(?:\s*\w+)?\s*"
    ),
    implied="to=",
    stripped=Framing(
        begin=(),
        bodies=(
            ("assistantanalysis", "reasoning"),
            ("assistantcommentary", "content"),
            ("assistantfinal", "content"),
        ),
        end=(),
    ),
    stripped_lead=(
        ("analysis", r"[^\s.,:;!?)'’-]", "reasoning"),
        ("commentary", "[A-Z]", "content"),
        ("final", "[A-Z]", "content"),
    ),
)

MUSE: Final = Framing(
    begin=("<|start|>",),
    bodies=(("<|message|>", None),),
    end=("<|eom|>", "<|eot|>"),
    tool=r"\bto=(?!self\b|user\b)[^\s<]",
    reasoning=r"\bto=self\b",
    header=r"\s*(?:assistant)*\s*(?:to=\S*)?\s*",
    implied="to=",
)

INKLING: Final = Framing(
    begin=("<|message_model|>",),
    bodies=(
        ("<|content_thinking|>", "reasoning"),
        ("<|content_text|>", "content"),
        ("<|content_invoke_tool_json|>", "tool"),
        ("<|content_invoke_tool_text|>", "tool"),
    ),
    end=("<|end_message|>", "<|content_model_end_sampling|>"),
    header=r"\s*[\w.]*\s*",
)

SOLAR: Final = Framing(
    begin=("<|begin|>",),
    bodies=(("<|think|>", "reasoning"), ("<|content|>", "content"), ("<|tool_calls|>", "tool")),
    end=("<|end|>", "<|calls|>", "<|flush|>"),
)
