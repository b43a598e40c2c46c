"""Patched models where other libraries use them: `Trainer`, PEFT, pipelines, saved folders, the Hub and model cards.

`install` lists every method of other libraries that is wrapped. May import everything up to `prediction`, which it
imports when it is asked for a prediction.
"""
