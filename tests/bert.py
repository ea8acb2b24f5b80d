"""A small BERT of random weights over the shipped vocabulary, for tests of exports. Needs the extra `train`."""

import torch
from transformers import BertConfig, BertModel

from router.encoder import SENTENCE

HEADS = 12


def small_bert(words: int) -> BertModel:
    """Two layers, ready to be read. `words`: pieces of the vocabulary."""
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=words,
        hidden_size=SENTENCE,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        intermediate_size=512,
        pad_token_id=1,
    )
    return BertModel(config, add_pooling_layer=False).eval()
