/* gpus.h - how many GPUs this node has for its ranks, by CUDA_VISIBLE_DEVICES. */
#ifndef COMMON_BASE_GPUS_H
#define COMMON_BASE_GPUS_H

/* How many CUDA shows this process; 0 in a build without CUDA. After this call a process must not
 * fork ranks: a CUDA context does not survive fork. */
int gpus_visible(void);

/* The same, for a process that starts ranks: a child asks CUDA. In a build without CUDA, whose
 * launcher may start programs built with it, the number listed in the driver's files. */
int gpus_count(void);

/* How many the driver's files list. They know less than CUDA does (WSL has none), but do not need
 * it. */
int gpus_listed(void);

#endif
