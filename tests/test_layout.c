/* The ABI: where every field of every public struct lies on LP64, and what every name of an enum is worth. Rows are
 * added, at the end of a struct's or an enum's, and none is changed before the next soname. */
#include "clattn.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
#define FIELD(type, field, offset, size) { #type, #field, offsetof(type, field), offset, sizeof(((type *)NULL)->field), size }
#define WHOLE(type, size) { #type, "(end)", 0, 0, sizeof(type), size }
static const struct {
    const char *type, *field;
    size_t offset, expected_offset, size, expected_size;
} fields[] = {
    FIELD(clattn_rule_info, rule, 0, 4),
    FIELD(clattn_rule_info, name, 8, 8),
    FIELD(clattn_rule_info, aliases, 16, 8),
    FIELD(clattn_rule_info, recurrence, 24, 8),
    FIELD(clattn_rule_info, paper, 32, 8),
    WHOLE(clattn_rule_info, 40),
    FIELD(clattn_operand, id, 0, 4),
    FIELD(clattn_operand, buffer, 8, 8),
    FIELD(clattn_operand, host, 16, 8),
    FIELD(clattn_operand, offset, 24, 8),
    FIELD(clattn_operand, size, 32, 8),
    FIELD(clattn_operand, batch_stride, 40, 8),
    FIELD(clattn_operand, token_stride, 48, 8),
    FIELD(clattn_operand, head_stride, 56, 8),
    WHOLE(clattn_operand, 64),
    FIELD(clattn_call, operands, 0, 8),
    FIELD(clattn_call, operand_count, 8, 8),
    FIELD(clattn_call, seq_len, 16, 8),
    FIELD(clattn_call, batch, 24, 8),
    FIELD(clattn_call, sequences, 32, 8),
    FIELD(clattn_call, workspace, 40, 8),
    FIELD(clattn_call, workspace_offset, 48, 8),
    FIELD(clattn_call, workspace_size, 56, 8),
    FIELD(clattn_call, kv_len, 64, 8),
    WHOLE(clattn_call, 72),
    FIELD(clattn_operand_type, id, 0, 4),
    FIELD(clattn_operand_type, dtype, 4, 4),
    WHOLE(clattn_operand_type, 8),
    FIELD(clattn_plan_desc, rule, 0, 4),
    FIELD(clattn_plan_desc, dtype, 4, 4),
    FIELD(clattn_plan_desc, gate_dtype, 8, 4),
    FIELD(clattn_plan_desc, flags, 12, 4),
    FIELD(clattn_plan_desc, batch, 16, 8),
    FIELD(clattn_plan_desc, seq_len, 24, 8),
    FIELD(clattn_plan_desc, sequences, 32, 8),
    FIELD(clattn_plan_desc, heads, 40, 8),
    FIELD(clattn_plan_desc, qk_heads, 48, 8),
    FIELD(clattn_plan_desc, key_dim, 56, 8),
    FIELD(clattn_plan_desc, value_dim, 64, 8),
    FIELD(clattn_plan_desc, scale, 72, 8),
    FIELD(clattn_plan_desc, eps, 80, 8),
    FIELD(clattn_plan_desc, mode, 88, 4),
    FIELD(clattn_plan_desc, chunk, 92, 4),
    FIELD(clattn_plan_desc, feature_map, 96, 4),
    FIELD(clattn_plan_desc, slopes, 100, 4),
    FIELD(clattn_plan_desc, layer, 104, 4),
    FIELD(clattn_plan_desc, layers, 108, 4),
    FIELD(clattn_plan_desc, steps, 112, 4),
    FIELD(clattn_plan_desc, operand_type_count, 116, 4),
    FIELD(clattn_plan_desc, operand_types, 120, 64),
    FIELD(clattn_plan_desc, kv_heads, 184, 8),
    FIELD(clattn_plan_desc, kv_len, 192, 8),
    FIELD(clattn_plan_desc, window, 200, 8),
    FIELD(clattn_plan_desc, kernel, 208, 4),
    FIELD(clattn_plan_desc, write_kernel, 212, 4),
    FIELD(clattn_plan_desc, state_slots, 216, 8),
    FIELD(clattn_plan_desc, state_window, 224, 8),
    FIELD(clattn_plan_desc, state_every, 232, 8),
    FIELD(clattn_plan_desc, taps, 240, 4),
    FIELD(clattn_plan_desc, activation, 244, 4),
    FIELD(clattn_plan_desc, with_bias, 248, 4),
    FIELD(clattn_plan_desc, residual, 252, 4),
    WHOLE(clattn_plan_desc, 256),
    FIELD(clattn_operand_info, name, 0, 8),
    FIELD(clattn_operand_info, dims, 8, 32),
    FIELD(clattn_operand_info, rank, 40, 4),
    FIELD(clattn_operand_info, output, 44, 4),
    FIELD(clattn_operand_info, dtype, 48, 4),
    FIELD(clattn_operand_info, element_size, 52, 4),
    WHOLE(clattn_operand_info, 56),
    FIELD(clattn_device_info, device, 0, 8),
    FIELD(clattn_device_info, platform, 8, 64),
    FIELD(clattn_device_info, name, 72, 128),
    FIELD(clattn_device_info, driver, 200, 64),
    FIELD(clattn_device_info, version, 264, 64),
    FIELD(clattn_device_info, gpu, 328, 4),
    FIELD(clattn_device_info, compute_units, 332, 4),
    FIELD(clattn_device_info, global_memory, 336, 8),
    FIELD(clattn_device_info, local_memory, 344, 8),
    FIELD(clattn_device_info, max_allocation, 352, 8),
    FIELD(clattn_device_info, max_work_group, 360, 8),
    WHOLE(clattn_device_info, 368),
    FIELD(clattn_context_desc, cl, 0, 8),
    FIELD(clattn_context_desc, device, 8, 8),
    FIELD(clattn_context_desc, log, 16, 8),
    FIELD(clattn_context_desc, log_user, 24, 8),
    FIELD(clattn_context_desc, cache_dir, 32, 8),
    FIELD(clattn_context_desc, cache_limit, 40, 8),
    FIELD(clattn_context_desc, blob_load, 48, 8),
    FIELD(clattn_context_desc, blob_store, 56, 8),
    FIELD(clattn_context_desc, blob_user, 64, 8),
    FIELD(clattn_context_desc, engine, 72, 8),
    FIELD(clattn_context_desc, tuning, 80, 8),
    FIELD(clattn_context_desc, self_test, 88, 4),
    FIELD(clattn_context_desc, flags, 92, 4),
    FIELD(clattn_context_desc, clblast, 96, 8),
    WHOLE(clattn_context_desc, 104),
    FIELD(clattn_plan_info, desc, 0, 8),
    FIELD(clattn_plan_info, solver, 8, 8),
    FIELD(clattn_plan_info, tiles_by, 16, 8),
    FIELD(clattn_plan_info, engine, 24, 8),
    FIELD(clattn_plan_info, mode, 32, 4),
    FIELD(clattn_plan_info, chunk, 36, 4),
    FIELD(clattn_plan_info, launches, 40, 4),
    FIELD(clattn_plan_info, rejected, 44, 4),
    FIELD(clattn_plan_info, workspace_bytes, 48, 8),
    FIELD(clattn_plan_info, saved_bytes, 56, 8),
    WHOLE(clattn_plan_info, 64),
};

#define VALUE(name, value) { #name, (long)CLATTN_##name, value }
static const struct {
    const char *name;
    long value, expected;
} values[] = {
    VALUE(SUCCESS, 0),
    VALUE(INVALID_ARGUMENT, 1),
    VALUE(INVALID_DESC, 2),
    VALUE(INVALID_OPERAND, 3),
    VALUE(INVALID_WORKSPACE, 4),
    VALUE(UNSUPPORTED, 5),
    VALUE(NO_OPENCL, 6),
    VALUE(NO_DEVICE, 7),
    VALUE(BUILD_FAILED, 8),
    VALUE(OUT_OF_MEMORY, 9),
    VALUE(DEVICE_ERROR, 10),
    VALUE(LOG_ERROR, 0),
    VALUE(LOG_WARNING, 1),
    VALUE(LOG_INFO, 2),
    VALUE(RULE_NONE, 0),
    VALUE(LINEAR_ATTN, 1),
    VALUE(RETENTION, 2),
    VALUE(LIGHTNING_ATTN, 3),
    VALUE(SIMPLE_GLA, 4),
    VALUE(GLA, 5),
    VALUE(RWKV6, 6),
    VALUE(DELTA_RULE, 7),
    VALUE(GATED_DELTA_RULE, 8),
    VALUE(KDA, 9),
    VALUE(COMBA, 10),
    VALUE(GDN2, 11),
    VALUE(GATED_DELTA_PRODUCT, 12),
    VALUE(DPLR, 13),
    VALUE(IPLR, 14),
    VALUE(RWKV7, 15),
    VALUE(MLSTM, 16),
    VALUE(PRECOND_GATED_DELTA_RULE, 17),
    VALUE(SOFTMAX_ATTN, 18),
    VALUE(ALIBI_ATTN, 19),
    VALUE(FORGETTING_ATTN, 20),
    VALUE(PATH_ATTN, 21),
    VALUE(DELTAFORMER, 22),
    VALUE(HGRN, 23),
    VALUE(LRU, 24),
    VALUE(MAMBA, 25),
    VALUE(FULL_GATE, 26),
    VALUE(SHORT_CONV, 27),
    VALUE(F32, 0),
    VALUE(F16, 1),
    VALUE(BF16, 2),
    VALUE(MODE_AUTO, 0),
    VALUE(MODE_RECURRENT, 1),
    VALUE(MODE_CHUNK, 2),
    VALUE(FEATURE_IDENTITY, 0),
    VALUE(FEATURE_ELU1, 1),
    VALUE(FEATURE_RELU, 2),
    VALUE(SLOPES_LIGHTNING, 0),
    VALUE(SLOPES_MINIMAX, 1),
    VALUE(QK_L2NORM, 1),
    VALUE(NORMALIZE, 2),
    VALUE(STATE_VK, 4),
    VALUE(GATE_PER_HEAD, 8),
    VALUE(VALUE_GATE, 16),
    VALUE(UNGATED, 32),
    VALUE(INITIAL_STATE, 64),
    VALUE(FINAL_STATE, 128),
    VALUE(CU_SEQLENS, 256),
    VALUE(CU_SEQLENS_INT64, 512),
    VALUE(WITH_SINK, 1024),
    VALUE(WITH_LSE, 2048),
    VALUE(WITH_KV_LENS, 4096),
    VALUE(CU_SEQLENS_KV, 8192),
    VALUE(WITH_P, 16384),
    VALUE(WITH_BETA, 32768),
    VALUE(WITH_WRITTEN, 65536),
    VALUE(APPEND, 131072),
    VALUE(SOFTPLUS, 1048576),
    VALUE(WITH_DT_BIAS, 2097152),
    VALUE(WITH_D, 4194304),
    VALUE(WITH_Z, 8388608),
    VALUE(COMPLEX, 16777216),
    VALUE(HEADS_TILED, 67108864),
    VALUE(WITH_STATE_INDICES, 134217728),
    VALUE(WEIGHTS_SOFTMAX, 0),
    VALUE(WEIGHTS_FLOOR, 4),
    VALUE(ACTIVATION_SILU, 0),
    VALUE(ACTIVATION_NONE, 1),
    VALUE(OPERAND_NONE, 0),
    VALUE(GRADIENTS, 256),
    VALUE(Q, 1),
    VALUE(K, 2),
    VALUE(V, 3),
    VALUE(O, 4),
    VALUE(G, 5),
    VALUE(GV, 6),
    VALUE(BETA, 7),
    VALUE(P, 8),
    VALUE(A, 9),
    VALUE(B, 10),
    VALUE(W, 11),
    VALUE(U, 12),
    VALUE(F, 13),
    VALUE(I, 14),
    VALUE(STATE_IN, 15),
    VALUE(STATE_OUT, 16),
    VALUE(NORMALIZER_IN, 17),
    VALUE(NORMALIZER_OUT, 18),
    VALUE(STABILIZER_IN, 19),
    VALUE(STABILIZER_OUT, 20),
    VALUE(SEQLENS, 21),
    VALUE(SINK, 22),
    VALUE(LSE, 23),
    VALUE(KV_LENS, 24),
    VALUE(SEQLENS_KV, 25),
    VALUE(WRITTEN, 26),
    VALUE(K_NEW, 27),
    VALUE(V_NEW, 28),
    VALUE(THETA, 29),
    VALUE(DT, 30),
    VALUE(DT_BIAS, 31),
    VALUE(D, 32),
    VALUE(Z, 33),
    VALUE(STATE_INDICES, 34),
    VALUE(STATES, 35),
    VALUE(BIAS, 36),
};
/* clang-format on */

/* No padding at the end of what callers fill: a field that takes its place would be read from programs that never set
 * it. */
static const struct {
    const char *type;
    size_t end, size;
} ends[] = {
#define END(type, field)                                                                                               \
    {                                                                                                                  \
#type, offsetof(type, field) + sizeof(((type *)NULL)->field), sizeof(type)                                     \
    }
    END(clattn_operand, head_stride), END(clattn_call, kv_len), END(clattn_plan_desc, residual),
    END(clattn_context_desc, clblast)};

#define COUNT(array) (sizeof(array) / sizeof *(array))

int main(void)
{
    int wrong = 0;

    for (size_t i = 0; sizeof(void *) == 8 && sizeof(long) == 8 && i < COUNT(fields); i++)
        if (fields[i].offset != fields[i].expected_offset || fields[i].size != fields[i].expected_size)
            wrong += printf("%s.%s: offset %zu, size %zu; expected %zu, %zu\n", fields[i].type, fields[i].field,
                            fields[i].offset, fields[i].size, fields[i].expected_offset, fields[i].expected_size);
    for (size_t i = 0; i < COUNT(values); i++)
        if (values[i].value != values[i].expected)
            wrong += printf("CLATTN_%s is %ld, expected %ld\n", values[i].name, values[i].value, values[i].expected);
    for (size_t i = 0; i < COUNT(ends); i++)
        if (ends[i].end != ends[i].size)
            wrong += printf("%s ends at %zu, but takes %zu\n", ends[i].type, ends[i].end, ends[i].size);
    if (clattn_version_number() != CLATTN_VERSION || strcmp(clattn_version(), "0.2.0") != 0)
        wrong +=
            printf("the library is %s, %d; the header %d\n", clattn_version(), clattn_version_number(), CLATTN_VERSION);
    return wrong != 0;
}
