/*
 * Two nested formats, both small. A protocol buffer is a list of fields: a key (the number times 8
 * plus how the value is stored), then the value, a text or a message with its length in front. A
 * record wraps it so that a truncated or damaged file is noticed. All numbers are little-endian, as
 * on every machine this runs on.
 */
#include "extras/watch/event_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; // how a value is stored

typedef struct {
    unsigned char byte[16384]; // room for all settings
    size_t length;
} Message;

static void put(Message *message, const void *bytes, size_t length)
{
    CHECK(length <= sizeof message->byte - message->length, "an event of over %zu bytes",
          sizeof message->byte);
    memcpy(message->byte + message->length, bytes, length);
    message->length += length;
}

/* Writes seven bits at a time, the lowest first; the top bit is set if more follow. */
static void put_varint(Message *message, uint64_t value)
{
    do {
        const unsigned char byte = (unsigned char)(value % 128 + (value >= 128 ? 128 : 0));
        put(message, &byte, 1);
    } while ((value /= 128) > 0);
}

static void put_key(Message *message, unsigned field, unsigned kind)
{
    put_varint(message, field * 8 + kind);
}

static void put_bytes(Message *message, unsigned field, const void *bytes, size_t length)
{
    put_key(message, field, BYTES);
    put_varint(message, length);
    put(message, bytes, length);
}

static void put_number(Message *message, unsigned field, uint64_t value)
{
    put_key(message, field, VARINT);
    put_varint(message, value);
}

static void put_double(Message *message, unsigned field, double value)
{
    put_key(message, field, FIXED64);
    put(message, &value, sizeof value);
}

static void put_message(Message *message, unsigned field, const Message *inner)
{
    put_bytes(message, field, inner->byte, inner->length);
}

static double wall_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Writes what every event begins with: wall time and step. */
static Message event_begin(uint64_t step)
{
    Message event = { .length = 0 };
    put_double(&event, 1, wall_time()); // Event.wall_time
    put_number(&event, 2, step); // Event.step
    return event;
}

/* Computes CRC-32C (Castagnoli), bit by bit: an event is short. "Masked", because the checksum of
 * bytes that contain checksums would be a poor one. */
static uint32_t masked_crc(const void *bytes, size_t length)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < length; i++) {
        crc ^= ((const unsigned char *)bytes)[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82f63b78 & -(crc & 1));
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

/* Begins a file. Writing its step, though it is 0, identifies files that we wrote. */
static Message version_event(void)
{
    static const char version[] = "brain.Event:2";
    Message event = event_begin(0);
    put_bytes(&event, 3, version, sizeof version - 1); // Event.file_version
    return event;
}

static void give_up(EventFile *events)
{
    log_warning("cannot write %s, so TensorBoard sees no more of this run: %s", events->path,
                strerror(errno));
    fclose(events->file);
    events->file = NULL;
}

static void write_record(EventFile *events, const Message *message)
{
    if (events->file == NULL)
        return;
    const uint64_t length = message->length;
    const uint32_t length_crc = masked_crc(&length, sizeof length);
    const uint32_t crc = masked_crc(message->byte, message->length);
    if (fwrite(&length, sizeof length, 1, events->file) != 1 ||
        fwrite(&length_crc, sizeof length_crc, 1, events->file) != 1 ||
        fwrite(message->byte, message->length, 1, events->file) != 1 ||
        fwrite(&crc, sizeof crc, 1, events->file) != 1)
        give_up(events);
}

/* Returns false at the end, and if a record is incomplete, or longer than ours. */
static bool read_record(FILE *file, Message *message)
{
    uint64_t length;
    uint32_t length_crc, crc;
    if (fread(&length, sizeof length, 1, file) != 1 ||
        fread(&length_crc, sizeof length_crc, 1, file) != 1 ||
        length_crc != masked_crc(&length, sizeof length) || length > sizeof message->byte)
        return false;
    message->length = length;
    return fread(message->byte, 1, length, file) == length &&
           fread(&crc, sizeof crc, 1, file) == 1 && crc == masked_crc(message->byte, length);
}

/* Returns the step of one of our events; UINT64_MAX if it has none in the expected place. */
static uint64_t step_of(const Message *event)
{
    uint64_t step = 0;
    if (event->length < 11 || event->byte[9] != 2 * 8 + VARINT)
        return UINT64_MAX;
    for (size_t i = 10; i < event->length && i < 20; i++) {
        step |= (uint64_t)(event->byte[i] & 127) << 7 * (i - 10);
        if (event->byte[i] < 128)
            break;
    }
    return step;
}

/* Cuts a file of ours at its first event that is incomplete, or of first_step or later. */
static void cut_file(int fd, const char *name, uint64_t first_step)
{
    Message event;
    off_t end = 0;
    struct stat status; // a pipe may block, a link names a file elsewhere
    const bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                         status.st_nlink == 1 &&
                         flock(fd, LOCK_EX | LOCK_NB) == 0; // else another run is writing it
    FILE *file = fdopen(fd, "r+");
    CHECK(file != NULL, "out of memory");
    const Message version = version_event();
    if (is_file && read_record(file, &event) && event.length == version.length &&
        memcmp(event.byte + 9, version.byte + 9, event.length - 9) == 0) {
        do {
            end = ftello(file);
        } while (read_record(file, &event) && step_of(&event) < first_step);
        CHECK(ftruncate(fd, end) == 0, "cannot shorten %s: %s", name, strerror(errno));
    }
    fclose(file);
}

/* Cuts only our files: other programs' event files in the folder are left as they are. */
static void cut_files(const char *dir, uint64_t first_step)
{
    static const char prefix[] = "events.out.tfevents.";
    DIR *folder = opendir(dir);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        const int fd =
            openat(dirfd(folder), entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0)
            cut_file(fd, entry->d_name, first_step);
    }
    if (folder != NULL)
        closedir(folder);
}

void event_file_open(EventFile *events, const char *dir, uint64_t first_step)
{
    char host[64] = "";
    events->file = NULL;
    cut_files(dir, first_step);
    gethostname(host, sizeof host - 1);
    for (int number = 0; events->file == NULL; number++) { // one per second, host and process
        const int length =
            snprintf(events->path, sizeof events->path, "%s/events.out.tfevents.%lld.%s.%d.%d", dir,
                     (long long)time(NULL), host, (int)getpid(), number);
        CHECK(length < (int)sizeof events->path, "the path of --metrics-dir is too long: %s", dir);
        events->file = fopen(events->path, "axe");
        if (events->file == NULL && errno != EEXIST)
            break;
        if (events->file != NULL)
            flock(fileno(events->file), LOCK_EX | LOCK_NB); // so that no other run cuts it
    }
    CHECK(events->file != NULL, "cannot write %s: %s: name another folder with --metrics-dir",
          events->path, strerror(errno));

    static const unsigned char start[] = { 8, 1 }; // SessionLog.status = START
    Message event = version_event();
    write_record(events, &event);
    event = event_begin(first_step);
    put_bytes(&event, 7, start, sizeof start); // Event.session_log
    write_record(events, &event);
}

void event_file_scalar(EventFile *events, const char *tag, uint64_t step, double value)
{
    const float simple_value = (float)value;
    Message point = { .length = 0 }, summary = { .length = 0 };
    put_bytes(&point, 1, tag, strlen(tag)); // Summary.Value.tag
    put_key(&point, 2, FIXED32); // Summary.Value.simple_value
    put(&point, &simple_value, sizeof simple_value);
    put_message(&summary, 1, &point); // Summary.value

    Message event = event_begin(step);
    put_message(&event, 5, &summary); // Event.summary
    write_record(events, &event);
}

/* Writes a value that a plugin of TensorBoard's shows, with the plugin's own data beside it. */
static void write_for_plugin(EventFile *events, const char *tag, uint64_t step, const char *plugin,
                             const Message *content, const Message *tensor)
{
    Message data = { .length = 0 }, metadata = { .length = 0 }, value = { .length = 0 };
    put_bytes(&data, 1, plugin, strlen(plugin)); // SummaryMetadata.PluginData.plugin_name
    put_message(&data, 2, content); // SummaryMetadata.PluginData.content
    put_message(&metadata, 1, &data); // SummaryMetadata.plugin_data
    put_number(&metadata, 4, 2); // SummaryMetadata.data_class = TENSOR
    put_bytes(&value, 1, tag, strlen(tag)); // Summary.Value.tag
    put_message(&value, 9, &metadata); // Summary.Value.metadata
    put_message(&value, 8, tensor); // Summary.Value.tensor

    Message summary = { .length = 0 }, event = event_begin(step);
    put_message(&summary, 1, &value); // Summary.value
    put_message(&event, 5, &summary); // Event.summary
    write_record(events, &event);
}

void event_file_text(EventFile *events, const char *tag, uint64_t step, const char *text)
{
    static const unsigned char scalar[] = { 0x08, 7, 0x12, 0 }; // dtype = STRING, no dimensions
    Message tensor = { .length = 0 };
    put(&tensor, scalar, sizeof scalar);
    put_bytes(&tensor, 8, text, strlen(text)); // TensorProto.string_val
    write_for_plugin(events, tag, step, "text", &(Message){ .length = 0 }, &tensor);
}

/* Appends an entry of SessionStartInfo.hparams: a number where the text is one, but not "nan",
 * which the JSON of TensorBoard's page cannot have. */
static void put_setting(Message *info, const char *name, const char *text)
{
    char *end = NULL;
    const double number = strtod(text, &end);
    Message value = { .length = 0 }, entry = { .length = 0 };
    if (end != text && *end == '\0' && isfinite(number))
        put_double(&value, 2, number); // google.protobuf.Value.number_value
    else
        put_bytes(&value, 3, text, strlen(text)); // google.protobuf.Value.string_value
    put_bytes(&entry, 1, name, strlen(name)); // the map's key
    put_message(&entry, 2, &value); // the map's value
    put_message(info, 1, &entry);
}

void event_file_settings(EventFile *events, uint64_t step, const json_t *settings)
{
    static const unsigned char empty[] = { 0x08, 1, 0x12, 2, 0x12, 0 }; // dtype = FLOAT, shape [0]
    Message info = { .length = 0 }, content = { .length = 0 }, tensor = { .length = 0 };
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)settings, name, value)
    {
        const char *text = json_string_value(value);
        if (text != NULL && info.length + strlen(name) + strlen(text) < sizeof info.byte / 2)
            put_setting(&info, name, text);
    }
    put_double(&info, 5, wall_time()); // SessionStartInfo.start_time_secs
    put_message(&content, 3, &info); // HParamsPluginData.session_start_info
    put(&tensor, empty, sizeof empty);
    write_for_plugin(events, "_hparams_/session_start_info", step, "hparams", &content, &tensor);
}

void event_file_flush(EventFile *events)
{
    if (events->file != NULL && fflush(events->file) != 0)
        give_up(events);
}

void event_file_close(EventFile *events)
{
    event_file_flush(events);
    if (events->file != NULL && fclose(events->file) != 0)
        log_warning("cannot write the end of %s: %s", events->path, strerror(errno));
    events->file = NULL;
}
