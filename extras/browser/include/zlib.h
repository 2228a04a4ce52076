/* What the digits and a checkpoint need of zlib (extras/browser/browser.c). The module as a whole is
 * compressed, so the digits in it are not: to inflate is to copy. */
#include <stddef.h>

typedef unsigned char Bytef;
typedef unsigned long uLong;
typedef struct {
    const Bytef *next_in;
    Bytef *next_out;
    unsigned avail_in, avail_out;
} z_stream;
enum { Z_OK = 0, Z_STREAM_END = 1, Z_FINISH = 4, Z_DATA_ERROR = -3, MAX_WBITS = 15 };
#define inflateInit2(stream, bits) Z_OK
#define inflateEnd(stream) Z_OK
int inflate(z_stream *stream, int flush);
uLong crc32_z(uLong crc, const Bytef *bytes, size_t count);
