"""Write the small parallel language (English to a made-up one, qaa) as files, one sentence a line.

python scripts/make_language.py data/language
python scripts/make_language.py data/language --train 10000 --seed 1

hf_bam/tasks/language.py describes the language and its ambiguous words.
"""

import argparse
from pathlib import Path

from hf_bam.tasks.language import SOURCE, TARGET, ceiling, generate
from hf_bam.tasks.parallel import write_folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=4000, help="number of training sentences")
    parser.add_argument("--dev", type=int, default=200, help="number of sentences that select the best model")
    parser.add_argument("--test", type=int, default=400, help="number of test sentences")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    data = generate(arguments.train, arguments.dev, arguments.test, arguments.seed)
    for path in write_folder(arguments.folder, data, SOURCE, TARGET):
        print(path)
    for name, rows in data.evaluation.items():
        print(f"{name}: a perfect translator reaches about {ceiling(rows):.1f} BLEU")


if __name__ == "__main__":
    main()
