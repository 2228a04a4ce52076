/* Weights in the files of other programs: a line says what the file is, and how to convert it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/save/checkpoint.h"
#include "extras/comfort/parts.h"

#define CONVERT "python3 tools/to_safetensors.py %s weights.safetensors"

/* Returns what begins with these bytes; sets *advice if to_safetensors.py cannot read it. */
static const char *format_of(const char *bytes, size_t count, const char **advice)
{
    static const struct {
        const char *start, *name, *advice;
    } formats[] = {
        { "\x80\x02\x8a\x0al\xfc\x9c", "a file of torch.save, of the time before 1.6", NULL },
        { "\x89HDF\r\n", "an HDF5 file, as Keras writes them", NULL },
        { "\x93NUMPY", "one array of NumPy", "save all arrays by name, with numpy.savez" },
        { "GGUF", "a GGUF file", "take the model that it was made from" },
        { "\x81\xa6params", "a MessagePack file, as Flax writes them",
          "load it there, and use safetensors.flax.save_file" },
        { "\x1f\x8b\x08", "compressed by gzip", "unpack it with gunzip" },
        { "version https://git-lfs", "a placeholder of Git LFS", "fetch the file by git lfs pull" },
        { "<!", "a web page", "fetch the file itself, not the page that shows it" },
        { "{\"", "a text in JSON", "if it is an index of shards, name its folder" },
        { "{\n", "a text in JSON", "if it is an index of shards, name its folder" },
    };
    if (count < 8 || bytes[2] == 0) // the length of a damaged file's header
        return NULL;
    if (memcmp(bytes, "PK\3\4", 4) == 0) // the name of the first file comes soon
        return memmem(bytes, count, ".npy", 4) != NULL              ? "an archive of NumPy (.npz)"
               : memmem(bytes, count, "keras_version", 13) != NULL  ? "an archive of Keras (.keras)"
               : memmem(bytes, count, "/data/weights/", 14) != NULL ? "a program of torch.export"
               : memmem(bytes, count, "/data", 5) != NULL           ? "a file of torch.save"
                                                                    : "a zip";
    // Of ONNX's fields the version comes first, then a text, the operators' versions or the graph.
    if (bytes[0] == 8 && bytes[1] > 0 && bytes[1] < 32 && strchr("\x12\x3a\x42", bytes[2]) != NULL)
        return "an ONNX model";
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const size_t length = strlen(formats[i].start);
        *advice = formats[i].advice;
        if (count >= length && memcmp(bytes, formats[i].start, length) == 0)
            return formats[i].name;
    }
    *advice = NULL;
    return bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 ? "a pickle" : NULL;
}

void adopt_explain(Safetensors *file)
{
    char bytes[256];
    const char *advice = NULL;
    const int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t count = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
    if (fd >= 0)
        close(fd);
    const char *format = format_of(bytes, count > 0 ? (size_t)count : 0, &advice);
    if (format != NULL && advice != NULL)
        file_reject(file, "is %s, no safetensors file: %s", format, advice);
    else if (format != NULL)
        file_reject(file, "is %s, no safetensors file (\"" CONVERT "\" converts it)", format,
                    file->path);
}
