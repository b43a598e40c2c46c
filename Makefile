.PHONY: style quality test slow docs

style:
	ruff check --fix hf_bam tests scripts benchmarks setup.py
	ruff format hf_bam tests scripts benchmarks setup.py

quality:
	ruff check hf_bam tests scripts benchmarks setup.py
	ruff format --check hf_bam tests scripts benchmarks setup.py
	mypy hf_bam

test:
	scripts/test

docs:
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

slow:
	scripts/test -m slow
