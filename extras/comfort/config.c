/*
 * The configuration file: a flat YAML mapping from the names of options to values.
 *
 *     batch_size: 64   # - and _ are the same, as on the command line
 *
 * One file serves all steps, so each key must be an option of some step. Anything else is refused
 * with its line number, because an unnoticed typo can cost a night of training.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "extras/comfort/parts.h"

enum { MAX_BYTES = 1 << 20 };

#define BYTE_ORDER_MARK "\xef\xbb\xbf" // some editors begin a file with it

typedef struct {
    Step step; // the program's step
    const char *path;
    const char *text; // the file's text
    Setting found[MAX_OPTIONS]; // in the order of args_options; text is NULL if not set
    int line[MAX_OPTIONS]; // the line that sets the option; 0 if none
    yaml_parser_t parser;
    yaml_event_t event; // the latest event
    char origin[PATH_MAX + 16]; // the latest event's place, for messages: "config.yaml:7: "
} Reader;

/* Reads the whole file. Refuses a pipe or a terminal, because reading those may block. */
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
        line += reader->text[i] == '\n'; // if the text is not valid, only the byte offset is known
    usage_error("%s:%zu: not YAML: %s", reader->path, line,
                parser->problem != NULL ? parser->problem : "out of memory");
}

static yaml_event_type_t next(Reader *reader)
{
    yaml_event_delete(&reader->event);
    if (!yaml_parser_parse(&reader->parser, &reader->event))
        refuse_yaml(reader);
    snprintf(reader->origin, sizeof reader->origin, "%s:%zu: ", reader->path,
             reader->event.start_mark.line + 1);
    return reader->event.type;
}

/* Returns the text of the latest event, valid until the next. */
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

static noreturn void refuse_name(const Reader *reader, const char *name)
{
    const size_t length = strlen(name);
    const char *nearest = comfort_nearest(args_options, ANY_STEP, name, length);
    if (nearest == NULL)
        usage_error("%s%.80s is no option: --help lists them", reader->origin, name);
    usage_error("%s%.80s is no option: did you mean %s? --help lists them", reader->origin, name,
                nearest);
}

static void read_pair(Reader *reader)
{
    const char *name = scalar(reader);
    const Option *option = option_find(args_options, reader->step, name, strlen(name));
    if (option == NULL)
        refuse_name(reader, name);
    name = option->name;
    if (option->kind == OPTION_ACTION)
        usage_error("%s%s works on the command line only", reader->origin, name);
    int *line = &reader->line[option - args_options];
    if (*line > 0)
        usage_error("%s%s is already set in line %d", reader->origin, name, *line);
    *line = (int)reader->event.start_mark.line + 1;
    char *origin = NULL; // it and the value live as long as the process
    CHECK(asprintf(&origin, "%s%s", reader->origin, name) > 0, "out of memory");

    next(reader);
    const char *value = strdup(scalar(reader));
    CHECK(value != NULL, "out of memory");
    if (value[0] == '\0' && reader->event.data.scalar.plain_implicit)
        usage_error("%s%s has no value", reader->origin, name);
    if (comfort_is_path(option) && strchr(value, '$') != NULL) // no shell reads this file
        usage_error("%s%s %.80s: variables are not replaced here; write the path, or ~/ for HOME",
                    reader->origin, name, value);
    reader->found[option - args_options] = (Setting){ value, BY_FILE, origin };
}

/* Sets the options. A value that the command line overrides must be valid too. */
static void set_found(Settings *settings, const Setting found[])
{
    Args overridden;
    for (int i = 0; args_options[i].name != NULL; i++) {
        const bool counts = settings->of[i].source == BY_DEFAULT;
        if (found[i].text == NULL || !option_is_taught(&args_options[i], settings->step))
            continue;
        option_set(&args_options[i], counts ? settings->args : &overridden, found[i].text,
                   found[i].origin);
        if (counts)
            settings->of[i] = found[i];
    }
}

static void read_config(Settings *settings, const char *path)
{
    size_t size = 0;
    char *text = read_file(path, &size);
    const size_t skipped = strncmp(text, BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
    Reader reader = { .step = settings->step, .path = path, .text = text + skipped };
    CHECK(yaml_parser_initialize(&reader.parser), "out of memory");
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)reader.text,
                                 size - skipped);

    next(&reader); // stream start
    if (next(&reader) == YAML_DOCUMENT_START_EVENT) { // else there are at most comments
        if (next(&reader) != YAML_MAPPING_START_EVENT)
            usage_error("%sa line must be \"name: value\"", reader.origin);
        while (next(&reader) != YAML_MAPPING_END_EVENT)
            read_pair(&reader);
        next(&reader); // document end
        if (next(&reader) != YAML_STREAM_END_EVENT)
            usage_error("%sa second document begins, but only one is read", reader.origin);
    }

    yaml_event_delete(&reader.event);
    yaml_parser_delete(&reader.parser);
    free(text);
    set_found(settings, reader.found);
}

/* Finds config.yaml at the top of the repository, one folder above the program. NULL if missing. */
static const char *find_config(void)
{
    static char path[PATH_MAX + sizeof "/config.yaml"];
    const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            return NULL;
        *slash = '\0';
    }
    strcat(path, "/config.yaml");
    return access(path, F_OK) == 0 ? path : NULL;
}

/* Returns true if the file has more than comments. */
static bool sets_something(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[4096];
    bool found = false;
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        const char first = line[strspn(line, " \t\r\n")];
        found = first != '#' && first != '\0';
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* Logs that a config.yaml in the working directory, which looks as if it were read, is not. */
static void warn_of_unread_config(const char *path)
{
    struct stat here, there;
    if (!log_prints_for_node() || stat("config.yaml", &here) != 0 || !S_ISREG(here.st_mode))
        return;
    const bool is_read = path != NULL && stat(path, &there) == 0 && here.st_ino == there.st_ino &&
                         here.st_dev == there.st_dev;
    if (!is_read && sets_something("config.yaml"))
        log_info("the config.yaml in this folder is not read: --config config.yaml would");
}

/* Gives a demonstration, DDP_EXPLAIN=1 with --max-steps, a folder of its own, unless one is set: it
 * must not replace the model of a real training. */
static void set_demo_folder(Settings *settings)
{
    const char *explain = getenv("DDP_EXPLAIN");
    const Option *folder = args_option("checkpoint-dir");
    const Option *steps = args_option("max-steps");
    Setting *setting = &settings->of[folder - args_options];
    if (explain == NULL || strcmp(explain, "1") != 0 || setting->source != BY_DEFAULT ||
        settings->of[steps - args_options].source == BY_DEFAULT)
        return;
    *setting = (Setting){ "checkpoints/explained", BY_FILE, "DDP_EXPLAIN=1" };
    option_set(folder, settings->args, setting->text, setting->origin);
}

void comfort_read_config(Settings *settings)
{
    const Option *config = args_option("config");
    const Setting *typed = &settings->of[config - args_options];
    const bool is_typed = typed->source == BY_COMMAND_LINE;
    const char *path = is_typed ? typed->text : find_config();
    if (path != NULL)
        read_config(settings, path);
    if (!is_typed)
        warn_of_unread_config(path);
    set_demo_folder(settings);
    comfort_share_cores(settings->args->nproc, false);
}
