"""Rows of SQuAD, hand-made scores of their windows, and the answers that follow from these."""

import numpy as np
from datasets import Dataset
from transformers import BertForQuestionAnswering

from hf_bam.prediction import Predictor
from hf_bam.prediction.heads.spans import windows
from hf_bam.tasks.squad_files import ROW

from ..models import bert
from ..prediction.given import Given

CONTEXT = " ".join(
    f"The keeper of lighthouse {n} was called Nr{n}, and he came from harbour {n * 7}." for n in range(20)
)

INPUTS = ["input_ids", "token_type_ids", "attention_mask"]


def rows(*questions, context=CONTEXT):
    """Rows of pairs (question, answer); None is no answer."""
    return Dataset.from_list(
        [
            {
                "id": str(index),
                "question": question,
                "context": context,
                "answers": {"text": [answer], "answer_start": [context.index(answer)]}
                if answer
                else {"text": [], "answer_start": []},
            }
            for index, (question, answer) in enumerate(questions)
        ],
        features=ROW,
    )


def windows_of(data, tokenizer, max_length, stride):
    """Windows as dictionaries: ids, row, position of "no answer", and characters of the tokens (-1: no context)."""
    encoding = windows(tokenizer, data["question"], data["context"], max_length, stride)
    found = []
    for index, row in enumerate(encoding["overflow_to_sample_mapping"]):
        ids, kinds = encoding["input_ids"][index], encoding.sequence_ids(index)
        places = [
            place if kind == 1 else (-1, -1)
            for place, kind in zip(encoding["offset_mapping"][index], kinds, strict=True)
        ]
        begins, ends = map(list, zip(*places, strict=True))
        null = ids.index(tokenizer.cls_token_id)
        found.append({"input_ids": ids, "row": row, "null": null, "begins": begins, "ends": ends})
    return found


def answers(task, data, features, scores, tokenizer, max_length=64):
    """Predictions of a task where the windows have these scores; padding has the highest ones."""
    known = {tuple(feature["input_ids"]): own for feature, own in zip(features, scores, strict=True)}

    def outputs(ids, mask):
        logits = np.full((2, 1, len(ids), len(ids[0])), 50.0)
        for index, (row, kept) in enumerate(zip(ids, mask, strict=True)):
            own = known[tuple(row[: sum(kept)])]
            logits[:, 0, index, : sum(kept)] = own["start_logits"], own["end_logits"]
        return {"start_logits": logits[0], "end_logits": logits[1]}

    model = BertForQuestionAnswering(bert(num_labels=2).config)
    predictor = Predictor(Given(model, outputs), tokenizer, 1, max_length=max_length, **task.predictor_options)
    return [task.prediction(result) for result in predictor(task.inputs(data))]
