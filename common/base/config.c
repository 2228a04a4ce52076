/*
 * The configuration file: a flat YAML mapping from the names of options to values.
 *
 *     batch_size: 64   # - and _ are the same, as on the command line
 *
 * One file serves all steps, so each key must be an option of some step. Anything else is refused
 * with its line number: an unnoticed typo can cost a night of training.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "common/base/args.h"
#include "common/base/log.h"
#include "common/base/memory.h"

enum { MAX_BYTES = 1 << 20 };

#define BYTE_ORDER_MARK "\xef\xbb\xbf" // some editors begin a file with it

typedef struct {
    Settings *settings;
    const char **texts; // see config_read
    const char *text; // the file's
    yaml_parser_t parser;
    yaml_event_t event; // the latest
    char origin[PATH_MAX + 16]; // of it, for messages: "config.yaml:7: "
} Reader;

/* The whole file, which must not be a pipe or a terminal: reading those may block. */
static char *read_file(const char *path, size_t *size)
{
    struct stat status;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        usage_error("cannot read the configuration file %s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) // /dev/null is fine
        usage_error("the configuration file %s is not a regular file", path);

    char *text = mem_calloc(MAX_BYTES + 1, 1);
    ssize_t n = 0;
    for (*size = 0; (n = read(fd, text + *size, MAX_BYTES + 1 - *size)) > 0;)
        *size += (size_t)n;
    if (n < 0)
        usage_error("cannot read the configuration file %s: %s", path, strerror(errno));
    if (*size > MAX_BYTES)
        usage_error("the configuration file %s is larger than %d bytes", path, MAX_BYTES);
    close(fd);
    return text;
}

static noreturn void refuse_yaml(const Reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    size_t line = parser->problem_mark.line + 1;
    for (size_t i = 0; parser->error == YAML_READER_ERROR && i < parser->problem_offset; i++)
        line += reader->text[i] == '\n'; // not valid text: only the byte offset is known
    usage_error("%s:%zu: not YAML: %s", reader->settings->path, line,
                parser->problem != NULL ? parser->problem : "out of memory");
}

static yaml_event_type_t next(Reader *reader)
{
    yaml_event_delete(&reader->event);
    if (!yaml_parser_parse(&reader->parser, &reader->event))
        refuse_yaml(reader);
    snprintf(reader->origin, sizeof reader->origin, "%s:%zu: ", reader->settings->path,
             reader->event.start_mark.line + 1);
    return reader->event.type;
}

/* The text of the latest event, valid until the next. */
static const char *scalar(const Reader *reader)
{
    if (reader->event.type != YAML_SCALAR_EVENT)
        usage_error("%snames and values are single words or numbers", reader->origin);
    if (reader->event.data.scalar.tag != NULL) // "!!binary aGk=" does not mean "aGk="
        usage_error("%snames and values have no !tags", reader->origin);
    const char *text = (const char *)reader->event.data.scalar.value;
    if (strlen(text) != reader->event.data.scalar.length)
        usage_error("%snames and values have no NUL bytes", reader->origin);
    return text;
}

static void read_pair(Reader *reader)
{
    const char *name = scalar(reader);
    Settings *settings = reader->settings;
    const Option *option = option_find(args_options, settings->step, name, strlen(name));
    if (option == NULL)
        setting_unknown(ANY_STEP, reader->origin, "", name, strlen(name));
    name = option->name;
    if (option->kind == OPTION_ACTION)
        usage_error("%s%s works on the command line only", reader->origin, name);
    int *line = &settings->of[option - args_options].line;
    if (*line > 0)
        usage_error("%s%s is already set in line %d", reader->origin, name, *line);
    *line = (int)reader->event.start_mark.line + 1;
    const bool is_listed = option_is_listed(option, settings->step);
    if (!is_listed && option_is_taught(option, settings->step) && log_speaks_for_node())
        log_info("%s%s is ignored: this program was built without %s", reader->origin, name,
                 option->extra);

    next(reader);
    const char *value = scalar(reader);
    const bool plain = reader->event.data.scalar.plain_implicit;
    if (plain && (value[0] == '\0' || strcmp(value, "~") == 0 || strcmp(value, "null") == 0))
        usage_error("%s%s has no value", reader->origin, name);
    const char *copy = strdup(value);
    CHECK(copy != NULL, "out of memory");
    reader->texts[option - args_options] = is_listed ? copy : NULL;
}

void config_read(Settings *settings, const char *texts[])
{
    size_t size = 0;
    char *text = read_file(settings->path, &size);
    const size_t skipped = strncmp(text, BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
    Reader reader = { .settings = settings, .texts = texts, .text = text + skipped };
    CHECK(yaml_parser_initialize(&reader.parser), "out of memory");
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)reader.text,
                                 size - skipped);

    next(&reader); // the stream begins
    if (next(&reader) == YAML_DOCUMENT_START_EVENT) { // else there are comments at most
        if (next(&reader) != YAML_MAPPING_START_EVENT)
            usage_error("%sa line must be \"name: value\"", reader.origin);
        while (next(&reader) != YAML_MAPPING_END_EVENT)
            read_pair(&reader);
        next(&reader); // the document ends
        if (next(&reader) != YAML_STREAM_END_EVENT)
            usage_error("%sa second document begins, but only one is read", reader.origin);
    }

    yaml_event_delete(&reader.event);
    yaml_parser_delete(&reader.parser);
    free(text);
}
