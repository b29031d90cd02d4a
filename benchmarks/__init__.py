"""The benchmark of protocol_mvc: `python -m benchmarks --help`, from the root of the repository."""
