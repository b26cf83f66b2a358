/* clattn devices: the OpenCL devices of this machine. */
#include "cli/devices.h"
#include "cli/out/origin.h"
#include "cli/out/table.h"
#include "base/text.h"
#include "check/check.h"
#include "device/context.h"
#include "device/engine.h"
#include "plan/probe.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_DEVICES = 64 };

static const struct column columns[] = {
    {"index", "#", COLUMN_FIXED, 0, 0},
    {"name", "device", COLUMN_WORD, 0, 0},
    {"platform", "platform", COLUMN_WORD, 0, 3},
    {"driver", "driver", COLUMN_WORD, 0, 6},
    {"type", "type", COLUMN_WORD, 0, 1},
    {"compute_units", "units", COLUMN_FIXED, 0, 0},
    {"global_memory", "memory", COLUMN_BYTES, 0, 0},
    {"local_memory", "local", COLUMN_BYTES, 0, 5},
    {"max_work_group", "work-group", COLUMN_FIXED, 0, 4},
    {"engine", "engine", COLUMN_WORD, 0, 2},
    {"usable", "usable", COLUMN_WORD, 0, 0},
    {"version", "version", COLUMN_WORD, 0, 7},
    BUILD_COLUMNS,
};

/* The matrix engine that the device is assumed to have. A plan probes it before it uses it. */
static const char *engine_name(const clattn_device_info *info)
{
    const struct log silent = {NULL, NULL};
    const struct engine *engine = NULL;
    struct device device;

    if (device_init(&device, info->device, &silent) == CLATTN_SUCCESS)
        engine = engine_of(&device);
    return engine != NULL ? engine->name : "none";
}

/* Adds a text that has no field in clattn_device_info. */
static void add_text(cJSON *row, const struct device *device, const char *key, cl_device_info what)
{
    char *text = device_text(device, what);

    cJSON_DeleteItemFromObjectCaseSensitive(row, key);
    cJSON_AddStringToObject(row, key, text != NULL ? text : "");
    free(text);
}

/* Adds facts that decide which kernels a device gets. */
static void add_facts(cJSON *row, const clattn_device_info *info)
{
    const struct log silent = {NULL, NULL};
    struct device device;

    if (device_init(&device, info->device, &silent) != CLATTN_SUCCESS)
        return;
    cJSON_AddStringToObject(row, "vendor", device.vendor);
    cJSON_AddStringToObject(row, "platform_version", device.platform_version);
    cJSON_AddBoolToObject(row, "serial", device.serial);
    cJSON_AddNumberToObject(row, "sub_group", device.sub_group);
    cJSON_AddNumberToObject(row, "loop_turns", (double)device.loop_turns);
    add_text(row, &device, "version", CL_DEVICE_VERSION);
    add_text(row, &device, "extensions", CL_DEVICE_EXTENSIONS);
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
    char usable[128];

    snprintf(usable, sizeof usable, "no: %s", info->unusable != NULL ? info->unusable : "");
    cJSON_AddStringToObject(row, "usable", info->unusable != NULL ? usable : "yes");
    cJSON_AddNumberToObject(row, "index", (double)index);
    cJSON_AddBoolToObject(row, "default", index == 0 && info->unusable == NULL);
    return row;
}

static const struct column probed_columns[] = {
    {"index", "#", COLUMN_FIXED, 0, 0},        {"name", "device", COLUMN_WORD, 0, 0},
    {"engine", "engine", COLUMN_WORD, 0, 2},   {"probe", "probe", COLUMN_WORD, 0, 0},
    {"driver", "driver", COLUMN_ORIGIN, 0, 6}, BUILD_COLUMNS,
};

/* What a plan of that type would find out about the engine: "works", or the library's message. */
static const char *probe_text(clattn_context *context, clattn_dtype dtype, const struct sink *sink)
{
    const clattn_plan_desc desc = {
        .rule = CLATTN_LINEAR_ATTN, .dtype = dtype, .seq_len = 1, .heads = 1, .key_dim = 16, .value_dim = 16};
    struct problem problem;
    clattn_status status = problem_init(&problem, &desc, NULL);

    if (status == CLATTN_SUCCESS)
        status = probe_engine(context, &problem, 0);
    if (status == CLATTN_SUCCESS)
        return "works";
    return sink->error[0] != '\0' ? sink->error : clattn_status_text(status);
}

/* Adds "f16 works, bf16 works", for the device's own engine or that of CLATTN_ENGINE. */
static void add_probe(cJSON *row, const clattn_device_info *info)
{
    struct sink sink = {.error = ""};
    struct check_device device;
    clattn_status status = check_device_open(&device, info->device, sink_log, &sink);
    struct text text = {0};
    char *whole;

    if (status != CLATTN_SUCCESS)
        text_format(&text, "%s", sink.error);
    else if (device.context->engine == NULL)
        text_format(&text, "none");
    for (int dtype = CLATTN_F16; status == CLATTN_SUCCESS && device.context->engine != NULL && dtype <= CLATTN_BF16;
         dtype++) {
        sink.error[0] = '\0';
        text_format(&text, "%s%s %s", dtype == CLATTN_F16 ? "" : ", ", dtype_name((clattn_dtype)dtype),
                    probe_text(device.context, (clattn_dtype)dtype, &sink));
    }
    if (status == CLATTN_SUCCESS && device.context->engine != NULL)
        cJSON_ReplaceItemInObjectCaseSensitive(row, "engine", cJSON_CreateString(device.context->engine->name));
    whole = text_take(&text);
    cJSON_AddStringToObject(row, "probe", whole != NULL ? whole : "");
    free(whole);
    check_device_close(&device);
}

int devices_main(struct settings *settings)
{
    clattn_device_info infos[MAX_DEVICES];
    size_t count = 0;
    clattn_status status = clattn_devices(infos, MAX_DEVICES, &count);
    cJSON *rows = cJSON_CreateArray();

    if (count == 0 || status != CLATTN_SUCCESS) {
        warn("%s; `--device reference` works without",
             status == CLATTN_SUCCESS ? "no OpenCL device" : clattn_status_text(status));
        target_note_platforms();
    }
    for (size_t i = 0; i < count && i < MAX_DEVICES; i++)
        cJSON_AddItemToArray(rows, make_row(&infos[i], i));
    for (size_t i = 0; i < count && i < MAX_DEVICES && settings->probe; i++)
        add_probe(cJSON_GetArrayItem(rows, (int)i), &infos[i]);
    origin_add_all(rows, NULL);
    if (settings->probe)
        return table_print(rows, probed_columns, sizeof probed_columns / sizeof *probed_columns, settings->format);
    return table_print(rows, columns, sizeof columns / sizeof *columns, settings->format);
}
