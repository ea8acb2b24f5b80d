"""Real HTTP servers that speak as vLLM, SGLang and llama-server do, check what they are sent, and fail on request."""
