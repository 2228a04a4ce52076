/*
 * bf16_hook.h - sends gradients as bf16, half of their bytes: PyTorch's bf16_compress_hook.
 *
 * - Call bf16_hook_init after reducer_init: it registers the hook.
 * - After reducer_finalize call bf16_hook_decompress.
 */
#ifndef BEYOND_COMM_HOOKS_BF16_HOOK_H
#define BEYOND_COMM_HOOKS_BF16_HOOK_H

#include <stdint.h>

#include "common/comm/ddp.h"

typedef struct {
    Reducer *reducer;
    uint16_t *compressed; // bf16; each bucket has the slice that it has in the gradients
} Bf16Hook;

/* Usage error if the gradients are on a GPU. Local. */
void bf16_hook_init(Bf16Hook *hook, Reducer *reducer);

/* Widens the means that have arrived to float32. Local. */
void bf16_hook_decompress(Bf16Hook *hook);

void bf16_hook_free(Bf16Hook *hook);

#endif
