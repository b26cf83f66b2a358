/* Every public prototype and, through them, every public type: one variable, for abidw to write down. */
#include "clattn_layer.h"

#define PROTOTYPE(function) __typeof__(&function) function##_

extern const struct clattn_abi {
    PROTOTYPE(clattn_version);
    PROTOTYPE(clattn_version_number);
    PROTOTYPE(clattn_status_text);
    PROTOTYPE(clattn_rule_find);
    PROTOTYPE(clattn_context_destroy);
    PROTOTYPE(clattn_context_set_tuning);
    PROTOTYPE(clattn_context_get);
    PROTOTYPE(clattn_plan_destroy);
    PROTOTYPE(clattn_plan_workspace_size);
    PROTOTYPE(clattn_plan_describe);
    PROTOTYPE(clattn_rule_describe_sized);
    PROTOTYPE(clattn_plan_desc_complete_sized);
    PROTOTYPE(clattn_operand_describe_sized);
    PROTOTYPE(clattn_reference_sized);
    PROTOTYPE(clattn_devices_sized);
    PROTOTYPE(clattn_context_create_sized);
    PROTOTYPE(clattn_supports_sized);
    PROTOTYPE(clattn_plan_create_sized);
    PROTOTYPE(clattn_plan_get_sized);
    PROTOTYPE(clattn_enqueue_sized);
    PROTOTYPE(clattn_run_sized);
    PROTOTYPE(clattn_gemm_plan_create_sized);
    PROTOTYPE(clattn_gemm_plan_get_sized);
    PROTOTYPE(clattn_gemm_plan_describe);
    PROTOTYPE(clattn_gemm_plan_destroy);
    PROTOTYPE(clattn_gemm_enqueue_sized);
    clattn_slopes slopes;
    clattn_log_level level;
    PROTOTYPE(clattn_layer_find);
    PROTOTYPE(clattn_layer_describe_sized);
    PROTOTYPE(clattn_layer_fit_sized);
    PROTOTYPE(clattn_layer_part_describe_sized);
    PROTOTYPE(clattn_layer_packed_size_sized);
    PROTOTYPE(clattn_layer_pack_sized);
    PROTOTYPE(clattn_layer_reference_sized);
    PROTOTYPE(clattn_layer_plan_create_sized);
    PROTOTYPE(clattn_layer_plan_destroy);
    PROTOTYPE(clattn_layer_workspace_size);
    PROTOTYPE(clattn_layer_plan_text);
    PROTOTYPE(clattn_layer_enqueue_sized);
} clattn_abi;
const struct clattn_abi clattn_abi = {.slopes = CLATTN_SLOPES_LIGHTNING};
