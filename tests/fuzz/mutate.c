/*
 * Mutations that keep an input's structure, so that more of them get past the code's first check.
 *
 * A target's form says what its inputs are made of. One piece is changed, and the numbers that
 * count its bytes are corrected: a part's own length, the 64-bit lengths before strings and
 * headers, the sizes in an IDX file. Text changes by tokens and lines; other bytes mostly in whole
 * fields. Every eighth mutation is libFuzzer's own and keeps nothing.
 */
#include <ctype.h>
#include <string.h>

#include "tests/fuzz/targets.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

enum { MAX_PIECES = 64, MAX_BYTES = 1 << 20, MAX_PART = 1023 };

typedef struct {
    size_t at, size; // without its length
    char kind; // its letter in the form
} Piece;

// clang-format off
static const char *const numbers[] = {
    "0", "1", "-1", "2", "255", "65536", "2147483647", "2147483648", "4294967296", "9223372036854775807",
    "18446744073709551615", "1e308", "0.5", "1e-9" };
// clang-format on
static const uint64_t fields[] = { 0,     1,         2,          127,       255,
                                   65535, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX };

static uint8_t *bytes; // the input in progress ...
static size_t num_bytes, max_bytes;
static uint64_t dice;

static size_t draw(size_t sides)
{
    dice = dice * 6364136223846793005 + 1442695040888963407;
    return (size_t)(dice >> 33) % sides;
}

/* Replaces length bytes by others, which may be the input's own. Returns how many are there now. */
static size_t replace(size_t at, size_t length, const void *other, size_t count)
{
    static uint8_t copy[MAX_BYTES];
    if (num_bytes - length + count > max_bytes)
        return length;
    memcpy(copy, other, count);
    memmove(bytes + at + count, bytes + at + length, num_bytes - at - length);
    memcpy(bytes + at, copy, count);
    num_bytes += count - length;
    return count;
}

static void swap(Piece first, Piece last)
{
    static uint8_t copy[MAX_BYTES];
    const size_t between = last.at - first.at - first.size;
    uint8_t *to = copy;
    to = mempcpy(to, bytes + last.at, last.size);
    to = mempcpy(to, bytes + first.at + first.size, between);
    mempcpy(to, bytes + first.at, first.size);
    memcpy(bytes + first.at, copy, first.size + between + last.size);
}

static bool in_word(size_t at)
{
    return isalnum(bytes[at]) || (bytes[at] != 0 && strchr("_.-", bytes[at]) != NULL);
}

/* Finds a word or a number, seldom any character, in the piece. */
static Piece find_token(Piece text)
{
    size_t begin = text.at + draw(text.size), end = begin + 1;
    for (size_t tries = draw(8) == 0 ? 0 : 50; tries > 0 && !in_word(begin); tries--)
        end = 1 + (begin = text.at + draw(text.size));
    while (in_word(begin) && begin > text.at && in_word(begin - 1))
        begin--;
    while (in_word(begin) && end < text.at + text.size && in_word(end))
        end++;
    return (Piece){ begin, end - begin, isdigit(bytes[end - 1]) ? 'n' : 't' };
}

static Piece find_line(Piece text)
{
    size_t begin = text.at + draw(text.size), end = begin;
    while (begin > text.at && bytes[begin - 1] != '\n')
        begin--;
    while (end < text.at + text.size && bytes[end++] != '\n')
        continue;
    return (Piece){ begin, end - begin, 'l' };
}

/* These change a piece; they return its new size. */
static size_t mutate_text(Piece text)
{
    const bool lines = draw(4) == 0 && memchr(bytes + text.at, '\n', text.size - 1) != NULL;
    const Piece token = lines ? find_line(text) : find_token(text);
    Piece other = lines ? find_line(text) : find_token(text);
    for (int i = 0; i < 20 && token.kind != other.kind; i++)
        other = find_token(text);
    const size_t rest = text.size - token.size;
    const char *number = numbers[draw(sizeof numbers / sizeof *numbers)];
    switch (draw(8)) {
    case 0: // deletes
        return rest + replace(token.at, token.size, "", 0);
    case 1: // duplicates
        return text.size + replace(token.at, 0, bytes + token.at, token.size);
    case 2: // swaps
        if (token.at + token.size <= other.at)
            swap(token, other);
        return text.size;
    case 3: // copies
        return rest + replace(token.at, token.size, bytes + other.at, other.size);
    default:
        if (token.kind == 'n')
            return rest + replace(token.at, token.size, number, strlen(number));
        return text.size + replace(token.at, 0, bytes + other.at, other.size); // inserts
    }
}

static size_t mutate_field(Piece piece)
{
    const size_t width = (size_t)1 << draw(4), value = draw(sizeof fields / sizeof *fields);
    const size_t count = piece.size / width;
    if (count == 0)
        return piece.size;
    uint64_t field = fields[value];
    uint8_t *at = bytes + piece.at + width * draw(count);
    if (draw(2) == 0) { // its neighbours
        memcpy(&field, at, width);
        field += draw(2) == 0 ? 1 : UINT64_MAX;
    }
    memcpy(at, &field, width);
    return piece.size;
}

/* Draws a size of an IDX file and gives it so many elements. */
static size_t mutate_idx(Piece file)
{
    static const uint8_t nothing[MAX_BYTES], widths[16] = { [8] = 1, 1, [11] = 2, 4, 4, 8 };
    const size_t ndim = file.size > 4 ? bytes[file.at + 3] : 0, header = 4 + 4 * ndim;
    if (ndim == 0 || ndim > 4 || file.size < header)
        return file.size;
    const size_t chosen = draw(ndim);
    size_t data = widths[bytes[file.at + 2] % 16];
    for (size_t i = 0; i < ndim; i++) {
        uint8_t *size = bytes + file.at + 4 + 4 * i;
        if (i == chosen)
            memcpy(size, (uint8_t[]){ 0, 0, 0, (uint8_t)draw(9) }, 4);
        data *= size[0] | size[1] | size[2] ? 0 : size[3];
    }
    const size_t old = file.size - header, kept = old < data ? old : data;
    return file.size - old + kept +
           replace(file.at + header + kept, old - kept, nothing, data - kept);
}

static size_t mutate_piece(Piece piece);

/* Changes what a 64-bit length counts, and that length. Returns the piece's new size; 0 without
 * one. */
static size_t mutate_counted(Piece piece)
{
    for (size_t i = 0, from = draw(piece.size); i + 8 < piece.size; i++) {
        const size_t at = piece.at + (from + i) % (piece.size - 8);
        uint64_t count;
        memcpy(&count, bytes + at, sizeof count);
        if (count == 0 || count > piece.at + piece.size - at - 8)
            continue;
        const uint64_t changed = mutate_piece((Piece){ at + 8, count, 't' });
        memcpy(bytes + at, &changed, sizeof changed);
        return piece.size - count + changed;
    }
    return 0;
}

static size_t mutate_piece(Piece piece)
{
    if (piece.size == 0)
        return 0;
    const size_t counted = draw(4) > 0 && piece.size > 8 ? mutate_counted(piece) : 0;
    if (counted > 0)
        return counted;
    if (piece.kind == 'i' && draw(4) > 0)
        return mutate_idx(piece);
    size_t printable = 0;
    for (size_t i = 0; i < piece.size; i++)
        printable += isprint(bytes[piece.at + i]) || bytes[piece.at + i] == '\n';
    if (printable > draw(piece.size))
        return mutate_text(piece);
    return mutate_field(piece);
}

static int find_pieces(const char *form, const uint8_t *data, size_t size, Piece *pieces)
{
    int count = 0;
    Input rest = { data, size, false };
    for (const char *letter = form; rest.size > 0; letter++) {
        if (*letter == '*' || *letter == '\0') // the last piece, or the whole form, again
            letter = *letter == '*' ? letter - 1 : form;
        Input piece = { rest.data, rest.size, false };
        if (count == MAX_PIECES - 1 || (*letter == 'p' && rest.size < 2))
            letter = "t";
        if (*letter == 'p')
            piece = input_part(&rest);
        else if (*letter == '1')
            piece.size = 1;
        else if (*letter == 'l' && memchr(rest.data, '\n', rest.size) != NULL)
            piece.size = (size_t)((uint8_t *)memchr(rest.data, '\n', rest.size) - rest.data);
        if (*letter != 'p') {
            rest.data += piece.size;
            rest.size -= piece.size;
        }
        pieces[count++] = (Piece){ (size_t)(piece.data - data), piece.size, *letter };
    }
    return count;
}

static void take(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    bytes = data;
    num_bytes = size;
    max_bytes = max_size < MAX_BYTES ? max_size : MAX_BYTES;
    dice = seed;
    draw(2);
}

size_t mutate(const char *form, uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    Piece pieces[MAX_PIECES];
    take(data, size, max_size, seed);
    const int count = find_pieces(form, data, size, pieces);
    if (count == 0 || size > max_bytes || draw(8) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    Piece piece = pieces[draw((size_t)count)];
    if (piece.kind == '1' && draw(4) > 0)
        piece = pieces[count - 1];
    if (piece.kind == '1')
        data[piece.at] = (uint8_t)draw(256);
    else if (piece.kind == 'p') {
        max_bytes =
            size + MAX_PART - piece.size < max_bytes ? size + MAX_PART - piece.size : max_bytes;
        const size_t changed = mutate_piece(piece);
        data[piece.at - 2] = (uint8_t)changed;
        data[piece.at - 1] = (uint8_t)(data[piece.at - 1] & ~3) | (uint8_t)(changed >> 8);
    } else
        mutate_piece(piece);
    return num_bytes;
}

/* Returns where a piece or a line of the input begins. */
static size_t find_cut(const char *form, const uint8_t *data, size_t size)
{
    Piece pieces[MAX_PIECES];
    const int count = find_pieces(form, data, size, pieces);
    if (count == 0)
        return 0;
    const Piece piece = pieces[draw((size_t)count)];
    const uint8_t *line = memchr(data + piece.at, '\n', piece.size);
    if (piece.kind == 't' && line != NULL)
        for (size_t skipped = draw(32); skipped > 0; skipped--) {
            const uint8_t *next = memchr(line + 1, '\n', size - (size_t)(line + 1 - data));
            line = next != NULL ? next : line;
        }
    return piece.kind == 't' && line != NULL ? (size_t)(line + 1 - data)
                                             : piece.at - 2 * (piece.kind == 'p');
}

size_t cross(const char *form, Input a, Input b, uint8_t *out, size_t max_size, unsigned seed)
{
    take(out, 0, max_size, seed);
    const size_t head = find_cut(form, a.data, a.size), from = find_cut(form, b.data, b.size);
    replace(0, 0, a.data, head);
    replace(num_bytes, 0, b.data + from, b.size - from);
    return num_bytes;
}
