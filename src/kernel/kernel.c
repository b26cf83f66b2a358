#include "kernel/kernel.h"

#include <string.h>

static const struct {
    const char *name;
    enum embedded_file file;
    const struct family *family;
} kernels[KERNEL_COUNT] = {
    /* plan/gemm.c sets their arguments */
    [KERNEL_GEMM] = {"gemm", FILE_gemm, &family_gemm_lanes},
    [KERNEL_GEMM_SERIAL] = {"gemm_serial", FILE_gemm_serial, &family_gemm},
    [KERNEL_GEMM_MATRIX] = {"gemm_matrix", FILE_gemm_matrix, &family_gemm_matrix},
    [KERNEL_GEMM_TEAM] = {"gemm_team", FILE_gemm_team, &family_gemm_team},
    [KERNEL_GEMV] = {"gemv", FILE_gemv, &family_gemm},
};

const struct kernel_signature *kernel_signature(enum kernel_id id)
{
    return &kernel_signatures[kernels[id].file];
}

const char *kernel_name(enum kernel_id id)
{
    return kernels[id].name;
}

enum embedded_file kernel_file(enum kernel_id id)
{
    return kernels[id].file;
}

const struct family *kernel_family(enum kernel_id id)
{
    return kernels[id].family;
}

struct layout kernel_layout(const struct variant *variant)
{
    struct layout layout = layout_of(variant, kernels[variant->kernel].family->lay_out);

    layout.step.file = kernels[variant->kernel].file;
    layout.step.name = kernels[variant->kernel].name;
    layout.step.shared = kernels[variant->kernel].family->shared;
    return layout;
}
