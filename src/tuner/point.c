/* Points as text. A point's bytes are written in hexadecimal: writer and reader are the same program. */
#include "base/text.h"
#include "tuner/search.h"

#include <string.h>

struct packed {
    clattn_plan_desc desc;
    int32_t space;
    int32_t values[MAX_PARAMETERS];
};
static const char digits[] = "0123456789abcdef";

char *search_point_write(const struct search_point *point)
{
    struct text text = {0};
    struct packed packed;
    const unsigned char *bytes = (const unsigned char *)&packed;

    memset(&packed, 0, sizeof packed); /* padding too */
    packed.desc = point->desc;
    while (space_at(packed.space) != point->tuned.space)
        packed.space++;
    for (int i = 0; i < MAX_PARAMETERS; i++)
        packed.values[i] = point->tuned.values[i];
    for (size_t i = 0; i < sizeof packed; i++)
        text_format(&text, "%02x", bytes[i]);
    return text_take(&text);
}

static unsigned char read_byte(const char *text)
{
    return (unsigned char)((strchr(digits, text[0]) - digits) << 4 | (strchr(digits, text[1]) - digits));
}

int search_point_read(const char *text, struct search_point *point)
{
    struct packed packed;
    unsigned char *bytes = (unsigned char *)&packed;

    if (strlen(text) != 2 * sizeof packed || strspn(text, digits) != 2 * sizeof packed)
        return 0;
    for (size_t i = 0; i < sizeof packed; i++)
        bytes[i] = read_byte(text + 2 * i);
    if (packed.space < 0 || packed.space >= MAX_SPACES || space_at(packed.space) == NULL)
        return 0;
    *point = (struct search_point){packed.desc, tuned_default(space_at(packed.space))};
    for (int i = 0; i < MAX_PARAMETERS; i++)
        point->tuned.values[i] = packed.values[i];
    return 1;
}
