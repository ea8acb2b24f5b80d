"""One file an engine's dialect: how it is asked, what it can do, how a cut generation goes on."""

from gateway.config import EngineKind
from gateway.engines.base import Call, Dialect, KnownIds, Prefix, Profile
from gateway.engines.capabilities import Path
from gateway.engines.llamacpp import LlamaCppDialect
from gateway.engines.openai import OpenAIDialect
from gateway.engines.sglang import SglangDialect
from gateway.engines.vllm import VllmDialect

DIALECTS: dict[EngineKind, Dialect] = {
    EngineKind.VLLM: VllmDialect(),
    EngineKind.SGLANG: SglangDialect(),
    EngineKind.LLAMACPP: LlamaCppDialect(),
    EngineKind.OPENAI: OpenAIDialect(),
    EngineKind.EMBEDDED: LlamaCppDialect(),
}

__all__ = ["DIALECTS", "Call", "Dialect", "KnownIds", "Path", "Prefix", "Profile"]
