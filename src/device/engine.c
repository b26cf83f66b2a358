#include "device/engine.h"

#include <string.h>

enum { NVIDIA = 0x10de, AMD = 0x1002, INTEL = 0x8086 }; /* CL_DEVICE_VENDOR_ID */

/* Intel's engines: a thread gets twice as many registers */
#define PLAIN PLAIN_OPTIONS
#define LARGE PLAIN_OPTIONS " -cl-intel-256-GRF-per-thread"

/* The emulations. PoCL 3.1 moves loads from local memory across barriers when it optimises. */
#define SLOW UNOPTIMISED_OPTIONS

/* clang-format off */
#define DEVICE_ENGINES(X) \
    /* name, instructions, words, exact, team, options, lanes, rows, split, span, loaders, readers, chunk, registers, \
       scratch, exact_scratch, vendor, generations */ \
    X("nvidia",              nvidia_sm90,         engine_nvidia,   exact_nvidia_ptx,      team_sm90a,    PLAIN, \
      32, 16, 1, 2, 4, 1, 32, 65536, 0,  0,  NVIDIA, 90, 999) \
    X("nvidia_sm80",         nvidia_sm80,         engine_nvidia,   exact_nvidia_ptx,      nothing,       PLAIN, \
      32, 16, 1, 2, 4, 1, 32, 65536, 0,  0,  NVIDIA, 80, 89) \
    X("amd_cdna",            amd_cdna,            engine_amd,      exact_cdna_mfma,       nothing,       PLAIN, \
      64, 16, 1, 1, 0, 0, 32, 0,     0,  0,  AMD,    9,  9) \
    X("amd_rdna3",           amd_rdna3,           engine_rdna3,    nothing,               nothing,       PLAIN, \
      32, 16, 1, 1, 0, 0, 16, 0,     0,  0,  AMD,    11, 11) \
    X("amd_rdna4",           amd_rdna4,           engine_amd,      nothing,               nothing,       PLAIN, \
      32, 16, 1, 1, 0, 0, 16, 0,     0,  0,  AMD,    12, 12) \
    X("intel_8",             intel_8,             engine_intel_8,  nothing,               nothing,       LARGE, \
      8,  8,  4, 1, 0, 0, 16, 0,     0,  0,  INTEL,  8,  8) \
    X("intel_16",            intel_16,            engine_intel_16, nothing,               nothing,       LARGE, \
      16, 16, 8, 1, 0, 0, 16, 0,     0,  0,  INTEL,  16, 16)

/* For tests: any device runs these engines. Those of shuffles need sub-groups, and sub_group of CLATTN_DEVICE_FACTS. */
#ifdef CLATTN_EMULATIONS
#define EMULATIONS(X) \
    X("nvidia_emulated",     nvidia_emulated,     engine_nvidia,   exact_nvidia_emulated, team_emulated, SLOW, \
      32, 16, 1, 2, 0, 0, 32, 0,     32, 32, 0,      0,  0) \
    X("nvidia_threads",      nvidia_threads,      engine_nvidia,   nothing,               team_emulated, PLAIN, \
      32, 16, 1, 2, 4, 1, 32, 0,     4,  0,  0,      0,  0) \
    X("amd_cdna_emulated",   amd_cdna_emulated,   engine_amd,      exact_cdna_emulated,   nothing,       SLOW, \
      64, 16, 1, 1, 0, 0, 32, 0,     16, 32, 0,      0,  0) \
    X("amd_rdna3_emulated",  amd_rdna3_emulated,  engine_rdna3,    nothing,               nothing,       SLOW, \
      32, 16, 1, 1, 0, 0, 16, 0,     64, 0,  0,      0,  0) \
    X("amd_rdna4_emulated",  amd_rdna4_emulated,  engine_amd,      nothing,               nothing,       SLOW, \
      32, 16, 1, 1, 0, 0, 16, 0,     32, 0,  0,      0,  0) \
    X("intel_8_emulated",    intel_8_emulated,    engine_intel_8,  nothing,               nothing,       SLOW, \
      8,  8,  4, 1, 0, 0, 16, 0,     64, 0,  0,      0,  0) \
    X("intel_16_emulated",   intel_16_emulated,   engine_intel_16, nothing,               nothing,       SLOW, \
      16, 16, 8, 1, 0, 0, 16, 0,     48, 0,  0,      0,  0) \
    X("intel_8_shuffles",    intel_8_shuffles,    engine_intel_8,  nothing,               nothing,       PLAIN, \
      8,  8,  4, 1, 0, 0, 16, 0,     0,  0,  0,      0,  0) \
    X("intel_16_shuffles",   intel_16_shuffles,   engine_intel_16, nothing,               nothing,       PLAIN, \
      16, 16, 8, 1, 0, 0, 16, 0,     0,  0,  0,      0,  0)
#else
#define EMULATIONS(X)
#endif
#define ENGINES(X) DEVICE_ENGINES(X) EMULATIONS(X)
/* clang-format on */

static const struct engine engines[] = {
#define ROW(name, instructions, words, exact, team, ...)                                                               \
    {name, FILE_##instructions, FILE_##words, FILE_##exact, FILE_##team, __VA_ARGS__},
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

/* The compute capability times ten */
static int nvidia_generation(const struct device *device)
{
    enum { CAPABILITY_MAJOR_NV = 0x4000, CAPABILITY_MINOR_NV = 0x4001 };
    cl_uint major = 0, minor = 0;

    device->cl->GetDeviceInfo(device->info.device, CAPABILITY_MAJOR_NV, sizeof major, &major, NULL);
    device->cl->GetDeviceInfo(device->info.device, CAPABILITY_MINOR_NV, sizeof minor, &minor, NULL);
    return (int)(10 * major + minor);
}

/* The first number of the chip, which AMD's driver reports as the device's name, if the chip has matrix instructions */
static int amd_generation(const struct device *device)
{
    static const struct {
        const char *chip;
        int generation;
    } chips[] = {{"gfx90a", 9}, {"gfx94", 9}, {"gfx95", 9}, {"gfx11", 11}, {"gfx120", 12}};

    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        if (strncmp(device->info.name, chips[i].chip, strlen(chips[i].chip)) == 0)
            return chips[i].generation;
    return 0;
}

/* The smallest sub-group size, which matrix instructions require */
static int intel_generation(const struct device *device)
{
    return device_has(device, "cl_intel_subgroup_matrix_multiply_accumulate") ? device->sub_group : 0;
}

/* A number for the generation among its vendor's devices. 0: it has no matrix instructions. */
static int generation_of(const struct device *device, cl_uint vendor)
{
    switch (vendor) {
    case NVIDIA: return nvidia_generation(device);
    case AMD: return amd_generation(device);
    case INTEL: return intel_generation(device);
    }
    return 0;
}

const struct engine *engine_of(const struct device *device)
{
    cl_uint vendor = 0;
    int generation;

    device->cl->GetDeviceInfo(device->info.device, CL_DEVICE_VENDOR_ID, sizeof vendor, &vendor, NULL);
    generation = generation_of(device, vendor);
    for (int i = 0; i < ENGINE_COUNT; i++)
        if (engines[i].vendor != 0 && engines[i].vendor == vendor && generation >= engines[i].first &&
            generation <= engines[i].last)
            return &engines[i];
    return NULL;
}
