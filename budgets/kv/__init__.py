"""What a token of context costs in GPU memory, and how many an engine can hold. Arithmetic for sizing; no I/O.

Admission does not use it: an engine publishes its own capacity in tokens, and that is what counts while it runs. This
says beforehand how many GPUs a model needs and how many thoughts they will hold.
"""

from budgets.kv.attention import BLOCK, Attention, Dtype, GroupedQuery, Latent, Shape
from budgets.kv.capacity import Capacity, DoesNotFit, Gpus, capacity
from budgets.kv.models import MODELS, Model, UnknownModel, find
from budgets.kv.weights import Precision, Weights

__all__ = [
    "BLOCK",
    "MODELS",
    "Attention",
    "Capacity",
    "DoesNotFit",
    "Dtype",
    "Gpus",
    "GroupedQuery",
    "Latent",
    "Model",
    "Precision",
    "Shape",
    "UnknownModel",
    "Weights",
    "capacity",
    "find",
]
