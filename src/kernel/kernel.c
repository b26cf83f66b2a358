#include "kernel/kernel.h"

#include <string.h>

static const struct {
    const char *name;
    enum embedded_file file;
    const struct family *family;
    unsigned rules; /* that it is for: those whose state is a matrix, 0, or what the words below say */
} kernels[KERNEL_COUNT] = {
#define LIST(erase) (1u << ERASE_##erase) /* of a list, that erase so */
#define CHANNELS (1u << 16)               /* of channels with decays of their own */
#define PRODUCTS (1u << 17)               /* none */
    [KERNEL_FLASH] = {"flash", FILE_flash, &family_plain, LIST(NONE) | LIST(KERNEL) | LIST(POSITION)},
    [KERNEL_FLASH_MATRIX] = {"flash_matrix", FILE_flash_matrix, &family_flash,
                             LIST(NONE) | LIST(KERNEL) | LIST(POSITION)},
    [KERNEL_FLASH_TEAM] = {"flash_team", FILE_flash_team, &family_flash, LIST(NONE) | LIST(KERNEL) | LIST(POSITION)},
    [KERNEL_FLASH_SUMS] = {"flash_sums", FILE_flash_sums, &family_flash_sums,
                           LIST(NONE) | LIST(KERNEL) | LIST(POSITION)},
    [KERNEL_WRITE_BEFORE] = {"write_before", FILE_write_before, &family_write, LIST(KERNEL)},
    [KERNEL_WRITE_SOLVE] = {"write_solve", FILE_write_solve, &family_write, LIST(KERNEL)},
    /* plan/gemm.c sets their arguments */
    [KERNEL_GEMM] = {"gemm", FILE_gemm, &family_gemm_lanes, PRODUCTS},
    [KERNEL_GEMM_SERIAL] = {"gemm_serial", FILE_gemm_serial, &family_gemm, PRODUCTS},
    [KERNEL_GEMM_MATRIX] = {"gemm_matrix", FILE_gemm_matrix, &family_gemm_matrix, PRODUCTS},
    [KERNEL_GEMM_TEAM] = {"gemm_team", FILE_gemm_team, &family_gemm_team, PRODUCTS},
    [KERNEL_GEMV] = {"gemv", FILE_gemv, &family_gemm, PRODUCTS},
    [KERNEL_CHANNELS] = {"channels", FILE_channels, &family_channels, CHANNELS},
    [KERNEL_CHANNELS_LANES] = {"channels_lanes", FILE_channels_lanes, &family_channels_lanes, CHANNELS},
    [KERNEL_WRITE_BEFORE_MATRIX] = {"write_before_matrix", FILE_write_before_matrix, &family_write_matrix,
                                    LIST(KERNEL)},
    [KERNEL_WRITE_BEFORE_TEAM] = {"write_before_team", FILE_write_before_team, &family_write_matrix, LIST(KERNEL)},
    [KERNEL_WRITE_SOLVE_MATRIX] = {"write_solve_matrix", FILE_write_solve_matrix, &family_write_matrix, LIST(KERNEL)},
    [KERNEL_WRITE_SOLVE_TEAM] = {"write_solve_matrix", FILE_write_solve_matrix, &family_write_matrix, LIST(KERNEL)},
#undef LIST
};

const struct kernel_signature *kernel_signature(enum kernel_id id)
{
    return &kernel_signatures[kernels[id].file];
}

enum role kernel_role(const struct kernel_parameter *parameter)
{
    static const char *const names[] = {
#define ROLE_NAME(name) [ROLE_##name] = #name,
#define NUMBER_NAME(name) [ARG_##name] = #name,
        ROLES(ROLE_NAME) KERNEL_NUMBERS(NUMBER_NAME)
#undef ROLE_NAME
#undef NUMBER_NAME
    };
    int role = 0;

    while (role < ARG_END && strcmp(names[role], parameter->name) != 0)
        role++;
    return (enum role)role;
}

const char *kernel_name(enum kernel_id id)
{
    return kernels[id].name;
}

enum embedded_file kernel_file(enum kernel_id id)
{
    return kernels[id].file;
}

int kernel_takes(enum kernel_id id, const struct rule *rule)
{
    unsigned rules = kernels[id].rules;

    if (rule->op != OP_MIXER)
        return 0;
    if (rule_has_list(rule))
        return (int)(rules >> rule->erase & 1u);
    return rules == (rule_has_chunks(rule) ? 0 : CHANNELS);
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
