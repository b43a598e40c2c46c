"""Benchmarks of hf_bam: cost, studies on tasks, and a sweep over architectures. README.md lists the commands."""
