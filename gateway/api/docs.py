"""The OpenAPI description: FastAPI's own, and the chat route, which runs beside FastAPI, written by hand."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from budgets.intent import LEVELS

CHAT_PATH: dict[str, Any] = {
    "post": {
        "tags": ["chat"],
        "summary": "Create a chat completion",
        "description": "OpenAI's chat completions. `model` is a route (`auto`), a pool's model or an alias. Thinking"
        " may be asked for in any dialect; fields not named here travel to the engine as they are.",
        "operationId": "create_chat_completion",
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["model", "messages"],
                        "additionalProperties": True,
                        "properties": {
                            "model": {"type": "string", "examples": ["auto"]},
                            "messages": {"type": "array", "minItems": 1, "items": {"type": "object"}},
                            "stream": {"type": "boolean", "default": False},
                            "stream_options": {"type": "object"},
                            "n": {"type": "integer", "minimum": 1, "maximum": 128},
                            "max_tokens": {"type": "integer", "minimum": 1},
                            "max_completion_tokens": {"type": "integer", "minimum": 1},
                            "reasoning_effort": {
                                "anyOf": [
                                    {"enum": ["none", "disable", *LEVELS, "ultra", None]},
                                    {"type": "object", "properties": {"effort": {"type": "string"}}},
                                ]
                            },
                            "reasoning": {
                                "type": ["object", "null"],
                                "properties": {
                                    "effort": {"type": "string"},
                                    "max_tokens": {"type": "integer"},
                                    "enabled": {"type": "boolean"},
                                    "exclude": {"type": "boolean"},
                                },
                            },
                            "thinking": {"type": ["object", "boolean", "null"]},
                            "enable_thinking": {"type": ["boolean", "null"]},
                            "thinking_budget": {"type": ["integer", "null"]},
                            "thinking_token_budget": {"type": ["integer", "null"]},
                            "max_thinking_tokens": {"type": ["integer", "null"]},
                            "think": {"type": ["boolean", "string", "null"]},
                            "output_config": {"type": ["object", "null"]},
                            "thinking_config": {"type": ["object", "null"]},
                        },
                    }
                }
            },
        },
        "responses": {
            "200": {
                "description": "A completion, or a stream of chunks that ends in `data: [DONE]`.",
                "content": {
                    "application/json": {"schema": {"type": "object"}},
                    "text/event-stream": {"schema": {"type": "string"}},
                },
            },
            "4XX": {"$ref": "#/components/responses/Error"},
            "5XX": {"$ref": "#/components/responses/Error"},
        },
    }
}

ERROR_RESPONSE: dict[str, Any] = {
    "description": "Any error, in OpenAI's shape.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {
                    "error": {
                        "type": "object",
                        "required": ["message", "type", "param", "code"],
                        "properties": {
                            "message": {"type": "string"},
                            "type": {"type": "string"},
                            "param": {"type": ["string", "null"]},
                            "code": {"type": ["string", "null"]},
                        },
                    }
                },
            }
        }
    },
}


def describe_chat(app: FastAPI) -> None:
    """Put the chat route into the app's OpenAPI schema."""
    own = app.openapi

    def with_chat() -> dict[str, Any]:
        schema = own()
        schema["paths"]["/v1/chat/completions"] = CHAT_PATH
        schema.setdefault("components", {}).setdefault("responses", {})["Error"] = ERROR_RESPONSE
        return schema

    app.openapi = with_chat  # the hook that FastAPI documents for this
