/* A rank's life in a worker: one process for each rank, as after fork; a step that the page shows;
 * and what zlib does for the digits and a checkpoint. (JSON is the worker's own.) */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <zlib.h>

#include "common/save/metrics.h"
#include "extras/browser/page.h"

/* ---- the process ---- */

int main_01(int, char **), main_02a(int, char **), main_02b(int, char **), main_02c(int, char **),
    main_02(int, char **);

int main(int argc, char **argv)
{
    return strcmp(argv[0], "01") == 0    ? main_01(argc, argv)
           : strcmp(argv[0], "02a") == 0 ? main_02a(argc, argv)
           : strcmp(argv[0], "02b") == 0 ? main_02b(argc, argv)
           : strcmp(argv[0], "02c") == 0 ? main_02c(argc, argv)
                                         : main_02(argc, argv);
}

char *program_invocation_short_name = "train"; // wasi-libc only declares it

/* Every worker begins as the parent; rank r is the child of the r-th fork, counted from 0. */
pid_t fork(void)
{
    static int forks;
    return forks++ == page_rank() ? 0 : 1;
}

/* ---- what the page shows ---- */

void watch_init(const Args *args, const Model *model, int rank, size_t steps_per_epoch)
{
    (void)args, (void)rank, (void)steps_per_epoch;
    page_step(0, 0, model->params, model->numel * sizeof(float));
}

void watch_step(const Model *model, int epoch)
{
    (void)epoch;
    page_step((int)model->step, (double)model_loss(model), model->params,
              model->numel * sizeof(float));
}

/* ---- zlib; and of jansson what JavaScript lacks ---- */

int inflateInit2_(z_stream *stream, int bits, const char *version, int size)
{
    (void)stream, (void)bits, (void)version, (void)size;
    return Z_OK;
}

/* The digits are not compressed, since the module is as a whole. */
int inflate(z_stream *stream, int flush)
{
    if (flush != Z_FINISH || stream->avail_in > stream->avail_out)
        return Z_DATA_ERROR;
    memcpy(stream->next_out, stream->next_in, stream->avail_in);
    return Z_STREAM_END;
}

int inflateEnd(z_stream *stream)
{
    (void)stream;
    return Z_OK;
}

uLong crc32_z(uLong crc, const Bytef *bytes, z_size_t count)
{
    if (bytes == NULL)
        return 0;
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

json_t *json_vsprintf(const char *format, va_list args)
{
    char text[256];
    return vsnprintf(text, sizeof text, format, args) < (int)sizeof text ? json_string(text) : NULL;
}
