.PHONY: style quality test slow docs

paths = hf_bam tests scripts benchmarks setup.py noxfile.py

style:
	ruff check --fix $(paths)
	ruff format $(paths)

quality:
	ruff check $(paths)
	ruff format --check $(paths)
	mypy hf_bam

test:
	scripts/test

slow:
	scripts/test -m slow

docs:
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict
