#!/usr/bin/env bats
# Libraries for tables: our curves in them, and their digits in our trainings.
VENV=table_readers PACKAGES="pandas==3.1.1 polars==2.1.0 duckdb==2.0.1 pyarrow==26.0.1 datasets==5.2.0 pillow==13.0.0 numpy==2.4.6"
load helper

@test "rankR.jsonl has the same numbers in polars, DuckDB, pyarrow and datasets, and with precise_float in pandas" {
    crossed table_readers.py curves
}

@test "a loss that is no number is null in our lines, and missing in all tables" {
    crossed table_readers.py no_number
}

@test "a CSV of pandas, Parquet of datasets and an npz of NumPy become the same files of MNIST's kind" {
    crossed table_readers.py digits
}
