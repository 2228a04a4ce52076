#!/usr/bin/env python3
"""Usage: docs/answers/client.py URL      Sends all test digits to tools/serve, and counts the right answers."""
import json, sys, urllib.request
sys.path.insert(0, "tests/tools")
import pictures


def count(draw):
    right = 0
    for label, rows in pictures.digits():
        body, headers = pictures.pgm(draw(rows)), {"Content-Type": "image/x-portable-graymap"}
        request = urllib.request.Request(sys.argv[1] + "/predict", body, headers)
        right += json.load(urllib.request.urlopen(request, timeout=10))["label"] == str(label)
    return right


if __name__ == "__main__":
    print("as in training:", count(pictures.as_mnist), "of 360 are right")
    print("small, on paper:", count(lambda rows: pictures.on_paper(rows, 2)), "of 360 are right")
