/*
 * write_text for terminals: it dresses complete lines, and shows them above the progress bar. What
 * goes to a file or a pipe stays as it is.
 */
#include "extras/output/terminal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/log.h"

enum { INDENT = 4, MAX_HANG = 12, NUM_HUES = 8 };

// Numbers of the terminals' 256 colours, and "faint".
static const char *const hue[NUM_HUES] = { "38;5;33", "38;5;94",  "38;5;29",  "38;5;92",
                                           "38;5;31", "38;5;197", "38;5;202", "38;5;199" };
#define FAULT "38;5;160"
#define WARNING "38;5;136"
#define GOOD "38;5;29"
#define DIM "2"

/* Returns 0 if it is unknown, or fd is no terminal. */
static int width_of(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool terminal_is(int fd)
{
    static atomic_int answer[3] = { -1, -1, -1 }; // cached, since it is asked for each line
    if (fd < 0 || fd > STDERR_FILENO)
        return false;
    const char *term = getenv("TERM");
    if (answer[fd] < 0)
        answer[fd] = width_of(fd) > 0 && term != NULL && strcmp(term, "dumb") != 0;
    return answer[fd];
}

bool terminal_has_colours(int fd)
{
    const char *no_color = getenv("NO_COLOR"); // no-color.org: set, and not empty
    return terminal_is(fd) && (no_color == NULL || no_color[0] == '\0');
}

int terminal_columns(int fd)
{
    const int columns = width_of(fd);
    return columns > 0 ? columns : 80;
}

/* Returns the length of the line's tag, "[rank 2/4]", "[CPU2]" or "[GPU2]"; 0 if none. Sets *rank.
 */
static size_t find_tag(const char *line, int *rank)
{
    int size = 0, world_size = 0;
    if (sscanf(line, "[rank %d/%d]%n", rank, &world_size, &size) == 2 && size > 0 && *rank >= 0)
        return (size_t)size;
    const bool is_device = strncmp(line, "[CPU", 4) == 0 || strncmp(line, "[GPU", 4) == 0;
    return is_device && sscanf(line + 4, "%d]%n", rank, &size) == 1 && size > 0 && *rank >= 0
               ? (size_t)size + 4
               : 0;
}

/* Returns the colour for a line with this text, or NULL. */
static const char *style_of(const char *text)
{
    static const struct {
        const char *begin, *style;
    } styles[] = {
        { "fatal: ", FAULT }, { "✕ ", FAULT },           { "warning: ", WARNING },
        { "✓ ", GOOD },       { "resumes from ", GOOD }, { "node ", DIM },
    };
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (strncmp(text, styles[i].begin, strlen(styles[i].begin)) == 0)
            return styles[i].style;
    const bool is_place =
        strstr(text, ", connected by ") != NULL || strstr(text, ": host ") != NULL;
    return is_place ? DIM : NULL;
}

/* Returns the indent of a wrapped line: under the text of "  what   text", else INDENT. */
static int hang_of(const char *line, size_t length)
{
    size_t at = 2;
    if (length < 3 || strncmp(line, "  ", 2) != 0 || line[2] == ' ')
        return INDENT;
    while (at < length && line[at] != ' ')
        at++;
    while (at < length && line[at] == ' ')
        at++;
    return at <= MAX_HANG ? (int)at : INDENT;
}

static size_t columns_of(const char *text, size_t length)
{
    size_t columns = 0;
    for (size_t i = 0; i < length; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80; // UTF-8: a byte that begins a character
    return columns;
}

/* Returns how much of a text of this length fits the columns, without the space behind it: up to
 * the end of a word, and at least one word. */
static size_t piece_of(const char *text, size_t length, int columns)
{
    if ((int)columns_of(text, length) <= columns)
        return length;
    size_t fits = 0, at = 0;
    while (at < length) {
        while (at < length && text[at] == ' ')
            at++;
        while (at < length && text[at] != ' ')
            at++;
        if (fits > 0 && (int)columns_of(text, at) > columns)
            break;
        fits = at;
    }
    return fits;
}

/* Prints a part of a line in its style. */
static void put(FILE *out, const char *style, const char *text, size_t length)
{
    if (length == 0)
        return;
    if (style != NULL)
        fprintf(out, "\033[%sm%.*s\033[0m", style, (int)length, text);
    else
        fwrite(text, 1, length, out);
}

static void format_line(FILE *out, const char *line, size_t length, int columns, bool colours)
{
    char copy[1024]; // the beginning of the line
    snprintf(copy, sizeof copy, "%.*s", (int)length, line);
    int rank = 0;
    const size_t tag = find_tag(copy, &rank);
    const char *const text = copy + tag + (copy[tag] == ' ');
    const char *const style = colours ? style_of(text) : NULL;
    const int hang = hang_of(line, length);
    put(out, colours ? hue[rank % NUM_HUES] : NULL, line, tag);

    int room = columns - (int)tag;
    for (size_t at = tag; at < length;) {
        const size_t piece = piece_of(line + at, length - at, room);
        put(out, style, line + at, piece);
        at += piece;
        while (at < length && line[at] == ' ')
            at++;
        if (at < length)
            fprintf(out, "\n%*s", hang, "");
        room = columns - hang;
    }
}

char *terminal_format(const char *text, size_t length, int columns, bool colours, size_t *bytes)
{
    char *formatted = NULL;
    FILE *out = open_memstream(&formatted, bytes);
    if (out == NULL)
        return NULL;
    for (const char *end = text + length, *line = text; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const size_t size = (size_t)((newline != NULL ? newline : end) - line);
        format_line(out, line, size, columns, colours);
        if (newline != NULL)
            fputc('\n', out);
        line += size + 1;
    }
    fclose(out);
    return formatted;
}

/* Returns true if another rank of this node has printed this error, and so made its file. */
static bool already_printed(const char *text)
{
    const char *folder = getenv(TERMINAL_SAID);
    const char *error = strstr(text, "] fatal: ");
    if (folder == NULL || error == NULL || strncmp(text, "[rank ", 6) != 0)
        return false;
    uint64_t hash = 14695981039346656037u; // FNV-1a
    for (const char *c = error; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    char path[4096];
    snprintf(path, sizeof path, "%s/" TERMINAL_SAID_FILE "%016llx", folder,
             (unsigned long long)hash);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool printed = fd < 0 && errno == EEXIST;
    close(fd);
    return printed;
}

int write_text(int fd, const char *text, size_t length)
{
    size_t bytes = 0;
    if (terminal_is(fd) && already_printed(text))
        return 0;
    char *formatted = terminal_is(fd) ? terminal_format(text, length, terminal_columns(fd),
                                                        terminal_has_colours(fd), &bytes)
                                      : NULL;
    progress_bar_erase();
    const bool written =
        write_all(fd, formatted != NULL ? formatted : text, formatted != NULL ? bytes : length);
    const int reason = written ? 0 : errno;
    progress_bar_redraw();
    free(formatted);
    return reason;
}
