#!/usr/bin/env python3
"""Adds 16 shards on 1 to 16 ranks, by two trees and two samplers: are the bits those of one rank?"""
import random


def tree(numbers, halves):
    """Adds k and k + n/2 (halves), or neighbours, until one number is left."""
    while len(numbers) > 1:
        half = len(numbers) // 2
        pairs = zip(numbers[:half], numbers[half:]) if halves else zip(numbers[::2], numbers[1::2])
        numbers = [a + b for a, b in pairs]
    return numbers[0]


random.seed(0)
draws = [[random.random() for _ in range(16)] for _ in range(100)]
for halves in True, False:
    for cards in True, False:
        same = []
        for ranks in 1, 2, 4, 8, 16:
            each = 16 // ranks
            shares = [slice(r, None, ranks) if cards else slice(r * each, (r + 1) * each) for r in range(ranks)]
            if all(tree([tree(shards[own], halves) for own in shares], halves) == tree(shards, halves) for shards in draws):
                same.append(ranks)
        print("k and k + 8, ..." if halves else "neighbours,     ", "dealt like cards:" if cards else "cut into blocks: ", *same)
