/*
 * lr_schedule.h - the learning rate of each step (--lr-schedule, --warmup-steps).
 *
 * The rate depends only on the step's number: a resumed run needs nothing else, and neither does a
 * kernel of a recorded graph. In PyTorch's words, with scheduler.step() after each optimizer step:
 *
 *     warmup = LinearLR(optimizer, start_factor=1 / (warmup_steps + 1), total_iters=warmup_steps)
 *     step   = StepLR(optimizer, step_size=steps_per_epoch, gamma=0.7), as PyTorch's MNIST example
 *     cosine = CosineAnnealingLR(optimizer, T_max=total_steps - warmup_steps)
 *     SequentialLR(optimizer, [warmup, step or cosine], milestones=[warmup_steps])
 */
#ifndef COMMON_NN_LR_SCHEDULE_H
#define COMMON_NN_LR_SCHEDULE_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define LR_INLINE static inline __host__ __device__
#else
#define LR_INLINE static inline
#endif

typedef enum { LR_CONSTANT, LR_STEP, LR_COSINE } LrScheduleKind;

typedef struct {
    LrScheduleKind kind;
    uint64_t warmup_steps;
    uint64_t steps_per_epoch, total_steps; // of all --epochs, whatever --max-steps
} LrSchedule;

/* The factor of --lr in a step; steps are counted from 1. */
LR_INLINE double lr_factor(const LrSchedule *schedule, uint64_t step)
{
    const uint64_t taken = step - 1, warmup = schedule->warmup_steps;
    if (taken < warmup)
        return (double)step / (double)(warmup + 1);
    if (schedule->kind == LR_STEP)
        return pow(0.7, (double)((taken - warmup) / schedule->steps_per_epoch));
    if (schedule->kind == LR_COSINE && taken >= schedule->total_steps)
        return 0;
    if (schedule->kind == LR_COSINE)
        return 0.5 + 0.5 * cos(3.14159265358979323846 * (double)(taken - warmup) /
                               (double)(schedule->total_steps - warmup));
    return 1;
}

#endif
