#include "device/rank.h"

#include "device/device.h"

#include <stdlib.h>
#include <string.h>

enum kind { KIND_EMULATOR, KIND_OTHER, KIND_CPU, KIND_INTEGRATED, KIND_DISCRETE };

struct ranked {
    clattn_device_info info;
    enum kind kind;
    double speed;
    cl_uint vendor;
    int bus;      /* its PCI bus; -1: unknown */
    int layered;  /* its platform is a layer over the other interfaces of vendors' drivers */
    size_t order; /* its position in OpenCL's list */
};

static int names_any(const char *text, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(text, names[i]) != NULL)
            return 1;
    return 0;
}

int rank_is_emulator(const clattn_device_info *info)
{
    static const char *const names[] = {"llvmpipe", "Oclgrind"};
    return names_any(info->name, names, sizeof names / sizeof *names);
}

static int is_layered(const clattn_device_info *info)
{
    static const char *const names[] = {"rusticl", "Clover", "Portable Computing Language", "clvk", "OpenCLOn12"};
    return names_any(info->platform, names, sizeof names / sizeof *names);
}

static cl_uint get_uint(const struct opencl *cl, cl_device_id id, cl_device_info key, cl_uint otherwise)
{
    cl_uint value = 0;

    return cl->GetDeviceInfo(id, key, sizeof value, &value, NULL) == CL_SUCCESS ? value : otherwise;
}

static enum kind kind_of(const struct opencl *cl, const clattn_device_info *info)
{
    cl_device_type type = 0;
    cl_bool unified = CL_FALSE;

    if (rank_is_emulator(info))
        return KIND_EMULATOR;
    cl->GetDeviceInfo(info->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    cl->GetDeviceInfo(info->device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified, NULL);
    if (type & CL_DEVICE_TYPE_GPU)
        return unified ? KIND_INTEGRATED : KIND_DISCRETE;
    return type & CL_DEVICE_TYPE_CPU ? KIND_CPU : KIND_OTHER;
}

/* f32 products of a compute unit in a cycle. What counts as a compute unit differs between vendors. */
static int lanes_of_unit(const struct opencl *cl, const clattn_device_info *info, cl_uint vendor)
{
    enum { UNKNOWN_GPU = 64, THREAD_OF_CPU = 8, THREAD_OF_INTEL = 8, INTEL = 0x8086 };
    static const struct {
        cl_uint vendor;
        int lanes;
    } units[] = {
        {0x10de, 128},    /* NVIDIA: a streaming multiprocessor */
        {0x1002, 64},     /* AMD: a compute unit */
        {0x1027f00, 128}, /* Apple: a core */
        {0x5143, 128},    /* Qualcomm: a shader processor */
        {0x13b5, 64},     /* ARM: a shader core */
        {0x1010, 128},    /* Imagination: a unified shading cluster */
    };
    int narrowest;

    if (!info->gpu)
        return THREAD_OF_CPU;
    if (vendor == INTEL) { /* an execution unit, as wide as its smallest sub-group */
        narrowest = device_narrowest_sub_group(cl, info->device);
        return narrowest > 0 ? narrowest : THREAD_OF_INTEL;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (units[i].vendor == vendor)
            return units[i].lanes;
    return UNKNOWN_GPU;
}

/* An estimate of the speed, in millions of f32 products a second. */
static double speed_of(const struct opencl *cl, const clattn_device_info *info, cl_uint vendor)
{
    enum { USUAL_CLOCK = 1000 }; /* MHz, if the driver reports no clock */
    cl_uint clock = get_uint(cl, info->device, CL_DEVICE_MAX_CLOCK_FREQUENCY, 0);

    return (double)info->compute_units * lanes_of_unit(cl, info, vendor) * (clock != 0 ? clock : USUAL_CLOCK);
}

/* The PCI bus, by cl_khr_pci_bus_info, cl_nv_device_attribute_query, or cl_amd_device_attribute_query. */
static int bus_of(const struct opencl *cl, cl_device_id id)
{
    enum { PCI_BUS_INFO_KHR = 0x410f, PCI_BUS_ID_NV = 0x4008, TOPOLOGY_AMD = 0x4037, AMD_BUS = 21 };
    cl_uint place[4] = {0}, bus = 0; /* domain, bus, device, function */
    unsigned char topology[24] = {0};

    if (cl->GetDeviceInfo(id, PCI_BUS_INFO_KHR, sizeof place, place, NULL) == CL_SUCCESS)
        return (int)place[1];
    if (cl->GetDeviceInfo(id, PCI_BUS_ID_NV, sizeof bus, &bus, NULL) == CL_SUCCESS)
        return (int)bus;
    if (cl->GetDeviceInfo(id, TOPOLOGY_AMD, sizeof topology, topology, NULL) == CL_SUCCESS)
        return topology[AMD_BUS];
    return -1;
}

static struct ranked rank_one(const struct opencl *cl, const clattn_device_info *info, size_t order)
{
    const cl_uint vendor = get_uint(cl, info->device, CL_DEVICE_VENDOR_ID, 0);

    return (struct ranked){.info = *info,
                           .kind = kind_of(cl, info),
                           .speed = speed_of(cl, info, vendor),
                           .vendor = vendor,
                           .bus = bus_of(cl, info->device),
                           .layered = is_layered(info),
                           .order = order};
}

/* Whether both are the same GPU, listed by two platforms. */
static int is_same_gpu(const struct ranked *a, const struct ranked *b)
{
    return a->info.gpu && b->info.gpu && a->vendor == b->vendor && strcmp(a->info.platform, b->info.platform) != 0 &&
           (a->bus == b->bus || a->bus < 0 || b->bus < 0);
}

/* If the vendor's own platform lists the same GPU, ranks it by what that platform reports. */
static void rank_as_vendor(struct ranked *device, const struct ranked *all, size_t count)
{
    for (size_t i = 0; i < count && device->layered; i++)
        if (!all[i].layered && all[i].info.unusable == NULL && is_same_gpu(&all[i], device)) {
            device->kind = all[i].kind;
            device->speed = all[i].speed;
            return;
        }
}

static int compare(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;

    if ((a->info.unusable == NULL) != (b->info.unusable == NULL))
        return a->info.unusable == NULL ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind > b->kind ? -1 : 1;
    if (a->speed != b->speed)
        return a->speed > b->speed ? -1 : 1;
    if (a->layered != b->layered)
        return a->layered - b->layered;
    return a->order < b->order ? -1 : 1;
}

void rank_devices(const struct opencl *cl, clattn_device_info *infos, size_t count)
{
    struct ranked *all = calloc(count + 1, sizeof *all);

    if (all == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        all[i] = rank_one(cl, &infos[i], i);
    for (size_t i = 0; i < count; i++)
        rank_as_vendor(&all[i], all, count);
    qsort(all, count, sizeof *all, compare);
    for (size_t i = 0; i < count; i++)
        infos[i] = all[i].info;
    free(all);
}
