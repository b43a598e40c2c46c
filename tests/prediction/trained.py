"""Tiny models that are trained on artificial texts, whose errors are those of real predictions."""

import numpy as np
import torch

import hf_bam

from ..models import bert

TOPICS = (
    "music song band guitar concert album",
    "soup bread dinner kitchen recipe salt",
    "train ticket flight hotel airport luggage",
    "doctor fever medicine hospital nurse pain",
)
OTHER = ["court", "lawyer", "judge", "trial", "police", "prison", "goal", "match", "team", "player", "coach", "league"]
LABELS = ["music", "food", "travel", "health"]


def sentences(number, seed=0, words=6):
    """Return texts with words of two topics, and their labels: the topic with more words, or else either of them."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(number):
        first, second = random.choice(len(TOPICS), size=2, replace=False)
        share = random.integers(words // 2 + 1)  # of the second topic
        chosen = [*random.choice(TOPICS[first].split(), words - share), *random.choice(TOPICS[second].split(), share)]
        texts.append(" ".join(random.permutation(chosen)))
        labels.append(int(first))
    return texts, labels


def other_sentences(number, seed=0, words=6):
    """Return texts of topics that no model was trained on."""
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(OTHER, words)) for _ in range(number)]


def scores(texts, seed=0):
    """Return a number for each text, the share of words of the first topic, with noise."""
    random = np.random.default_rng(seed)
    shares = np.array([np.mean([word in TOPICS[0] for word in text.split()]) for text in texts])
    return shares + 0.1 * random.normal(size=len(texts))


def train(tokenizer, texts, targets, steps=150, **changes):
    """Return a patched model that was trained for some seconds."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = hf_bam.patch(bert(vocab_size=len(tokenizer), **{"num_labels": len(LABELS), **sizes, **changes}), k=1.0)
    model.config.id2label = dict(enumerate(LABELS[: model.config.num_labels]))
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-2)
    encoded, targets = tokenizer(texts, padding=True, return_tensors="pt"), torch.as_tensor(targets)
    for _ in range(steps):
        rows = torch.randint(len(texts), (64,))
        model(**{name: x[rows] for name, x in encoded.items()}, labels=targets[rows]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()
