"""Training of a small translation model from scratch, for tests of what it learns."""

import torch
from torch.optim.lr_scheduler import OneCycleLR

BATCH = 32


def learn(task, data, model, tokenizer, steps, rate):
    """Train a model on the pairs of a task; return it in evaluation mode."""
    features = list(task.encode(data.train, tokenizer, 64))
    collator = task.collator(tokenizer, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    schedule = OneCycleLR(optimizer, max_lr=rate, total_steps=steps, pct_start=0.1, anneal_strategy="linear")
    order = torch.cat([torch.randperm(len(features)) for _ in range(1 + steps * BATCH // len(features))])
    for indices in order.split(BATCH)[:steps]:
        model.train()(**collator([features[i] for i in indices])).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model.eval()
