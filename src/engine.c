#include "engine.h"

#include <string.h>

#define ENGINES(X)                                                                                                     \
    X("nvidia", "nvidia_ptx.clh", "engine_nvidia.clh", 32, 1, 1, 0x10de)                                                     \
    X("nvidia_emulated", "nvidia_emulated.clh", "engine_nvidia.clh", 32, 2, 0, 0)

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

const struct engine *engine_of(const struct device *device)
{
    cl_uint vendor = 0;

    device->cl->GetDeviceInfo(device->info.device, CL_DEVICE_VENDOR_ID, sizeof vendor, &vendor, NULL);
    for (int i = 0; i < ENGINE_COUNT; i++)
        if (engines[i].vendor != 0 && engines[i].vendor == vendor)
            return &engines[i];
    return NULL;
}
