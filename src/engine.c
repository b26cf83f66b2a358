#include "engine.h"

#include <string.h>

#define ENGINES(X)                                                                                                     \
    X("nvidia", "nvidia_sm90.clh", "engine_nvidia.clh", 32, 1, 4, 0x10de, 90)                                          \
    X("nvidia_sm80", "nvidia_sm80.clh", "engine_nvidia.clh", 32, 1, 4, 0x10de, 80)                                     \
    X("nvidia_emulated", "nvidia_emulated.clh", "engine_nvidia.clh", 32, 2, 0, 0, 0)

static const struct engine engines[] = {
#define ROW(name, ...) {name, __VA_ARGS__},
    ENGINES(ROW)
#undef ROW
};

enum { ENGINE_COUNT = sizeof engines / sizeof *engines };

const struct engine *engine_get(const char *name)
{
    for (int i = 0; i < ENGINE_COUNT; i++)
        if (strcmp(engines[i].name, name) == 0)
            return &engines[i];
    return NULL;
}

const char *engine_names(void)
{
#define NAME(name, ...) ", " name
    return "none" ENGINES(NAME);
#undef NAME
}

/* NVIDIA's compute capability times ten; 0 elsewhere. */
static int generation_of(const struct device *device)
{
    enum { CAPABILITY_MAJOR_NV = 0x4000, CAPABILITY_MINOR_NV = 0x4001 };
    cl_uint major = 0, minor = 0;

    device->cl->GetDeviceInfo(device->info.device, CAPABILITY_MAJOR_NV, sizeof major, &major, NULL);
    device->cl->GetDeviceInfo(device->info.device, CAPABILITY_MINOR_NV, sizeof minor, &minor, NULL);
    return (int)(10 * major + minor);
}

const struct engine *engine_of(const struct device *device)
{
    int generation = generation_of(device);
    cl_uint vendor = 0;

    device->cl->GetDeviceInfo(device->info.device, CL_DEVICE_VENDOR_ID, sizeof vendor, &vendor, NULL);
    for (int i = 0; i < ENGINE_COUNT; i++)
        if (engines[i].vendor != 0 && engines[i].vendor == vendor && generation >= engines[i].generation)
            return &engines[i];
    return NULL;
}
