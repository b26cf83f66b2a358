#include "kernel/kernel.h"

#include <string.h>

static const struct {
    const char *name;
    enum embedded_file file;
    const struct family *family;
    unsigned rules; /* that it is for */
} kernels[KERNEL_COUNT] = {
#define LIST(erase) (1u << ERASE_##erase) /* of a list, that erase so */
    [KERNEL_FLASH] = {"flash", FILE_flash, &family_plain, LIST(POSITION)},
    [KERNEL_FLASH_MATRIX] = {"flash_matrix", FILE_flash_matrix, &family_flash, LIST(POSITION)},
    [KERNEL_FLASH_TEAM] = {"flash_team", FILE_flash_team, &family_flash, LIST(POSITION)},
    [KERNEL_FLASH_SUMS] = {"flash_sums", FILE_flash_sums, &family_flash_sums, LIST(POSITION)},
    [KERNEL_PREPARE_PATH] = {"prepare_path", FILE_prepare_path, &family_path, LIST(POSITION)},
    [KERNEL_CARRY_PATH] = {"carry_path", FILE_carry_path, &family_path, LIST(POSITION)},
    [KERNEL_FLASH_PATH] = {"flash_path", FILE_flash_path, &family_path, LIST(POSITION)},
    [KERNEL_TURN_PATH] = {"turn_path", FILE_turn_path, &family_path, LIST(POSITION)},
    [KERNEL_FOLD_PATH] = {"fold_path", FILE_fold_path, &family_path, LIST(POSITION)},
    [KERNEL_PREPARE_PATH_MATRIX] = {"prepare_path_matrix", FILE_prepare_path_matrix, &family_path_matrix,
                                    LIST(POSITION)},
    [KERNEL_CARRY_PATH_MATRIX] = {"carry_path_matrix", FILE_carry_path_matrix, &family_path_matrix, LIST(POSITION)},
    [KERNEL_FLASH_PATH_MATRIX] = {"flash_path_matrix", FILE_flash_path_matrix, &family_path_matrix, LIST(POSITION)},
    [KERNEL_PREPARE_PATH_TEAM] = {"prepare_path_team", FILE_prepare_path_team, &family_path_team, LIST(POSITION)},
    [KERNEL_CARRY_PATH_TEAM] = {"carry_path_team", FILE_carry_path_team, &family_path_team, LIST(POSITION)},
    [KERNEL_FLASH_PATH_TEAM] = {"flash_path_team", FILE_flash_path_team, &family_path_team, LIST(POSITION)},
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

    return rule->op == OP_MIXER && rule_has_list(rule) && (rules >> rule->erase & 1u);
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
