#include "base/json.h"

#include "base/decimal.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Members of an object ---------------------------------------------------------------------------------------- */

const char *json_string(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

double json_number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* ---- Reading: cJSON gets numbers with a power of ten instead of a decimal point --------------------------- */

static size_t string_size(const char *text, size_t size)
{
    size_t at = 1;

    while (at < size && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
    return at < size ? at + 1 : size;
}

/* 0: the text does not begin like a number */
static size_t number_size(const char *text, size_t size)
{
    size_t at = 0;

    if (*text != '-' && (*text < '0' || *text > '9'))
        return 0;
    while (at < size && text[at] != '\0' && strchr("0123456789+-.eE", text[at]) != NULL)
        at++;
    return at;
}

/* Writes x as an integer and a power of ten. 17 digits distinguish every double from the next. */
static void add_whole(struct text *to, double x)
{
    enum { DIGITS = 17 };
    char text[48], *point;

    text_fit(text, sizeof text, "%.*e", DIGITS - 1, x);
    point = strchr(text, '.');
    if (point == NULL) /* inf */
        text_format(to, x > 0 ? "1e999" : "-1e999");
    else
        text_format(to, "%.*s%.*se%d", (int)(point - text), text, DIGITS - 1, point + 1,
                    atoi(strchr(point, 'e') + 1) - (DIGITS - 1));
}

static void add_number(struct text *to, const char *from, size_t size)
{
    double x = 0;

    if (memchr(from, '.', size) == NULL)
        text_add(to, from, size);
    else if (decimal_read(from, &x) == from + size)
        add_whole(to, x);
    else
        text_add(to, "?", 1); /* cJSON does not accept this as a number either */
}

/* Adds text, with its numbers rewritten, until `to` has `most` bytes. Returns how much of the text was used. */
static size_t add_pointless(struct text *to, const char *text, size_t size, size_t most)
{
    size_t at = 0, part = 0;

    for (; at < size && to->size < most && !to->failed; at += part) {
        part = number_size(text + at, size - at);
        if (part > 0) {
            add_number(to, text + at, part);
        } else {
            part = text[at] == '"' ? string_size(text + at, size - at) : 1;
            text_add(to, text + at, part);
        }
    }
    return to->size > most && to->size - most <= part ? at - (to->size - most) : at; /* `most` may fall within a
                                                                                      * string */
}

cJSON *json_parse_part(const char *text, size_t size, size_t *end)
{
    struct text pointless = {0}, prefix = {0};
    const char *stopped = NULL;
    cJSON *json = NULL;

    add_pointless(&pointless, text, size, SIZE_MAX);
    *end = 0;
    if (!pointless.failed && pointless.at != NULL)
        json = cJSON_ParseWithLengthOpts(pointless.at, pointless.size, &stopped, 0);
    if (stopped != NULL)
        *end = add_pointless(&prefix, text, size, (size_t)(stopped - pointless.at));
    free(pointless.at);
    free(prefix.at);
    return json;
}

cJSON *json_parse(const char *text)
{
    size_t end;

    return text != NULL ? json_parse_part(text, strlen(text), &end) : NULL;
}

/* ---- Writing: cJSON gets numbers as raw text ----------------------------------------------------- */

static void number_text(double x, char *text, size_t size)
{
    double reread = 0;

    if (!isfinite(x)) {
        text_fit(text, size, "null");
        return;
    }
    for (int digits = 15; digits <= 17 && (digits == 15 || reread != x); digits++) {
        text_fit(text, size, "%.*g", digits, x);
        decimal_read(text, &reread);
    }
}

/* Replaces the numbers of a value, which belongs to this file, by raw text. 0: out of memory. */
static int make_raw(cJSON *json)
{
    cJSON *child;
    char text[32];

    cJSON_ArrayForEach(child, json) if (!make_raw(child)) return 0;
    if (!cJSON_IsNumber(json))
        return 1;
    number_text(json->valuedouble, text, sizeof text);
    json->valuestring = cJSON_malloc(strlen(text) + 1);
    if (json->valuestring == NULL)
        return 0;
    strcpy(json->valuestring, text);
    json->type = (json->type & ~0xff) | cJSON_Raw;
    return 1;
}

static char *print(const cJSON *json, char *(*how)(const cJSON *))
{
    cJSON *copy = cJSON_Duplicate(json, 1);
    char *text = copy != NULL && make_raw(copy) ? how(copy) : NULL;

    cJSON_Delete(copy);
    return text;
}

char *json_text(const cJSON *json)
{
    return print(json, cJSON_PrintUnformatted);
}

char *json_text_indented(const cJSON *json)
{
    return print(json, cJSON_Print);
}
