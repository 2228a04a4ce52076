/* jansson refuses what is not UTF-8, so it is asked: by the whole text, then by each character. */
#include "common/base/json_text.h"

#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" // U+FFFD

/* The bytes of the character at the beginning of the text; 0: it begins with none. */
static size_t character_bytes(const char *text)
{
    const size_t most = strnlen(text, 4);
    for (size_t bytes = 1; bytes <= most; bytes++) {
        json_t *character = json_stringn(text, bytes);
        json_decref(character);
        if (character != NULL)
            return bytes;
    }
    return 0;
}

json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    char *valid = string == NULL ? malloc(strlen(REPLACEMENT) * strlen(text) + 1) : NULL;
    if (valid == NULL)
        return string;
    char *end = valid;
    while (*text != '\0') {
        const size_t bytes = character_bytes(text);
        end = mempcpy(end, bytes > 0 ? text : REPLACEMENT, bytes > 0 ? bytes : strlen(REPLACEMENT));
        text += bytes > 0 ? bytes : 1;
    }
    *end = '\0';
    string = json_string(valid);
    free(valid);
    return string;
}
