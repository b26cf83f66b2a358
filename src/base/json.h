/* Reading and writing with cJSON, alike in every locale. What cJSON itself does with a decimal comma depends on how it
 * was compiled. */
#ifndef CLATTN_SRC_JSON_H
#define CLATTN_SRC_JSON_H

#include <cjson/cJSON.h>
#include <stddef.h>

/* The value at the beginning of the text, to be released with cJSON_Delete. NULL: there is none, or text is NULL. */
cJSON *json_parse(const char *text);
/* The same for the first `size` bytes; the byte after them must not belong to a number. *end: the end of the value, or
 * the position of the error. */
cJSON *json_parse_part(const char *text, size_t size, size_t *end);

/* The string or the number that an object has with this key. NULL or 0: there is none. */
const char *json_string(const cJSON *object, const char *key);
double json_number(const cJSON *object, const char *key);

/* The value as text, to be released with cJSON_free. NULL: out of memory. A number has as many digits as are needed to
 * read the same double again. Infinity and NaN become null. */
char *json_text(const cJSON *json);
char *json_text_indented(const cJSON *json);

#endif
