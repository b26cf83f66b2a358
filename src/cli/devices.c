/* clattn devices */
#include "cli/devices.h"
#include "cli/table.h"
#include "device/engine.h"

#include <stdlib.h>

enum { MAX_DEVICES = 64 };

static const struct column columns[] = {
    {"index", "#", COLUMN_FIXED, 0},
    {"name", "device", COLUMN_WORD, 0},
    {"platform", "platform", COLUMN_WORD, 0},
    {"driver", "driver", COLUMN_WORD, 0},
    {"type", "type", COLUMN_WORD, 0},
    {"compute_units", "units", COLUMN_FIXED, 0},
    {"global_memory", "memory", COLUMN_BYTES, 0},
    {"local_memory", "local", COLUMN_BYTES, 0},
    {"max_work_group", "work-group", COLUMN_FIXED, 0},
    {"engine", "engine", COLUMN_WORD, 0},
    {"version", "version", COLUMN_WORD, 0},
};

/* The matrix engine that the device is taken to have: a plan probes it before it relies on it. */
static const char *engine_name(const clattn_device_info *info)
{
    const struct log silent = {NULL, NULL};
    const struct engine *engine = NULL;
    struct device device;

    if (device_init(&device, info->device, &silent) == CLATTN_SUCCESS)
        engine = engine_of(&device);
    return engine != NULL ? engine->name : "none";
}

/* What else decides which kernels a device gets. */
static void add_facts(cJSON *row, const clattn_device_info *info)
{
    const struct log silent = {NULL, NULL};
    struct device device;
    char *extensions;

    if (device_init(&device, info->device, &silent) != CLATTN_SUCCESS)
        return;
    extensions = device_extensions(&device);
    cJSON_AddStringToObject(row, "vendor", device.vendor);
    cJSON_AddStringToObject(row, "platform_version", device.platform_version);
    cJSON_AddBoolToObject(row, "serial", device.serial);
    cJSON_AddNumberToObject(row, "sub_group", device.sub_group);
    cJSON_AddStringToObject(row, "extensions", extensions != NULL ? extensions : "");
    free(extensions);
}

cJSON *device_row(const clattn_device_info *info)
{
    cJSON *row = cJSON_CreateObject();

    cJSON_AddStringToObject(row, "name", info->name);
    cJSON_AddStringToObject(row, "platform", info->platform);
    cJSON_AddStringToObject(row, "driver", info->driver);
    cJSON_AddStringToObject(row, "version", info->version);
    cJSON_AddStringToObject(row, "type", info->gpu ? "gpu" : "cpu");
    cJSON_AddNumberToObject(row, "compute_units", info->compute_units);
    cJSON_AddNumberToObject(row, "global_memory", (double)info->global_memory);
    cJSON_AddNumberToObject(row, "local_memory", (double)info->local_memory);
    cJSON_AddNumberToObject(row, "max_allocation", (double)info->max_allocation);
    cJSON_AddNumberToObject(row, "max_work_group", (double)info->max_work_group);
    cJSON_AddStringToObject(row, "engine", engine_name(info));
    add_facts(row, info);
    return row;
}

static cJSON *make_row(const clattn_device_info *info, size_t index)
{
    cJSON *row = device_row(info);

    cJSON_AddNumberToObject(row, "index", (double)index);
    cJSON_AddBoolToObject(row, "default", index == 0);
    return row;
}

int devices_main(struct settings *settings)
{
    clattn_device_info infos[MAX_DEVICES];
    size_t count = 0;
    clattn_status status = clattn_devices(infos, MAX_DEVICES, &count);
    cJSON *rows = cJSON_CreateArray();

    if (count == 0 || status != CLATTN_SUCCESS)
        warn("%s; `--device reference` works without",
             status == CLATTN_SUCCESS ? "no OpenCL device" : clattn_status_text(status));
    for (size_t i = 0; i < count && i < MAX_DEVICES; i++)
        cJSON_AddItemToArray(rows, make_row(&infos[i], i));
    return table_print(rows, columns, sizeof columns / sizeof *columns, settings->format);
}
