/* gpus.h - how many GPUs this node has for its ranks; CUDA_VISIBLE_DEVICES is obeyed. */
#ifndef COMMON_BASE_GPUS_H
#define COMMON_BASE_GPUS_H

/* How many CUDA shows this process; 0 in a build without CUDA. Whoever has asked must not fork
 * ranks any more: what CUDA has opened does not survive that. */
int gpus_visible(void);

/* The same for whoever starts ranks: another process asks. In a build without CUDA, whose launcher
 * may start programs that have it, the number that the driver's files give. */
int gpus_count(void);

/* How many those files list. They know less than CUDA does (WSL has none), but need none. */
int gpus_listed(void);

#endif
