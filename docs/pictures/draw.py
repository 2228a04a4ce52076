#!/usr/bin/env python3
"""Usage: docs/pictures/draw.py [FOLDER]      Draws the chapters' pictures, beside their sources if no
folder is named. Each is a function in train.py, launch.py or fault.py, and a file of that name."""
import os
import sys

sys.dont_write_bytecode = True
import fault  # noqa: E402
import launch  # noqa: E402
import train  # noqa: E402


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for picture in train.PICTURES + launch.PICTURES + fault.PICTURES:
        with open(os.path.join(folder, picture.__name__ + ".svg"), "w", encoding="utf-8") as file:
            file.write(picture().svg())


if __name__ == "__main__":
    main()
