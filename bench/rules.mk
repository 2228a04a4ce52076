# Benchmarks: programs and rules that measure, kept apart from the tests that check.
