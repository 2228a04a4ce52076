# A data set for tests that compare runs and need no digits: a run on it takes half as long, since ranks have less to read
# and to evaluate.

# few_rows: makes it, once a file: 256 random images to train on, and 24 to evaluate.
few_rows() {
    mkdir "${few[3]}"
    python3 - "${few[3]}" <<'END'
import random, struct, sys

dice = random.Random(0)
for name, rows in ('train', 256), ('t10k', 24):
    with open(f'{sys.argv[1]}/{name}-images-idx3-ubyte', 'wb') as file:
        file.write(struct.pack('>4i', 0x803, rows, 28, 28) + bytes(dice.choices(range(256), k=rows * 28 * 28)))
    with open(f'{sys.argv[1]}/{name}-labels-idx1-ubyte', 'wb') as file:
        file.write(struct.pack('>2i', 0x801, rows) + bytes(dice.choices(range(10), k=rows)))
END
}

few=(--dataset mnist --data-dir "$BATS_FILE_TMPDIR/few") # a program's options
