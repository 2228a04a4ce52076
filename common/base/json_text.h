/* json_text.h - any text as a string of JSON. */
#ifndef COMMON_BASE_JSON_TEXT_H
#define COMMON_BASE_JSON_TEXT_H

#include <jansson.h>

/* JSON is UTF-8, and the name of a file may be any bytes: each that belongs to no character becomes
 * U+FFFD. NULL: out of memory. */
json_t *json_text(const char *text);

#endif
