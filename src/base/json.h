/* cJSON's reading and writing, the same in every locale: what cJSON itself makes of a decimal comma depends on how it
 * was compiled. */
#ifndef CLATTN_SRC_JSON_H
#define CLATTN_SRC_JSON_H

#include <cjson/cJSON.h>
#include <stddef.h>

/* The value that text begins with, to be given to cJSON_Delete; NULL where it begins with none, or is NULL. */
cJSON *json_parse(const char *text);
/* The same of the first `size` bytes, after which there is one that is no part of a number. *end: behind the value, or
 * where text ceases to be one. */
cJSON *json_parse_part(const char *text, size_t size, size_t *end);

/* The string or the number that an object has by that name. NULL or 0 if it has none. */
const char *json_string(const cJSON *object, const char *key);
double json_number(const cJSON *object, const char *key);

/* The value as text, to be given to cJSON_free; NULL without memory. A number has as many digits as it takes to read
 * the same double again; one that is infinite, or none, is null. */
char *json_text(const cJSON *json);
char *json_text_indented(const cJSON *json);

#endif
