#include "tune/device_facts.h"

#include "base/file.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_FILE = 64 << 20 };

/* The object that describes the device, or NULL. */
static const cJSON *find_device(const cJSON *root)
{
    const cJSON *section;

    cJSON_ArrayForEach(section, cJSON_GetObjectItemCaseSensitive(root, "sections"))
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(section, "section"));
        if (name != NULL && strcmp(name, "devices") == 0)
            root = cJSON_GetObjectItemCaseSensitive(section, "result");
    }
    if (cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(root, "device")))
        root = cJSON_GetObjectItemCaseSensitive(root, "device");
    if (cJSON_IsArray(root))
        root = cJSON_GetArrayItem(root, 0);
    return cJSON_GetObjectItemCaseSensitive(root, "local_memory") != NULL ? root : NULL;
}

/* The number with that key, or `own` if there is none. */
static uint64_t number(const cJSON *facts, const char *key, uint64_t own)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(facts, key);

    return cJSON_IsNumber(item) && item->valuedouble >= 1 && item->valuedouble < 9e18 ? (uint64_t)item->valuedouble
                                                                                      : own;
}

static uint64_t at_most(const cJSON *facts, const char *key, uint64_t own)
{
    uint64_t reported = number(facts, key, own);

    return reported < own ? reported : own;
}

/* The engine stays the device's own, because the device cannot run another. */
static void apply_facts(const cJSON *facts, struct device *device)
{
    clattn_device_info *info = &device->info;
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(facts, "type"));
    const cJSON *serial = cJSON_GetObjectItemCaseSensitive(facts, "serial");
    const int own = device->serial;

    info->compute_units = (uint32_t)number(facts, "compute_units", info->compute_units);
    info->max_work_group = (size_t)at_most(facts, "max_work_group", info->max_work_group);
    info->local_memory = at_most(facts, "local_memory", info->local_memory);
    info->global_memory = at_most(facts, "global_memory", info->global_memory);
    info->max_allocation = at_most(facts, "max_allocation", info->max_allocation);
    if (type != NULL)
        info->gpu = strcmp(type, "gpu") == 0;
    device->sub_group = (int)number(facts, "sub_group", (uint64_t)device->sub_group);
    device->loop_turns = (int64_t)number(facts, "loop_turns", (uint64_t)device->loop_turns);
    device->serial = cJSON_IsBool(serial) ? cJSON_IsTrue(serial) : !info->gpu || info->max_work_group < 16;
    device->in_part = own && !device->serial;
}

clattn_status device_facts_read(const char *path, struct device *device, const struct log *log)
{
    size_t size;
    char *text = file_read(path, LARGEST_FILE, &size);
    cJSON *root = text != NULL ? json_parse(text) : NULL;
    const cJSON *facts = find_device(root);
    const char *amiss = text == NULL    ? "it cannot be read"
                        : root == NULL  ? "it is not JSON"
                        : facts == NULL ? "it has no device with local_memory"
                                        : NULL;

    if (facts != NULL)
        apply_facts(facts, device);
    cJSON_Delete(root);
    free(text);
    return amiss == NULL ? CLATTN_SUCCESS : FAIL(log, INVALID_ARGUMENT, "CLATTN_DEVICE_FACTS=%s: %s", path, amiss);
}
