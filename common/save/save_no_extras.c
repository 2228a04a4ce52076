/* Stands in for extras/watch and other_sets, and for extras/comfort/adopt*.c. */
#include "common/save/checkpoint.h"
#include "common/save/metrics.h"

void watch_init(const Args *args, const Model *model, int rank, size_t steps_per_epoch)
{
    (void)args, (void)model, (void)rank, (void)steps_per_epoch;
}

void watch_step(const Model *model, int epoch)
{
    (void)model, (void)epoch;
}

void watch_test(uint64_t step, double loss, double accuracy)
{
    (void)step, (void)loss, (void)accuracy;
}

void watch_save(uint64_t step, const char *path)
{
    (void)step, (void)path;
}

void watch_end(void)
{
}

bool adopt_weights(Safetensors *file, const Model *model)
{
    return file != NULL && model != NULL;
}

bool adopt_file(Safetensors *file)
{
    return file == NULL;
}

bool idx_find_other(const char *dir, const char *name, char *path, char *problem)
{
    return dir == NULL || name == NULL || path == NULL || problem == NULL;
}

uint8_t *idx_convert(const char *path, int ndim, size_t *shape)
{
    return path == NULL && ndim == 0 ? (uint8_t *)shape : NULL;
}
