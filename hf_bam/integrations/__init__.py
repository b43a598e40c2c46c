"""Integrations of patched models with other libraries: `Trainer`, PEFT, pipelines, saved folders, the Hub, `evaluate`.

`install` lists every method of other libraries that hf_bam wraps. May import `patching` and everything below it,
`evaluation` and, inside of functions that predict, `prediction`.
"""
