"""Write the small parallel language (English to a made-up one, qaa) as files, one sentence a line.

python scripts/make_language.py data/language
python scripts/make_language.py data/language --train 10000 --seed 1

What the language is like, and which of its words are ambiguous: hf_bam/tasks/language.py.
"""

import argparse
from pathlib import Path

from hf_bam.tasks.language import SOURCE, TARGET, ceiling, generate
from hf_bam.tasks.parallel import write_folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=4000, help="sentences to train on")
    parser.add_argument("--dev", type=int, default=200, help="sentences to choose a model by")
    parser.add_argument("--test", type=int, default=400, help="sentences to evaluate on")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    data = generate(arguments.train, arguments.dev, arguments.test, arguments.seed)
    for path in write_folder(arguments.folder, data, SOURCE, TARGET):
        print(path)
    for name, rows in data.evaluation.items():
        print(f"{name}: a perfect translator reaches about {ceiling(rows):.1f} BLEU")


if __name__ == "__main__":
    main()
