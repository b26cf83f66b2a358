#include "cli/out/origin.h"

#include "cli/commit.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "another"
#endif

#if defined(_WIN32)
#define SYSTEM "windows"
#elif defined(__APPLE__)
#define SYSTEM "macos"
#elif defined(__ANDROID__)
#define SYSTEM "android"
#elif defined(__linux__)
#define SYSTEM "linux"
#else
#define SYSTEM "another"
#endif

const char *origin_commit(void)
{
    return CLATTN_COMMIT;
}

const char *origin_compiler(void)
{
    return COMPILER;
}

const char *origin_system(void)
{
    return SYSTEM;
}

void origin_add(cJSON *object, const struct target *target)
{
    if (target != NULL) {
        cJSON_AddStringToObject(object, "device", target_name(target));
        cJSON_AddStringToObject(object, "driver", target->info.driver);
    }
    cJSON_AddStringToObject(object, "clattn", clattn_version());
    cJSON_AddStringToObject(object, "commit", origin_commit());
}

void origin_add_all(cJSON *rows, const struct target *target)
{
    cJSON *row;

    cJSON_ArrayForEach(row, rows) origin_add(row, target);
}
