"""Doubles of a disaggregated cluster: prefill and decode pairs of vLLM and SGLang, encoders, and the memory they share.

The KV of a prompt is a voice, keyed by a secret of the fabric: only a decode worker that was handed the right blocks
speaks with it. What comes of wrong, stale or foreign parameters is what the real engine makes of them, and differs.
"""
