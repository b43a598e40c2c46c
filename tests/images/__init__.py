"""Tests of models that read images."""
