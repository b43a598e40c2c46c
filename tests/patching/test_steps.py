"""Annealing counts optimizer steps."""

import copy

import pytest
import torch
from datasets import Dataset
from transformers import Trainer, TrainingArguments

import hf_bam

from ..models import bert, classification


def patched(**settings):
    return hf_bam.patch(bert(), annealing="linear", annealing_rate=0.1, kl_weight=1.0, **settings).train()


def weight(model, batch):
    out = model(**batch)
    return (out.kl_loss / out.kl).item()


def test_the_steps_of_an_optimizer_are_counted_and_not_the_micro_batches():
    model, batch = patched(), classification()
    optimizer = torch.optim.AdamW(model.parameters())
    assert weight(model, batch) == 0.0
    for _ in range(2):
        for _ in range(3):
            model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert weight(model, batch) == pytest.approx(0.2)


def test_optimizers_of_other_models_and_of_parts_do_not_count():
    model, other = patched(), patched()
    prior = [p for name, p in model.named_parameters() if ".bam." in name]
    rest = [p for name, p in model.named_parameters() if ".bam." not in name]
    optimizers = [torch.optim.SGD(prior), torch.optim.SGD(rest), torch.optim.SGD(other.parameters())]
    model(**classification()).loss.backward()
    for optimizer in optimizers[:2]:
        optimizer.step()
    assert (model.bam_step.item(), other.bam_step.item()) == (1, 0)


def test_a_copy_that_trains_is_counted():
    model = copy.deepcopy(patched())
    model(**classification()).loss.backward()
    torch.optim.SGD(model.parameters()).step()
    assert model.bam_step.item() == 1


def test_the_step_is_set_explicitly_and_is_saved_with_the_weights():
    model, batch = patched(), classification()
    hf_bam.set_step(model, 7)
    assert weight(model, batch) == pytest.approx(0.7)
    resumed = patched()
    resumed.load_state_dict(model.state_dict())
    assert weight(resumed, batch) == pytest.approx(0.7)
    for wrong in (-1, 1.5, True):
        with pytest.raises(ValueError, match=r"step=.*0 or above"):
            hf_bam.set_step(model, wrong)


@pytest.mark.parametrize("callbacks", [[], [hf_bam.BamCallback()]], ids=["by itself", "callback"])
def test_the_trainer_counts_right_under_accumulation_and_after_resuming(tmp_path, callbacks):
    batch = classification((7, 5, 3, 4) * 4)
    data = Dataset.from_dict({name: tensor.tolist() for name, tensor in batch.items()})

    def train(max_steps, resume):
        model = patched()
        arguments = TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=max_steps,
            per_device_train_batch_size=2,
            save_steps=3,
            gradient_accumulation_steps=2,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        Trainer(model, arguments, train_dataset=data, callbacks=callbacks).train(resume_from_checkpoint=resume)
        return model.bam_step.item()

    # With the callback the last step begins at max_steps - 1 and is counted when the optimizer steps.
    assert train(3, resume=False) == 3
    assert train(5, resume=True) == 5
