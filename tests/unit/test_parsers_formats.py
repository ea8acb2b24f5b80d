"""Names to records, and where an output starts."""

import pytest

from parsers import FORMATS, Field, Format, Start, UnknownFormat, detect, lookup, machine_for, resolve_start


def test_every_id_and_alias_means_one_record() -> None:
    names = [name for record in FORMATS for name in {record.id, *record.aliases}]
    assert len(names) == len(set(names))
    assert all(lookup(name) is record for record in FORMATS for name in (record.id, *record.aliases))


@pytest.mark.parametrize(
    ("name", "record_id"),
    [
        ("deepseek-r1", "deepseek_r1"),
        ("DeepSeek_R1", "deepseek_r1"),
        ("step3", "deepseek_r1"),
        ("qwen3-thinking", "qwen3_thinking"),
        ("nemotron_3", "nemotron_v3"),
        ("minimax-append-think", "minimax_m2"),
        ("granite_thinking_parser", "granite_thinking"),
        ("think", "think"),
        ("none", "none"),
        # vLLM
        *[(name, name) for name in ("ernie45", "granite_thinking", "holo2", "hunyuan_a13b", "hy_v3", "hy_v4", "olmo3")],
        *[
            (name, name)
            for name in ("kimi_k2", "kimi_k3", "minimax_m2", "minimax_m3", "mistral", "seed_oss", "step3p5")
        ],
        *[(name, name) for name in ("glm45", "glm47", "ling3", "plamo3", "minicpmv", "k2_horizon", "inkling", "muse")],
        ("openai_gptoss", "harmony"),
        ("granite", "granite_prose"),
        ("cohere_command3", "cohere_command3"),
        ("muse_glimmer", "muse"),
        ("MuseSpark1x", "muse"),
        ("solar_open2", "solar_open2"),
        ("minimax_m2_append_think", "minimax_m2"),
        # SGLang
        ("gpt-oss", "harmony"),
        ("deepseek-v41", "deepseek_v4"),
        ("kimi", "kimi_tri"),
        ("minimax-m3", "minimax_m3"),
        ("interns1", "qwen3"),
        ("hunyuan", "hy_v3"),
        ("apertus2509", "apertus"),
        ("cohere_command4", "cohere"),
        ("iquest_q1", "deepseek_r1"),
        ("telechat4", "telechat4"),
        # TensorRT-LLM
        ("qwen3_5", "qwen3_thinking"),
        ("nemotron", "nemotron_v3"),
        ("laguna", "poolside_v1"),
    ],
)
def test_engine_parser_names_are_known(name: str, record_id: str) -> None:
    assert lookup(name).id == record_id


def test_unknown_name_says_what_is_near() -> None:
    with pytest.raises(UnknownFormat, match="qwen3") as caught:
        lookup("qwen-3")
    assert "qwen3" in caught.value.nearest
    with pytest.raises(UnknownFormat, match=r"'zzzzzzzz'$"):
        lookup("zzzzzzzz")


@pytest.mark.parametrize(
    ("model", "record_id"),
    [
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "deepseek_r1"),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "deepseek_r1"),
        ("unsloth/DeepSeek-R1-Distill-Llama-8B-GGUF:Q4_K_M", "deepseek_r1"),
        ("Qwen/QwQ-32B-AWQ", "deepseek_r1"),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek_v3"),
        ("deepseek-ai/DeepSeek-V3-0324", "none"),
        ("deepseek-ai/DeepSeek-V4-Flash", "deepseek_v4"),
        ("Qwen/Qwen3-8B", "qwen3"),
        ("qwen/qwen3-0.6b-fp8", "qwen3"),
        ("bartowski/Qwen_Qwen3-8B-GGUF", "qwen3"),
        ("/models/Qwen3-32B-AWQ/", "qwen3"),
        ("Qwen/Qwen3-8B-Base", "none"),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", "qwen3_thinking"),
        ("Qwen/Qwen3-4B-Instruct-2507", "none"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "none"),
        ("Qwen/Qwen3-Embedding-0.6B", "none"),
        ("Qwen/Qwen3.5-27B", "qwen3_thinking"),
        ("Qwen/Qwen2.5-7B-Instruct", "none"),
        ("zai-org/GLM-4.5-Air", "glm45"),
        ("zai-org/GLM-4.7-Flash", "glm47"),
        ("zai-org/GLM-5-FP8", "glm47"),
        ("zai-org/GLM-5.3", "glm53"),
        ("moonshotai/Kimi-K2-Thinking", "kimi_k2"),
        ("moonshotai/Kimi-K2-Instruct", "none"),
        ("moonshotai/Kimi-K2.5", "kimi_k25"),
        ("MiniMaxAI/MiniMax-M2.7", "minimax_m2"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron_v3"),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "nemotron_v3"),
        ("allenai/Olmo-3-7B-Think", "olmo3"),
        ("allenai/Olmo-3-7B-Instruct", "none"),
        ("stepfun-ai/Step-3.5-Flash", "step3p5"),
        ("stepfun-ai/step3", "deepseek_r1"),
        ("Hcompany/Holo2-8B", "holo2"),
        ("openai/gpt-oss-20b", "harmony"),
        ("bartowski/openai_gpt-oss-120b-GGUF", "harmony"),
        ("mistralai/Magistral-Small-2506", "magistral_2506"),
        ("mistralai/Magistral-Small-2509", "magistral"),
        ("mistralai/Ministral-3-14B-Reasoning-2512", "magistral"),
        ("mistralai/Ministral-3-14B-Instruct-2512", "none"),
        ("mistralai/Mistral-Small-4-119B", "mistral"),
        ("moonshotai/Kimi-VL-A3B-Thinking-2506", "kimi_tri"),
        ("moonshotai/Kimi-VL-A3B-Instruct", "none"),
        ("moonshotai/Kimi-K3", "kimi_k3"),
        ("MiniMaxAI/MiniMax-M3", "minimax_m3"),
        ("google/gemma-4-31B-it", "gemma4"),
        ("google/gemma-3-27b-it", "none"),
        ("ByteDance-Seed/Seed-OSS-36B-Instruct", "seed_oss"),
        ("CohereLabs/command-a-reasoning-08-2025", "cohere_command3"),
        ("CohereLabs/c4ai-command-r7b-12-2024", "cohere_command3"),
        ("CohereLabs/c4ai-command-a-03-2025", "none"),
        ("CohereLabs/command-a-plus", "cohere"),
        ("ibm-granite/granite-3.2-8b-instruct", "granite_prose"),
        ("ibm-granite/granite-3.3-2b-instruct", "granite33"),
        ("tencent/Hunyuan-A13B-Instruct-FP8", "hunyuan_a13b"),
        ("baidu/ERNIE-4.5-21B-A3B-Thinking", "ernie45"),
        ("baidu/ERNIE-4.5-VL-28B-A3B-PT", "ernie45"),
        ("baidu/ERNIE-4.5-21B-A3B-PT", "none"),
        ("swiss-ai/Apertus-8B-Instruct-2509", "apertus"),
        ("ServiceNow-AI/Apriel-1.5-15b-Thinker", "apriel"),
        ("upstage/Solar-Open-100B", "solar_open"),
        ("upstage/Solar-Open2", "solar_open2"),
        ("pfnet/plamo-3-nict-31b", "plamo3"),
        ("Tele-AI/TeleChat4", "telechat4"),
        ("ifm/K2-Horizon", "k2_horizon"),
        ("Muse-Glimmer", "muse"),
        ("MuseSpark-1x", "muse"),
        ("Inkling-1", "inkling"),
        ("meta-llama/Llama-3.1-8B-Instruct", "none"),
        ("", "none"),
    ],
)
def test_model_names_suggest_a_record(model: str, record_id: str) -> None:
    assert detect(model).id == record_id


@pytest.mark.parametrize(
    ("name", "thinking", "start"),
    [
        ("think", None, Start.OPEN),
        ("think", False, Start.OFF),
        ("qwen3", None, Start.CLOSED),
        ("qwen3", True, Start.CLOSED),
        ("deepseek_v3", None, Start.OFF),
        ("deepseek_v3", True, Start.OPEN),
        ("none", True, Start.OFF),
    ],
)
def test_start_by_request_and_record(name: str, thinking: bool | None, start: Start) -> None:
    assert resolve_start(lookup(name), thinking=thinking) is start


@pytest.mark.parametrize("name", ["deepseek_r1", "glm53"])
def test_no_switch_no_off(name: str) -> None:
    assert resolve_start(lookup(name), thinking=False) is Start.OPEN


def test_request_before_pin_before_tail_before_record() -> None:
    qwen3 = lookup("qwen3")
    assert resolve_start(qwen3, thinking=False, pinned=Start.OPEN, prompt_tail="<think>\n") is Start.OFF
    assert resolve_start(qwen3, thinking=True, pinned=Start.OPEN, prompt_tail="</think>") is Start.OPEN
    assert resolve_start(qwen3, thinking=None, pinned=Start.OFF, prompt_tail="<think>") is Start.OFF
    assert resolve_start(qwen3, thinking=None, prompt_tail="<think>") is Start.OPEN
    assert resolve_start(qwen3, thinking=None) is Start.CLOSED


def test_a_yes_overrules_a_pin_that_says_off() -> None:
    assert resolve_start(lookup("think"), thinking=True, pinned=Start.OFF) is Start.OPEN


@pytest.mark.parametrize(
    ("tail", "start"),
    [
        ("…<|im_start|>assistant\n<think>\n", Start.OPEN),
        ("…<|im_start|>assistant\n<think>\n\n</think>\n\n", Start.CLOSED),
        ("…<|im_start|>assistant\n<think>\nhalf a thought", Start.OPEN),
        ("…<|im_start|>assistant\n<think>\nr\n</think>\n\nhalf an ans", Start.CLOSED),
        ("explain <think>.<|im_end|>\n<|im_start|>assistant\n", Start.CLOSED),
        ("…what does <think> do?", Start.CLOSED),
        ("…<｜Assistant｜></think>", Start.CLOSED),
        ("…</think>", Start.CLOSED),
        ("", Start.CLOSED),
    ],
)
def test_prompt_tail(tail: str, start: Start) -> None:
    assert resolve_start(lookup("qwen3"), thinking=None, prompt_tail=tail) is start


def test_every_record_names_its_models() -> None:
    assert all(record.models for record in FORMATS)
    assert all(record.id == record.id.lower().replace("-", "_") for record in FORMATS)


@pytest.mark.parametrize(
    ("name", "on", "off"),
    [
        ("qwen3", {"enable_thinking": True}, {"enable_thinking": False}),
        ("kimi_k3", {"thinking": True, "enable_thinking": True}, {"thinking": False, "enable_thinking": False}),
        ("hy_v3", {"reasoning_effort": "high"}, {"reasoning_effort": "no_think"}),
        ("minimax_m3", {"thinking_mode": "enabled"}, {"thinking_mode": "disabled"}),
        ("mistral", {"reasoning_effort": "high"}, {"reasoning_effort": "none"}),
        ("seed_oss", {"thinking_budget": -1}, {"thinking_budget": 0}),
        ("deepseek_r1", {}, {}),
        ("harmony", {}, {}),
    ],
)
def test_switches_are_not_always_booleans(name: str, on: dict[str, object], off: dict[str, object]) -> None:
    record = lookup(name)
    assert record.switch_kwargs(True) == on
    assert record.switch_kwargs(False) == off
    assert set(record.switch) == set(on)


def test_a_model_left_to_itself_may_start_elsewhere_than_one_told_to_think() -> None:
    minimax = lookup("minimax_m3")
    assert resolve_start(minimax, thinking=None) is Start.CLOSED
    assert resolve_start(minimax, thinking=True) is Start.OPEN
    assert resolve_start(minimax, thinking=False) is Start.OFF


@pytest.mark.parametrize("record", FORMATS, ids=lambda record: record.id)
def test_a_closed_thought_written_by_the_gateway_goes_on_to_its_answer(record: Format) -> None:
    if not record.open:
        assert record.closing == ""
        return
    machine = machine_for(record, Start.OPEN)
    pieces = (
        machine.feed("half a thought") + machine.feed(record.closing) + machine.feed("the answer") + machine.finish()
    )
    assert "".join(piece.text for piece in pieces if piece.field is Field.REASONING) == "half a thought"
    assert "".join(piece.text for piece in pieces if piece.field is Field.CONTENT) == "the answer"


@pytest.mark.parametrize("record", FORMATS, ids=lambda record: record.id)
@pytest.mark.parametrize("answer", ["the answer", "Final: 4 < 5.", "\tfinally, so", "{}"])
def test_an_answer_read_by_itself_is_shown_as_it_is(record: Format, answer: str) -> None:
    """The leg after a cut starts past the markers, so its parser sees the bare answer and what ends a turn."""
    ends = record.framing.end[:1] if record.framing is not None else record.end_tokens[:1]
    machine = machine_for(record, Start.CLOSED)
    pieces = [piece for letter in answer for piece in machine.feed(letter)]
    pieces += [piece for end in ends for piece in machine.feed(end)] + machine.finish()
    assert {piece.field for piece in pieces} == {Field.CONTENT}
    assert "".join(piece.text for piece in pieces) == answer


@pytest.mark.parametrize(
    ("name", "level", "word"),
    [
        ("harmony", "minimal", "low"),
        ("harmony", "medium", "medium"),
        ("harmony", "max", "high"),
        ("hy_v3", "medium", "high"),
        ("qwen3", "high", None),
    ],
)
def test_a_family_is_told_the_weakest_of_its_words_that_is_no_weaker(name: str, level: str, word: str | None) -> None:
    assert lookup(name).effort_for(level) == word


@pytest.mark.parametrize("record", [record for record in FORMATS if record.open], ids=lambda record: record.id)
@pytest.mark.parametrize("turn", ["", "…<|im_start|>assistant\n", "…<|start|>assistant", "…[/INST]"])
def test_every_family_reads_its_markers_in_a_prompt(record: Format, turn: str) -> None:
    quoted = f"what do {record.close[0]} and {record.open[0]} mean?"
    for marker in record.open:
        assert resolve_start(record, thinking=None, prompt_tail=turn + marker) is Start.OPEN
    for marker in (*record.close, *record.content_open):
        assert resolve_start(record, thinking=None, prompt_tail=f"{turn}{record.open[0]}a{marker}") is Start.CLOSED
    default = resolve_start(record, thinking=None)
    assert resolve_start(record, thinking=None, prompt_tail=quoted + turn) is default
