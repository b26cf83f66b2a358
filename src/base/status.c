/* The version, and texts for statuses. */
#include "clattn.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *clattn_version(void)
{
    return TEXT(CLATTN_VERSION_MAJOR) "." TEXT(CLATTN_VERSION_MINOR) "." TEXT(CLATTN_VERSION_PATCH);
}

int clattn_version_number(void)
{
    return CLATTN_VERSION;
}

const char *clattn_status_text(clattn_status status)
{
    static const char *const texts[] = {
#define STATUS_TEXT(name, value, text) [CLATTN_##name] = text,
        CLATTN_STATUSES(STATUS_TEXT)
#undef STATUS_TEXT
    };
    size_t index = (size_t)status;
    return index < sizeof texts / sizeof *texts ? texts[index] : "unknown status";
}
