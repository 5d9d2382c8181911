"""Benchmarks: `./run bench NAME...`. Every claim about speed has a case here and a raw file in `bench/results/`."""
