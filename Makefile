.PHONY: style quality test slow

style:
	ruff check --fix hf_bam tests scripts benchmarks setup.py
	ruff format hf_bam tests scripts benchmarks setup.py

quality:
	ruff check hf_bam tests scripts benchmarks setup.py
	ruff format --check hf_bam tests scripts benchmarks setup.py
	mypy hf_bam

test:
	scripts/test

slow:
	scripts/test -m slow
