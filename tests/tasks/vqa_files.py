"""A made set with the layout of easy-VQA: squares of two colours, and questions about them."""

import json

import numpy as np
from PIL import Image

COLOURS = {"red": (220, 30, 30), "blue": (30, 30, 220)}


def write_set(folder, images=24):
    """Write images of 8x8 pixels with three questions each; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "answers.txt").write_text("red\nblue\nyes\nno\n")
    for part, number in (("train", images), ("test", 6)):
        (folder / part / "images").mkdir(parents=True)
        questions = []
        for index in range(number):
            random = np.random.default_rng([index, number])
            name = list(COLOURS)[index % 2]
            pixels = np.full((8, 8, 3), 240) + random.integers(-10, 10, (8, 8, 3))
            pixels[2:6, 2:6] = COLOURS[name]
            Image.fromarray(pixels.astype(np.uint8)).save(folder / part / "images" / f"{index}.png")
            questions.append(["what color is the shape?", name, index])
            questions.append(["is it red?", "yes" if name == "red" else "no", index])
            questions.append(["is it blue?", "yes" if name == "blue" else "no", index])
        (folder / part / "questions.json").write_text(json.dumps(questions))
    return folder
