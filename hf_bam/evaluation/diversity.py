"""Quality and diversity of several generated texts for each source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from .metrics import distinct, unigram_entropy

ORDERS = (1, 2, 3, 4)


def generation_metrics(
    samples: Sequence[Any], references: Sequence[str], *, tokenize: str = "13a"
) -> dict[str, float]:
    """Return BLEU of generated texts, and the diversity of those of the same source.

    Args:
        samples: the texts of every source, a list of strings each; or results of a predictor with `hypotheses`.
        references: the target text of every source.
        tokenize: tokenizer of sacreBLEU; `"none"` for texts that are tokenized already.

    Returns:
        `bleu_1` to `bleu_4`: sacreBLEU with n-grams up to this length, in percent, over all texts of all sources;
        `entropy`: entropy of the words in the texts of a source, in nats, `dist_1` and `dist_2`: distinct n-grams
        divided by all n-grams of a source. The last three are means over the sources.
    """
    texts = [list(getattr(own, "hypotheses", own)) for own in samples]
    if len(texts) != len(references):
        raise ValueError(f"samples has {len(texts)} sources and references {len(references)}; expected as many.")
    if not texts or not all(texts):
        raise ValueError(
            "samples has a source without texts; a predictor makes them with hypotheses=10, for instance."
        )
    flat = [text for own in texts for text in own]
    repeated = [reference for reference, own in zip(references, texts, strict=True) for _ in own]
    found = {f"bleu_{n}": bleu(flat, repeated, n, tokenize) for n in ORDERS}
    found["entropy"] = float(np.mean([unigram_entropy(own) for own in texts]))
    return found | {f"dist_{n}": float(np.mean([distinct(own, n) for own in texts])) for n in (1, 2)}


def bleu(texts: Sequence[str], references: Sequence[str], order: int = 4, tokenize: str = "13a") -> float:
    """Return sacreBLEU with n-grams up to `order`, in percent."""
    metric = BLEU(max_ngram_order=order, tokenize=tokenize)
    return float(metric.corpus_score(list(texts), [list(references)]).score)
