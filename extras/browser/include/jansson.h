/* What writing a checkpoint needs of jansson. A worker has JSON of its own (docs/moving/rank.js), and
 * a json_t * is the number of a value there. Nothing is freed, and no file is read. */
#include <stdarg.h>
#include <stdio.h>

#define JSON(name) __attribute__((import_module("json"), import_name(#name)))
#define JSON_COMPACT 0
#define JSON_SORT_KEYS 1
typedef struct json_t json_t;
typedef long long json_int_t;
typedef struct {
    char text[160];
} json_error_t;

json_t *json_string(const char *text) JSON(string);
json_t *json_integer(json_int_t value) JSON(integer);
json_t *json_array(void) JSON(array);
int json_array_append_new(json_t *array, json_t *value) JSON(append);
size_t json_array_size(const json_t *array) JSON(size);
json_t *json_array_get(const json_t *array, size_t i) JSON(at);
json_t *json_object_get(const json_t *object, const char *key) JSON(get);
int json_object_set_new(json_t *object, const char *key, json_t *value) JSON(set);
int json_object_del(json_t *object, const char *key) JSON(del);
json_t *json_copy(json_t *object) JSON(copy);
char *json_dumps(const json_t *value, size_t flags) JSON(dumps);
json_int_t json_integer_value(const json_t *value) JSON(number);
json_t *json_pack(const char *format, ...) JSON(pack);
int json_unpack_ex(json_t *value, json_error_t *problem, size_t flags, const char *format, ...)
    JSON(unpack);
const char *json_key(const char *key) JSON(key); // a copy that stays

static inline json_t *json_vsprintf(const char *format, va_list args)
{
    char text[256];
    return vsnprintf(text, sizeof text, format, args) < (int)sizeof text ? json_string(text) : NULL;
}

#define json_object_iter_at(object, key) json_key(key)
#define json_object_iter_key(entry) (entry)
#define json_is_integer(value) 1
#define json_is_array(value) 1
#define json_decref(value) ((void)(value))

/* Of reading, which nothing here does. */
#define JSON_REJECT_DUPLICATES 0
#define json_loadb(text, bytes, flags, problem) ((void)(problem), NULL)
#define json_object_foreach(object, key, value) for (key = NULL, value = NULL; value != NULL;)
#define json_string_value(value) ((void)(value), NULL)
#define json_object_iter(object) ((void)(object), NULL)
#define json_object_iter_next(object, entry) ((void)(object), NULL)
#define json_dumpfd(value, fd, flags) ((void)(value), (void)(fd))
