#include "lies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 16, MOST_PLATFORMS = 16, LONGEST = 4096 };

enum kind { KIND_TEXT, KIND_UINT, KIND_BOOL, KIND_SIZE, KIND_SIZES, KIND_ULONG, KIND_TYPE, KIND_PLACE };

static const struct {
    const char *key;
    cl_device_info info;
    enum kind kind;
} keys[] = {
    {"name", CL_DEVICE_NAME, KIND_TEXT},
    {"vendor", CL_DEVICE_VENDOR, KIND_TEXT},
    {"driver", CL_DRIVER_VERSION, KIND_TEXT},
    {"version", CL_DEVICE_VERSION, KIND_TEXT},
    {"extensions", CL_DEVICE_EXTENSIONS, KIND_TEXT},
    {"type", CL_DEVICE_TYPE, KIND_TYPE}, /* gpu, cpu, accelerator */
    {"vendor_id", CL_DEVICE_VENDOR_ID, KIND_UINT},
    {"units", CL_DEVICE_MAX_COMPUTE_UNITS, KIND_UINT},
    {"clock", CL_DEVICE_MAX_CLOCK_FREQUENCY, KIND_UINT},
    {"unified", CL_DEVICE_HOST_UNIFIED_MEMORY, KIND_BOOL},
    {"available", CL_DEVICE_AVAILABLE, KIND_BOOL},
    {"compiler", CL_DEVICE_COMPILER_AVAILABLE, KIND_BOOL},
    {"group", CL_DEVICE_MAX_WORK_GROUP_SIZE, KIND_SIZE},
    {"items", CL_DEVICE_MAX_WORK_ITEM_SIZES, KIND_SIZES}, /* 1024,64,64 */
    {"local", CL_DEVICE_LOCAL_MEM_SIZE, KIND_ULONG},
    {"memory", CL_DEVICE_GLOBAL_MEM_SIZE, KIND_ULONG},
    {"bus", 0x410f, KIND_PLACE}, /* CL_DEVICE_PCI_BUS_INFO_KHR */
};
enum { KEY_COUNT = sizeof keys / sizeof *keys };

/* A platform that is none of the loader's. */
struct liar {
    char name[64];
};

struct lie {
    cl_device_id device; /* PoCL's */
    struct liar *platform;
    int context_fails;
    char *values[KEY_COUNT]; /* NULL: the truth */
};

static struct {
    struct opencl real;
    int put;
    char text[LONGEST];
    struct lie lies[MOST_DEVICES];
    size_t count;
    struct liar platforms[MOST_PLATFORMS];
    size_t platform_count;
} all;

/* ---- The text ----------------------------------------------------------------------------------------------------- */

static struct liar *platform_named(const char *name)
{
    size_t i = 0;

    while (i < all.platform_count && strcmp(all.platforms[i].name, name) != 0)
        i++;
    if (i == all.platform_count && i < MOST_PLATFORMS)
        snprintf(all.platforms[all.platform_count++].name, sizeof all.platforms->name, "%s", name);
    return &all.platforms[i];
}

static void read_one(struct lie *lie, char *entry)
{
    char *value = strchr(entry, '=');

    entry += strspn(entry, " \n");
    if (value == NULL)
        return;
    *value++ = '\0';
    if (strcmp(entry, "platform") == 0)
        lie->platform = platform_named(value);
    else if (strcmp(entry, "context") == 0)
        lie->context_fails = strcmp(value, "fails") == 0;
    else
        for (int i = 0; i < KEY_COUNT; i++)
            if (strcmp(entry, keys[i].key) == 0)
                lie->values[i] = value;
}

/* The text up to the next of the separators, which becomes its end; NULL past the last. */
static char *next_part(char **rest, const char *separators)
{
    char *part = *rest;

    if (part == NULL)
        return NULL;
    *rest = strpbrk(part, separators);
    if (*rest != NULL)
        *(*rest)++ = '\0';
    return part;
}

static void read_lies(const char *text)
{
    char *lines = all.text, *line, *entry;

    snprintf(all.text, sizeof all.text, "%s", text);
    memset(all.lies, 0, sizeof all.lies);
    all.count = all.platform_count = 0;
    while ((line = next_part(&lines, "|\n")) != NULL && all.count < MOST_DEVICES) {
        struct lie *lie = &all.lies[all.count];
        while ((entry = next_part(&line, ";")) != NULL)
            read_one(lie, entry);
        if (lie->platform == NULL)
            lie->platform = platform_named("Portable Computing Language");
        all.count++;
    }
}

/* ---- The functions ------------------------------------------------------------------------------------------------ */

static const struct lie *lie_of(cl_device_id device)
{
    for (size_t i = 0; i < all.count; i++)
        if (all.lies[i].device == device)
            return &all.lies[i];
    return NULL;
}

static cl_int answer(const void *bytes, size_t length, size_t size, void *value, size_t *whole)
{
    if (whole != NULL)
        *whole = length;
    if (value != NULL && size < length)
        return CL_INVALID_VALUE;
    if (value != NULL)
        memcpy(value, bytes, length);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_platforms(cl_uint room, cl_platform_id *platforms, cl_uint *count)
{
    for (cl_uint i = 0; platforms != NULL && i < room && i < all.platform_count; i++)
        platforms[i] = (cl_platform_id)(void *)&all.platforms[i];
    if (count != NULL)
        *count = (cl_uint)all.platform_count;
    return CL_SUCCESS;
}

static int is_ours(cl_platform_id platform)
{
    for (size_t i = 0; i < all.platform_count; i++)
        if (platform == (cl_platform_id)(void *)&all.platforms[i])
            return 1;
    return 0;
}

static cl_int CL_API_CALL get_platform_info(cl_platform_id platform, cl_platform_info key, size_t size, void *value,
                                            size_t *whole)
{
    const char *text = key == CL_PLATFORM_NAME ? ((struct liar *)(void *)platform)->name : "OpenCL 3.0";

    if (!is_ours(platform))
        return all.real.GetPlatformInfo(platform, key, size, value, whole);
    return answer(text, strlen(text) + 1, size, value, whole);
}

static cl_int CL_API_CALL get_devices(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *devices,
                                      cl_uint *count)
{
    cl_uint found = 0;

    if (!is_ours(platform))
        return all.real.GetDeviceIDs(platform, type, room, devices, count);
    for (size_t i = 0; i < all.count; i++)
        if (all.lies[i].platform == (struct liar *)(void *)platform) {
            if (devices != NULL && found < room)
                devices[found] = all.lies[i].device;
            found++;
        }
    if (count != NULL)
        *count = found;
    return found > 0 ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

static cl_int answer_sizes(const char *text, size_t size, void *value, size_t *whole)
{
    size_t sizes[3] = {1, 1, 1};

    sscanf(text, "%zu,%zu,%zu", &sizes[0], &sizes[1], &sizes[2]);
    return answer(sizes, sizeof sizes, size, value, whole);
}

static cl_int answer_lie(enum kind kind, const char *text, size_t size, void *value, size_t *whole)
{
    const cl_ulong number = strtoull(text, NULL, 10);
    const cl_uint small = (cl_uint)number, place[4] = {0, small, 0, 0};
    const size_t wide = (size_t)number;
    const cl_device_type type = strcmp(text, "gpu") == 0   ? CL_DEVICE_TYPE_GPU
                                : strcmp(text, "cpu") == 0 ? CL_DEVICE_TYPE_CPU
                                                           : CL_DEVICE_TYPE_ACCELERATOR;

    switch (kind) {
    case KIND_TEXT: return answer(text, strlen(text) + 1, size, value, whole);
    case KIND_UINT: return answer(&small, sizeof small, size, value, whole);
    case KIND_BOOL: return answer(&small, sizeof(cl_bool), size, value, whole);
    case KIND_SIZE: return answer(&wide, sizeof wide, size, value, whole);
    case KIND_SIZES: return answer_sizes(text, size, value, whole);
    case KIND_ULONG: return answer(&number, sizeof number, size, value, whole);
    case KIND_TYPE: return answer(&type, sizeof type, size, value, whole);
    case KIND_PLACE: return answer(place, sizeof place, size, value, whole);
    }
    return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info key, size_t size, void *value,
                                          size_t *whole)
{
    const struct lie *lie = lie_of(device);

    if (lie != NULL && key == CL_DEVICE_PLATFORM)
        return answer(&lie->platform, sizeof lie->platform, size, value, whole);
    for (int i = 0; i < KEY_COUNT && lie != NULL; i++)
        if (keys[i].info == key && lie->values[i] != NULL)
            return answer_lie(keys[i].kind, lie->values[i], size, value, whole);
    return all.real.GetDeviceInfo(device, key, size, value, whole);
}

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint count,
                                             const cl_device_id *devices, opencl_notify notify, void *user,
                                             cl_int *error)
{
    const struct lie *lie = count > 0 ? lie_of(devices[0]) : NULL;

    if (lie == NULL || !lie->context_fails)
        return all.real.CreateContext(properties, count, devices, notify, user, error);
    if (error != NULL)
        *error = CL_OUT_OF_RESOURCES;
    return NULL;
}

/* ---- Devices to lie about ----------------------------------------------------------------------------------------- */

static size_t find_devices(cl_device_id *devices, size_t room)
{
    cl_platform_id platforms[MOST_PLATFORMS];
    cl_uint count = 0, found = 0;
    char name[64];

    all.real.GetPlatformIDs(MOST_PLATFORMS, platforms, &count);
    for (cl_uint i = 0; i < count && i < MOST_PLATFORMS; i++)
        if (all.real.GetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL) == CL_SUCCESS &&
            strcmp(name, "Portable Computing Language") == 0 &&
            all.real.GetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, (cl_uint)room, devices, &found) == CL_SUCCESS)
            return found < room ? found : room;
    return 0;
}

int lies_put(struct opencl *cl, const char *text)
{
    cl_device_id devices[MOST_DEVICES];

    if (!all.put)
        all.real = *cl;
    all.put = 1;
    read_lies(text);
    if (find_devices(devices, MOST_DEVICES) < all.count)
        return 0;
    for (size_t i = 0; i < all.count; i++)
        all.lies[i].device = devices[i];
    cl->GetPlatformIDs = get_platforms;
    cl->GetPlatformInfo = get_platform_info;
    cl->GetDeviceIDs = get_devices;
    cl->GetDeviceInfo = get_device_info;
    cl->CreateContext = create_context;
    return 1;
}
