"""Crossed prompts from templates of our own (CC0): the same contents, dress and history under both labels."""

from router.training.crossed.generate import Made, generate, pairs
from router.training.crossed.steps import problems
from router.training.crossed.templates import Templates, read_templates

__all__ = ["Made", "Templates", "generate", "pairs", "problems", "read_templates"]
