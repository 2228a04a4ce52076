/* gpus.h - how many GPUs this node has for its ranks. */
#ifndef COMMON_LAUNCH_GPUS_H
#define COMMON_LAUNCH_GPUS_H

/* NVIDIA's driver is asked through its files, not through CUDA: a launcher that opened the devices
 * itself would hold memory on each of them. CUDA_VISIBLE_DEVICES is obeyed. */
int gpus_count(void);

#endif
