"""What each engine's dialect sends, for a first leg and for the leg that answers after a cut."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from budgets import How, Plan
from gateway.config import R1_HYGIENE, EngineKind, Hygiene
from gateway.engines import DIALECTS, Call, Path, Prefix, Profile
from parsers import Start, lookup

VLLM, SGLANG, LLAMACPP, OPENAI = (
    DIALECTS[kind] for kind in (EngineKind.VLLM, EngineKind.SGLANG, EngineKind.LLAMACPP, EngineKind.OPENAI)
)
EVERY = {"vllm": VLLM, "sglang": SGLANG, "llamacpp": LLAMACPP, "openai": OPENAI}
BY_IDS = {"vllm": VLLM, "sglang": SGLANG}
OFF = Plan(How.OFF, None, 256, None, "pool")
CUT = Plan(How.CUT, 40, 256, None, "thinking_budget")
NATIVE = Plan(How.NATIVE, 40, 256, None, "thinking_budget")
THOUGHT = Prefix("Rivers run.\nTime is up.\n", "")
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why do rivers bend?"}]
PICTURE = [{"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {}}]}]

every_dialect = pytest.mark.parametrize("dialect", EVERY.values(), ids=EVERY)
by_ids = pytest.mark.parametrize("dialect", BY_IDS.values(), ids=BY_IDS)


def profile(format: str = "qwen3", rules: Hygiene | None = None, splits: bool | None = None) -> Profile:  # noqa: A002
    return Profile("the-model", lookup(format), rules or Hygiene(), splits)


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "alias", "messages": deepcopy(MESSAGES), **fields}


def limited(limit: int) -> Plan:
    return Plan(How.CUT, 40, 20, limit, "max_tokens")


@every_dialect
class TestFirstLeg:
    def test_chat_in_the_name_the_engine_knows(self, dialect: Any) -> None:
        call = dialect.chat(body(), profile(), CUT)
        assert call.path == "/v1/chat/completions"
        assert call.body["model"] == "the-model"
        assert call.body["messages"] == MESSAGES
        assert call.tokenize == ()

    @pytest.mark.parametrize("fields", [{}, {"stream": False}, {"stream": True, "stream_options": None}], ids=str)
    def test_is_streamed_with_usage_whatever_the_client_wants(self, dialect: Any, fields: dict[str, Any]) -> None:
        sent = dialect.chat(body(**fields), profile(), CUT).body
        assert sent["stream"] is True
        assert sent["stream_options"].items() >= {"include_usage": True}.items()

    def test_the_clients_stream_options_are_kept(self, dialect: Any) -> None:
        options = {"include_usage": False, "continuous_usage_stats": True}
        sent = dialect.chat(body(stream=True, stream_options=options), profile(), CUT).body
        assert sent["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}

    @pytest.mark.parametrize(
        ("fields", "sent_as"),
        [
            ({"max_tokens": 500}, {"max_tokens": 300}),
            ({"max_completion_tokens": 500}, {"max_completion_tokens": 300}),
            ({"max_tokens": 500, "max_completion_tokens": 900}, {"max_completion_tokens": 300}),
        ],
        ids=str,
    )
    def test_one_limit_is_sent_under_the_clients_name(
        self, dialect: Any, fields: dict[str, Any], sent_as: dict[str, Any]
    ) -> None:
        sent = dialect.chat(body(**fields), profile(), limited(300)).body
        assert {name: sent[name] for name in ("max_tokens", "max_completion_tokens") if name in sent} == sent_as

    def test_no_limit_is_invented(self, dialect: Any) -> None:
        sent = dialect.chat(body(), profile(), CUT).body
        assert not {"max_tokens", "max_completion_tokens"} & set(sent)

    @pytest.mark.parametrize(
        "fields",
        [
            {"reasoning": {"max_tokens": 40}},
            {"thinking": {"type": "enabled", "budget_tokens": 40}},
            {"enable_thinking": True},
            {"thinking_budget": 40},
            {"thinking_token_budget": 40},
            {"max_thinking_tokens": 40},
            {"include_reasoning": False},
        ],
        ids=lambda fields: next(iter(fields)),
    )
    def test_what_the_client_said_of_thinking_is_not_forwarded(self, dialect: Any, fields: dict[str, Any]) -> None:
        assert not set(fields) & set(dialect.chat(body(**fields), profile(), CUT).body)

    def test_unknown_fields_travel_untouched(self, dialect: Any) -> None:
        fields = {"top_k": 3, "seed": 7, "made_up": {"deep": [1, None]}, "tools": [{"type": "function"}]}
        sent = dialect.chat(body(**fields), profile(), CUT).body
        assert {name: sent[name] for name in fields} == fields

    @pytest.mark.parametrize("plan", [OFF, CUT, NATIVE], ids=lambda plan: plan.how)
    def test_the_clients_body_is_not_changed(self, dialect: Any, plan: Plan) -> None:
        asked = body(
            max_tokens=9,
            stream_options={"include_usage": False},
            chat_template_kwargs={"enable_thinking": True, "tone": "dry"},
            thinking_budget=40,
        )
        before = deepcopy(asked)
        call = dialect.chat(asked, profile(rules=R1_HYGIENE), plan)
        for path in dialect.paths(body(), lookup("qwen3")):
            dialect.onward(call, THOUGHT, profile(), 10, path)
        assert asked == before

    def test_prompt_rules_of_a_model(self, dialect: Any) -> None:
        sent = dialect.chat(body(), profile("deepseek_r1", R1_HYGIENE), CUT).body
        assert sent["messages"] == [{"role": "user", "content": "Be brief.\n\nWhy do rivers bend?"}]
        assert (sent["temperature"], sent["top_p"]) == (0.6, 0.95)

    def test_prompt_rules_give_way_to_the_client(self, dialect: Any) -> None:
        sent = dialect.chat(body(temperature=0, top_p=1), profile("deepseek_r1", R1_HYGIENE), CUT).body
        assert (sent["temperature"], sent["top_p"]) == (0, 1)

    @pytest.mark.parametrize("plan", [OFF, CUT, NATIVE], ids=lambda plan: plan.how)
    def test_where_its_text_begins(self, dialect: Any, plan: Plan) -> None:
        starts = {name: dialect.chat(body(), profile(name), plan).start for name in ("qwen3", "think", "deepseek_r1")}
        thinking = {"qwen3": Start.CLOSED, "think": Start.OPEN, "deepseek_r1": Start.OPEN}
        # A family without a switch thinks whether it is told to or not.
        silent = {"qwen3": Start.OFF, "think": Start.OFF, "deepseek_r1": Start.OPEN}
        assert starts == (silent if plan is OFF else thinking)


@pytest.mark.parametrize("dialect", [VLLM, SGLANG, LLAMACPP], ids=["vllm", "sglang", "llamacpp"])
class TestSwitch:
    @pytest.mark.parametrize("plan", [OFF, CUT, NATIVE], ids=lambda plan: plan.how)
    @pytest.mark.parametrize(
        ("format", "names"),
        [
            ("qwen3", {"enable_thinking"}),
            ("deepseek_v3", {"thinking", "enable_thinking"}),
            ("hyperclovax", {"thinking"}),
        ],
    )
    def test_is_the_familys(self, dialect: Any, plan: Plan, format: str, names: set[str]) -> None:  # noqa: A002
        sent = dialect.chat(body(), profile(format), plan).body
        assert sent["chat_template_kwargs"] == dict.fromkeys(names, plan is not OFF)

    def test_overrules_the_clients_and_keeps_its_other_arguments(self, dialect: Any) -> None:
        kwargs = {"enable_thinking": True, "thinking_budget": 40, "tone": "dry"}
        sent = dialect.chat(body(chat_template_kwargs=kwargs), profile(), OFF).body
        assert sent["chat_template_kwargs"] == {"tone": "dry", "enable_thinking": False}

    def test_is_not_sent_to_a_family_without_one(self, dialect: Any) -> None:
        assert "chat_template_kwargs" not in dialect.chat(body(), profile("deepseek_r1"), OFF).body


class TestOneEnginesOwn:
    def test_vllm_is_told_the_cap_it_enforces(self) -> None:
        assert VLLM.chat(body(), profile(), NATIVE).body["thinking_token_budget"] == 40

    @pytest.mark.parametrize("plan", [OFF, CUT], ids=lambda plan: plan.how)
    def test_vllm_is_told_no_cap_that_the_gateway_enforces(self, plan: Plan) -> None:
        assert "thinking_token_budget" not in VLLM.chat(body(), profile(), plan).body

    @pytest.mark.parametrize("dialect", [SGLANG, LLAMACPP, OPENAI], ids=["sglang", "llamacpp", "openai"])
    def test_no_other_engine_is_told_a_cap(self, dialect: Any) -> None:
        sent = dialect.chat(body(), profile(), NATIVE).body
        assert 40 not in sent.values()
        assert 40 not in sent.get("chat_template_kwargs", {}).values()

    def test_llama_server_writes_during_prefill(self) -> None:
        assert LLAMACPP.chat(body(), profile(), CUT).body["return_progress"] is True

    @pytest.mark.parametrize(("told", "taken"), [(None, True), (False, False), (True, True)])
    def test_llama_server_splits_unless_told_otherwise(self, told: bool | None, taken: bool) -> None:
        assert LLAMACPP.chat(body(), profile(splits=told), CUT).engine_splits is taken

    @pytest.mark.parametrize("dialect", [VLLM, SGLANG, OPENAI], ids=["vllm", "sglang", "openai"])
    @pytest.mark.parametrize("told", [None, True, False])
    def test_whether_the_others_split_is_the_pools_to_say(self, dialect: Any, told: bool | None) -> None:
        assert dialect.chat(body(), profile(splits=told), CUT).engine_splits is told

    def test_a_hosted_api_gets_its_own_effort_and_no_template_arguments(self) -> None:
        asked = body(reasoning={"effort": "low"}, chat_template_kwargs={"tone": "dry"})
        sent = OPENAI.chat(asked, profile(), replace(CUT, level="low")).body
        assert sent["reasoning_effort"] == "low"
        assert "chat_template_kwargs" not in sent
        assert "reasoning_effort" not in OPENAI.chat(asked, profile(), CUT).body

    @pytest.mark.parametrize(("cap", "effort", "word"), [(40, "minimal", "low"), (9_000, "high", "high")])
    def test_a_family_that_heeds_words_is_told_the_one_that_fits_its_cap(
        self, cap: int, effort: str, word: str
    ) -> None:
        plan = replace(CUT, cap=cap, effort=effort)
        asked = body(chat_template_kwargs={"reasoning_effort": "max", "tone": "dry"})
        for dialect in (VLLM, SGLANG):
            sent = dialect.chat(asked, profile("harmony"), plan).body
            assert (sent["reasoning_effort"], sent["chat_template_kwargs"]) == (word, {"tone": "dry"})
        sent = LLAMACPP.chat(asked, profile("harmony"), plan).body
        assert sent["chat_template_kwargs"] == {"reasoning_effort": word, "tone": "dry"}
        assert "reasoning_effort" not in sent

    def test_where_the_effort_is_the_switch_it_stays_in_its_place(self) -> None:
        sent = VLLM.chat(body(), profile("hy_v3"), replace(CUT, effort="low")).body
        assert sent["chat_template_kwargs"] == {"reasoning_effort": "low"}
        assert "reasoning_effort" not in sent

    def test_a_family_without_efforts_gets_none_but_keeps_its_own_argument(self) -> None:
        sent = VLLM.chat(
            body(chat_template_kwargs={"reasoning_effort": "odd"}), profile(), replace(CUT, effort="low")
        ).body
        assert sent["chat_template_kwargs"] == {"reasoning_effort": "odd", "enable_thinking": True}
        assert "reasoning_effort" not in sent

    def test_a_hosted_api_is_not_continued(self) -> None:
        assert OPENAI.paths(body(), lookup("qwen3")) == ()


def answer(
    dialect: Any,
    prefix: Prefix = THOUGHT,
    *,
    format: str = "qwen3",  # noqa: A002
    limit: int | None = 90,
    **fields: Any,
) -> Call:
    """By the most trusted path."""
    asked = body(**fields)
    first = dialect.chat(asked, profile(format), CUT)
    return dialect.onward(first, prefix, profile(format), limit, dialect.paths(asked, lookup(format))[0])


def over(dialect: Any, path: Path, prefix: Prefix = THOUGHT, *, format: str = "qwen3", **fields: Any) -> Call:  # noqa: A002
    first = dialect.chat(body(**fields), profile(format), CUT)
    return dialect.onward(first, prefix, profile(format), 90, path)


@by_ids
class TestAnswerByIds:
    def test_goes_to_the_route_that_takes_ids_and_is_read_as_plain_text(self, dialect: Any) -> None:
        call = answer(dialect)
        assert (call.path, call.start, call.engine_splits) == ("/v1/completions", Start.CLOSED, False)
        assert "messages" not in call.body
        assert "chat_template_kwargs" not in call.body
        assert call.body["model"] == "the-model"
        assert call.body["stream"] is True
        assert call.body["stream_options"]["include_usage"] is True

    def test_the_prompt_is_the_chats_own_and_then_the_thought(self, dialect: Any) -> None:
        prompt, text = answer(dialect, chat_template_kwargs={"tone": "dry"}).tokenize
        assert prompt["messages"] == MESSAGES
        assert prompt["chat_template_kwargs"] == {"tone": "dry", "enable_thinking": True}
        assert {prompt["model"], text["model"]} == {"the-model"}
        assert text["add_special_tokens"] is False

    def test_messages_are_rendered_as_the_first_leg_sent_them(self, dialect: Any) -> None:
        first = dialect.chat(body(), profile("deepseek_r1", R1_HYGIENE), CUT)
        call = dialect.onward(first, THOUGHT, profile("deepseek_r1", R1_HYGIENE), 90, Path.IDS)
        assert call.tokenize[0]["messages"] == first.body["messages"] != MESSAGES
        assert (call.body["temperature"], call.body["top_p"]) == (0.6, 0.95)

    def test_a_thought_that_the_prompt_opened_is_not_opened_again(self, dialect: Any) -> None:
        _, text = answer(dialect, format="deepseek_r1").tokenize
        assert text["prompt"] == "Rivers run.\nTime is up.\n</think>\n\n"

    @pytest.mark.parametrize("begin", ["", "\n"], ids=["split here", "split by the engine"])
    def test_a_thought_that_the_model_opened_is_opened_as_it_did(self, dialect: Any, begin: str) -> None:
        _, text = answer(dialect, Prefix(f"{begin}Rivers run.\n", "")).tokenize
        assert text["prompt"] == "<think>\nRivers run.\n</think>\n\n"

    def test_the_first_words_of_the_answer_come_last(self, dialect: Any) -> None:
        _, text = answer(dialect, Prefix("Rivers run.\n", "In short:")).tokenize
        assert text["prompt"].endswith("</think>\n\nIn short:")

    def test_sampling_goes_on_as_it_was(self, dialect: Any) -> None:
        fields = {
            "temperature": 0,
            "top_p": 0.5,
            "top_k": 3,
            "min_p": 0.1,
            "presence_penalty": 0.2,
            "frequency_penalty": 0.3,
            "repetition_penalty": 1.1,
            "logit_bias": {"7": -100},
            "stop_token_ids": [9],
            "ignore_eos": True,
            "return_token_ids": True,
            "user": "u",
        }
        sent = answer(dialect, **fields).body
        assert {name: sent[name] for name in fields} == fields

    def test_stop_strings_stay_with_the_gateway(self, dialect: Any) -> None:
        for given in ("END", ["END"]):
            call = answer(dialect, stop=given)
            assert (call.stops, "stop" in call.body) == (("END",), False)

    @pytest.mark.parametrize("wish", ["include_stop_str_in_output", "no_stop_trim"])
    def test_stop_strings_wanted_in_the_text_stay_with_the_engine(self, dialect: Any, wish: str) -> None:
        call = answer(dialect, stop=["END"], **{wish: True})
        assert (call.stops, call.body["stop"]) == ((), ["END"])

    def test_fields_left_null_stay_unsaid(self, dialect: Any) -> None:
        assert not {"temperature", "stop", "seed"} & set(answer(dialect, temperature=None, stop=None, seed=None).body)

    def test_no_unknown_field_gets_a_second_meaning(self, dialect: Any) -> None:
        sent = answer(dialect, prompt="x", echo=True, suffix="x", prompt_embeds="x", best_of=3).body
        assert not {"prompt", "echo", "suffix", "prompt_embeds", "best_of"} & set(sent)

    def test_the_dice_are_thrown_anew_and_can_be_thrown_the_same_again(self, dialect: Any) -> None:
        assert answer(dialect, seed=7).body["seed"] == 8

    @pytest.mark.parametrize("fields", [{}, {"max_tokens": 500}, {"max_completion_tokens": 500}], ids=str)
    def test_the_limit_is_what_is_left(self, dialect: Any, fields: dict[str, Any]) -> None:
        sent = answer(dialect, limit=90, **fields).body
        assert sent["max_tokens"] == 90
        assert "max_completion_tokens" not in sent

    def test_unlimited_is_said_in_so_many_tokens(self, dialect: Any) -> None:
        assert answer(dialect, limit=None).body["max_tokens"] >= 1024

    @pytest.mark.parametrize(
        "fields",
        [
            {"response_format": {"type": "json_object"}},
            {"structured_outputs": {"regex": "[a-z]+"}},
            {"regex": "[a-z]+"},
            {"ebnf": 'root ::= "a"'},
        ],
        ids=lambda fields: next(iter(fields)),
    )
    def test_a_grammar_binds_the_answer(self, dialect: Any, fields: dict[str, Any]) -> None:
        assert dialect.paths(body(**fields), lookup("qwen3"))[0] is Path.IDS
        sent = answer(dialect, **fields).body
        assert {name: sent[name] for name in fields} == fields

    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"n": 1},
            {"tools": []},
            {"tools": None, "n": None},
            {"logprobs": False},
            {"continue_final_message": False},
        ],
        ids=str,
    )
    def test_plain_text_goes_on_by_ids(self, dialect: Any, fields: dict[str, Any]) -> None:
        assert dialect.paths(body(**fields), lookup("qwen3"))[0] is Path.IDS

    @pytest.mark.parametrize(
        "fields",
        [
            {"tools": [{"type": "function"}]},
            {"logprobs": True},
            {"documents": [{"text": "x"}]},
            {"messages": PICTURE},
            {"messages": [{"role": "user", "content": ["odd"]}]},
        ],
        ids=str,
    )
    def test_what_bare_ids_cannot_carry_takes_the_next_path(self, dialect: Any, fields: dict[str, Any]) -> None:
        paths = dialect.paths(body(**fields), lookup("qwen3"))
        assert Path.IDS not in paths
        assert Path.CHAT in paths

    def test_what_the_client_itself_continues_is_left_alone(self, dialect: Any) -> None:
        asked = body(continue_final_message=True, add_generation_prompt=False)
        assert dialect.paths(asked, lookup("qwen3")) == ()

    def test_a_framed_thought_goes_on_by_ids_or_not_at_all(self, dialect: Any) -> None:
        harmony = lookup("harmony")
        assert dialect.paths(body(), harmony) == (Path.IDS,)
        assert dialect.paths(body(tools=[{"type": "function"}]), harmony) == ()
        _, text = answer(dialect, format="harmony").tokenize
        assert text["prompt"] == (
            "<|channel|>analysis<|message|>Rivers run.\nTime is up.\n"
            "<|end|><|start|>assistant<|channel|>final<|message|>"
        )
        assert answer(dialect, format="harmony").body["skip_special_tokens"] is False

    def test_a_thought_that_goes_on_is_left_open(self, dialect: Any) -> None:
        call = answer(dialect, Prefix("Rivers run.\nWait", is_open=True))
        assert call.tokenize[-1]["prompt"] == "<think>\nRivers run.\nWait"
        assert call.start is Start.OPEN


def test_only_vllm_is_told_to_open_the_assistants_turn() -> None:
    assert answer(VLLM).tokenize[0]["add_generation_prompt"] is True
    assert "add_generation_prompt" not in answer(SGLANG).tokenize[0]


class TestAnswerOverChat:
    def test_the_thought_is_given_back_closed(self) -> None:
        call = answer(LLAMACPP, Prefix("Rivers run.\n", "In short:"))
        assert (call.path, call.start, call.engine_splits) == ("/v1/chat/completions", Start.CLOSED, True)
        last = {"role": "assistant", "reasoning_content": "Rivers run.\n", "content": "In short:"}
        assert call.body["messages"] == [*MESSAGES, last]
        assert call.body["continue_final_message"] == "content"
        assert call.body["add_generation_prompt"] is False
        assert call.tokenize == ()

    def test_everything_else_is_as_in_the_first_leg(self) -> None:
        fields = {"tools": [{"type": "function"}], "response_format": {"type": "json_object"}, "temperature": 0}
        assert LLAMACPP.paths(body(**fields), lookup("qwen3")) == (Path.CHAT,)
        first = LLAMACPP.chat(body(**fields), profile(), CUT)
        before = deepcopy(first.body)
        call = LLAMACPP.onward(first, THOUGHT, profile(), None, Path.CHAT)
        assert first.body == before
        changed = {"messages", "continue_final_message", "add_generation_prompt"}
        assert {name: value for name, value in call.body.items() if name not in changed} == {
            name: value for name, value in first.body.items() if name not in changed
        }

    @pytest.mark.parametrize("fields", [{}, {"max_tokens": 500}, {"max_completion_tokens": 500}], ids=str)
    def test_the_limit_is_what_is_left(self, fields: dict[str, Any]) -> None:
        sent = answer(LLAMACPP, limit=90, **fields).body
        assert sent["max_tokens"] == 90
        assert "max_completion_tokens" not in sent

    def test_a_thought_that_goes_on_is_named_so(self) -> None:
        call = answer(LLAMACPP, Prefix("Rivers run.\nWait", is_open=True))
        assert call.body["continue_final_message"] == "reasoning_content"
        assert call.start is Start.OPEN

    @pytest.mark.parametrize("format", ["qwen3", "deepseek_r1"])
    def test_on_vllm_the_whole_turn_stands_in_the_message(self, format: str) -> None:  # noqa: A002
        tools = [{"type": "function"}]
        call = over(VLLM, Path.CHAT, Prefix("Rivers run.\n", "In short:"), format=format, tools=tools, seed=7)
        last = {"role": "assistant", "content": "<think>\nRivers run.\n</think>\n\nIn short:"}
        assert call.body["messages"] == [*MESSAGES, last]
        assert (call.body["continue_final_message"], call.body["add_generation_prompt"]) == (True, False)
        assert (call.body["tools"], call.body["max_tokens"], call.body["seed"]) == (tools, 90, 8)
        assert (call.path, call.start, call.tokenize) == ("/v1/chat/completions", Start.CLOSED, ())

    def test_on_vllm_the_answer_is_not_told_the_cap(self) -> None:
        first = VLLM.chat(body(tools=[{}]), profile(), NATIVE)
        assert "thinking_token_budget" in first.body
        assert "thinking_token_budget" not in VLLM.onward(first, THOUGHT, profile(), 90, Path.CHAT).body

    def test_on_sglang_the_template_opens_the_turn_where_it_opens_the_thought(self) -> None:
        opened = over(SGLANG, Path.CHAT, format="deepseek_r1", messages=PICTURE).body["messages"][-1]
        assert opened["content"].startswith("Rivers run.\n")
        closed = over(SGLANG, Path.CHAT, messages=PICTURE).body["messages"][-1]
        assert closed["content"].startswith("<think>\nRivers run.\n")

    def test_on_sglang_ids_go_beside_the_messages(self) -> None:
        """The messages then only tell the parsers that the thought is over; ids alone are the prompt."""
        tools = [{"type": "function"}]
        call = over(SGLANG, Path.CHAT_IDS, Prefix("Rivers run.\n", "In short:"), tools=tools)
        assert (call.path, call.ids_field) == ("/v1/chat/completions", "input_ids")
        assert call.body["messages"][-1] == {"role": "assistant", "content": "</think>\n\nIn short:"}
        assert call.body["continue_final_message"] is True
        assert call.body["chat_template_kwargs"] == {"enable_thinking": False}
        prompt, text = call.tokenize
        assert (prompt["messages"], prompt["tools"]) == (MESSAGES, tools)
        assert prompt["chat_template_kwargs"] == {"enable_thinking": True}
        assert text["prompt"] == "<think>\nRivers run.\n</think>\n\nIn short:"

    def test_on_sglang_the_budget_ends_with_the_thought(self) -> None:
        first = SGLANG.chat(body(tools=[{}], custom_params={"mine": 1}), profile(), NATIVE)
        assert first.body["custom_params"] == {"mine": 1, "thinking_budget": 40}
        assert SGLANG.onward(first, THOUGHT, profile(), 90, Path.CHAT_IDS).body["custom_params"] == {"mine": 1}
