/* Sub-group sizes. */
#include "device/device.h"

/* Queries CL_DEVICE_SUB_GROUP_SIZES_INTEL of cl_intel_required_subgroup_size, which fails on devices without the
 * extension. */
int device_narrowest_sub_group(const struct opencl *cl, cl_device_id id)
{
    enum { SUB_GROUP_SIZES_INTEL = 0x4108 };
    size_t sizes[16], bytes = 0, least = 0;

    if (cl->GetDeviceInfo(id, SUB_GROUP_SIZES_INTEL, sizeof sizes, sizes, &bytes) != CL_SUCCESS)
        return 0;
    for (size_t i = 0; i < bytes / sizeof *sizes; i++)
        if (least == 0 || sizes[i] < least)
            least = sizes[i];
    return (int)least;
}
