/* words.h - an input as a command line: a word a line; "$NAME=VALUE" lines are the environment. */
#ifndef TESTS_FUZZ_WORDS_H
#define TESTS_FUZZ_WORDS_H

#include "tests/fuzz/world.h"

enum { MAX_WORDS = 48, WORD_BYTES = 512 };

typedef struct {
    char text[MAX_WORDS][WORD_BYTES];
    char *argv[MAX_WORDS + 2]; // program name first, NULL last
    int argc;
} Words;

static inline void read_words(Words *words, Input input)
{
    *words = (Words){ .argv = { "train" }, .argc = 1 };
    for (int i = 0; i < MAX_WORDS && input_line(&input, words->text[i], WORD_BYTES) != NULL; i++) {
        if (words->text[i][0] == '$')
            world_set_env(words->text[i] + 1);
        else
            words->argv[words->argc++] = words->text[i];
    }
}

#endif
