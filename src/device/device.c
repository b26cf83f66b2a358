#include "device/device.h"

#include "base/sized.h"
#include "device/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLATFORMS = 32, MAX_DEVICES = 64 };

/* A text property, cut to fit. Empty if the device does not have it. */
static void get_text(const struct opencl *cl, cl_device_id id, cl_device_info key, char *text, size_t size)
{
    char whole[1024] = "";
    size_t length = 0;

    text[0] = '\0';
    if (cl->GetDeviceInfo(id, key, sizeof whole, whole, &length) != CL_SUCCESS || length > sizeof whole)
        return;
    whole[sizeof whole - 1] = '\0';
    length = strlen(whole);
    if (length >= size)
        length = size - 1;
    memcpy(text, whole, length);
    text[length] = '\0';
}

static uint64_t get_number(const struct opencl *cl, cl_device_id id, cl_device_info key)
{
    uint64_t value = 0;

    if (cl->GetDeviceInfo(id, key, sizeof value, &value, NULL) != CL_SUCCESS)
        return 0;
    return value;
}

static void get_platform_text(const struct opencl *cl, cl_device_id id, cl_platform_info key, char *text, size_t size)
{
    cl_platform_id platform;

    if (cl->GetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) == CL_SUCCESS)
        cl->GetPlatformInfo(platform, key, size, text, NULL);
    text[size - 1] = '\0';
}

/* Whether the text "OpenCL 3.0 …" names a version before 1.2. A text without a version does not disqualify the
 * device. */
static int is_older_than_1_2(const char *version)
{
    static const char before[] = "OpenCL ";
    char *end;
    long major, minor;

    if (strncmp(version, before, sizeof before - 1) != 0)
        return 0;
    major = strtol(version + sizeof before - 1, &end, 10);
    if (end == version + sizeof before - 1 || *end != '.')
        return 0;
    minor = strtol(end + 1, NULL, 10);
    return major < 1 || (major == 1 && minor < 2);
}

/* Whether the device says that it lacks something. Devices that do not answer are taken to have it. */
static int denies(const struct opencl *cl, cl_device_id id, cl_device_info key)
{
    cl_bool value = CL_TRUE;

    return cl->GetDeviceInfo(id, key, sizeof value, &value, NULL) == CL_SUCCESS && !value;
}

/* Why no context can be created for the device. NULL: one can. */
static const char *why_unusable(const struct opencl *cl, const clattn_device_info *info)
{
    if (denies(cl, info->device, CL_DEVICE_AVAILABLE))
        return "it is not available (CL_DEVICE_AVAILABLE)";
    if (denies(cl, info->device, CL_DEVICE_COMPILER_AVAILABLE))
        return "it has no compiler for kernels";
    if (is_older_than_1_2(info->version))
        return "it has no OpenCL 1.2";
    return NULL;
}

/* The largest number of work-items along the first dimension of a group. Groups have only that dimension. */
static size_t largest_group(const struct opencl *cl, cl_device_id id)
{
    size_t sizes[16] = {0}, group = 0; /* sizes: as many as CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, which is 3 */

    cl->GetDeviceInfo(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL);
    if (cl->GetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, NULL) == CL_SUCCESS && sizes[0] > 0 &&
        sizes[0] < group)
        return sizes[0];
    return group;
}

static void describe(const struct opencl *cl, cl_device_id id, clattn_device_info *info)
{
    cl_uint units = 0;

    memset(info, 0, sizeof *info);
    info->device = id;
    get_platform_text(cl, id, CL_PLATFORM_NAME, info->platform, sizeof info->platform);
    get_text(cl, id, CL_DEVICE_NAME, info->name, sizeof info->name);
    get_text(cl, id, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    get_text(cl, id, CL_DEVICE_VERSION, info->version, sizeof info->version);
    info->gpu = (get_number(cl, id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU) != 0;
    cl->GetDeviceInfo(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    info->compute_units = units;
    info->max_work_group = largest_group(cl, id);
    info->global_memory = get_number(cl, id, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->local_memory = get_number(cl, id, CL_DEVICE_LOCAL_MEM_SIZE);
    info->max_allocation = get_number(cl, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    info->unusable = why_unusable(cl, info);
}

char *device_text(const struct device *device, cl_device_info what)
{
    const struct opencl *cl = device->cl;
    size_t size = 0;
    char *all;

    if (cl->GetDeviceInfo(device->info.device, what, 0, NULL, &size) != CL_SUCCESS)
        return NULL;
    all = calloc(1, size + 1);
    if (all != NULL && cl->GetDeviceInfo(device->info.device, what, size, all, NULL) == CL_SUCCESS)
        return all;
    free(all);
    return NULL;
}

int device_has(const struct device *device, const char *extension)
{
    char *all = device_text(device, CL_DEVICE_EXTENSIONS);
    int found = all != NULL && strstr(all, extension) != NULL;

    free(all);
    return found;
}

/* The registers of a compute unit (CL_DEVICE_REGISTERS_PER_BLOCK_NV of cl_nv_device_attribute_query), if a build can
 * limit the registers of a work-item; else 0. */
static int shared_registers(const struct device *device)
{
    enum { REGISTERS_PER_BLOCK_NV = 0x4002 };
    cl_uint count = 0;

    if (device_has(device, "cl_nv_compiler_options"))
        device->cl->GetDeviceInfo(device->info.device, REGISTERS_PER_BLOCK_NV, sizeof count, &count, NULL);
    return (int)count;
}

/* Whether the platform must optimise, from its version "OpenCL 3.0 PoCL 5.0+debian …": without optimisation, PoCL 4.0
 * to 6.0 end the process at a local array that no code uses. */
static int needs_optimising(const char *platform_version)
{
    const char *name = strstr(platform_version, "PoCL ");
    return name != NULL && name[5] >= '4';
}

/* llvmpipe leaves all loops of a kernel, without an error, when a work-item has had as many turns of them together
 * (LP_MAX_TGSI_LOOP_ITERATIONS). */
static int64_t limit_of_turns(const clattn_device_info *info)
{
    enum { LLVMPIPE = 65535 };

    return strstr(info->name, "llvmpipe") != NULL ? LLVMPIPE : 0;
}

clattn_status device_init(struct device *device, cl_device_id id, const struct log *log)
{
    cl_device_type type;

    memset(device, 0, sizeof *device);
    device->cl = opencl_get();
    TRY_CL(log, device->cl, GetDeviceInfo, id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    describe(device->cl, id, &device->info);
    get_text(device->cl, id, CL_DEVICE_VENDOR, device->vendor, sizeof device->vendor);
    get_platform_text(device->cl, id, CL_PLATFORM_VERSION, device->platform_version, sizeof device->platform_version);
    if (device->info.unusable != NULL)
        return FAIL(log, NO_DEVICE, "%s cannot be used: %s", device->info.name, device->info.unusable);
    if (device->info.gpu)
        device->sub_group = device_narrowest_sub_group(device->cl, id);
    device->registers = shared_registers(device);
    device->optimised = needs_optimising(device->platform_version);
    device->loop_turns = limit_of_turns(&device->info);
    device->serial = (!device->info.gpu && !rank_is_emulator(&device->info)) || device->info.max_work_group < 16;
    return CLATTN_SUCCESS;
}

static size_t list_all(const struct opencl *cl, clattn_device_info infos[MAX_DEVICES])
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_device_id ids[MAX_DEVICES];
    cl_uint platform_count = 0, device_count;
    size_t count = 0;

    if (cl->GetPlatformIDs(MAX_PLATFORMS, platforms, &platform_count) != CL_SUCCESS)
        return 0;
    if (platform_count > MAX_PLATFORMS)
        platform_count = MAX_PLATFORMS;
    for (cl_uint p = 0; p < platform_count; p++) {
        if (cl->GetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES, ids, &device_count) != CL_SUCCESS)
            continue;
        for (cl_uint d = 0; d < device_count && d < MAX_DEVICES && count < MAX_DEVICES; d++)
            describe(cl, ids[d], &infos[count++]);
    }
    return count;
}

clattn_status clattn_devices_sized(clattn_device_info *infos, size_t infos_size, size_t capacity, size_t *count)
{
    const struct opencl *cl = opencl_get();
    clattn_device_info *all;

    if (count == NULL || (infos == NULL && capacity > 0))
        return CLATTN_INVALID_ARGUMENT;
    *count = 0;
    if (cl == NULL)
        return CLATTN_NO_OPENCL;
    all = calloc(MAX_DEVICES, sizeof *all);
    if (all == NULL)
        return CLATTN_OUT_OF_MEMORY;
    *count = list_all(cl, all);
    rank_devices(cl, all, *count);
    for (size_t i = 0; i < *count && i < capacity; i++)
        sized_write((char *)infos + i * infos_size, infos_size, &all[i], sizeof *all);
    free(all);
    return CLATTN_SUCCESS;
}
