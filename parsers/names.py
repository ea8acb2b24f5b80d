"""Which record a name means: a format's id, an engine's parser name, or the published name of a model.

What must not come in: behaviour of a format. A model's name suggests a record; configuration may say otherwise.
"""

import difflib
import re
from typing import Final

from parsers.format import Format
from parsers.records import NONE, THINK_RECORDS
from parsers.records_tokens import TOKEN_RECORDS

FORMATS: Final[tuple[Format, ...]] = (*THINK_RECORDS, *TOKEN_RECORDS)


class UnknownFormat(LookupError):
    """No record has this name; `nearest` holds the names that look like it."""

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        self.name = name
        self.nearest = nearest
        hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
        super().__init__(f"unknown reasoning format {name!r}{hint}")


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
        (r"granite_3\.2", "granite_prose"),
        (r"granite_3\.3", "granite33"),
        (r"granite_4\.2", "granite_thinking"),
        (r"holo_?2", "holo2"),
        (r"hunyuan_a13b", "hunyuan_a13b"),
        (r"(?:hunyuan_)?hy_?3", "hy_v3"),
        (r"(?:hunyuan_)?hy_?4", "hy_v4"),
        (r"gpt_oss", "harmony"),
        (r"magistral_.*2506", "magistral_2506"),
        (r"magistral|ministral_3_.*reasoning", "magistral"),
        (r"mistral_small_4", "mistral"),
        (r"kimi_vl_.*thinking", "kimi_tri"),
        (r"kimi_k3", "kimi_k3"),
        (r"minimax_m3", "minimax_m3"),
        (r"gemma_?4", "gemma4"),
        (r"seed_oss", "seed_oss"),
        (r"command_a_plus|cohere2_?moe", "cohere"),
        (r"command_r7b|command_a_reasoning", "cohere_command3"),
        (r"ernie_4\.5_(?:vl|.*thinking)", "ernie45"),
        (r"apertus_.*2509", "apertus"),
        (r"apriel_1\.[56]", "apriel"),
        (r"plamo_?3", "plamo3"),
        (r"k2_horizon", "k2_horizon"),
        (r"solar_open_?2", "solar_open2"),
        (r"solar_open", "solar_open"),
        (r"telechat_?4", "telechat4"),
        (r"muse(?:_|spark)", "muse"),
        (r"inkling", "inkling"),
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
