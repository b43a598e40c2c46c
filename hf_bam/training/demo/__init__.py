"""Command line of the demo: `hf-bam demo`. The page itself is `hf_bam.demo`."""
