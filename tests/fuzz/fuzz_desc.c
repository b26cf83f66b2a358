/* Plan descriptions made of any bytes, and what is built on them: they are completed or refused, completing twice changes
 * nothing, every operand can be described, and the reference stays within the memory that it is given. */
#include "fuzz.h"

#include "op/arguments.h"
#include "op/options.h"

#include <stdlib.h>
#include <string.h>

/* The input, read piece by piece; zeros after its end. */
struct source {
    const uint8_t *data;
    size_t size;
};

static int64_t take(struct source *source, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes && source->size > 0; i++, source->size--)
        value |= (uint64_t)*source->data++ << 8 * i;
    return (int64_t)value;
}

static double take_double(struct source *source)
{
    int64_t bits = take(source, sizeof(double));
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static int32_t take_32(struct source *source)
{
    return (int32_t)(uint32_t)take(source, 4);
}

/* Any number, or one that is legal below a limit, or the limit itself. */
static int64_t take_size(struct source *source, int64_t limit)
{
    int64_t kind = take(source, 1) % 8;

    if (kind == 0)
        return take(source, 8);
    return kind < 3 ? limit : 1 + take(source, 4) % limit;
}

/* Fields of any value, many of them at their limits. */
static clattn_plan_desc wild_desc(struct source *source)
{
    return (clattn_plan_desc){.rule = (clattn_rule)(take(source, 1) % (RULE_COUNT + 2)),
                              .dtype = (clattn_dtype)(take(source, 1) % 4),
                              .gate_dtype = (clattn_dtype)(take(source, 1) % 4),
                              .flags = take(source, 1) % 2 == 0 ? (uint64_t)take(source, 6) : 0,
                              .batch = take_size(source, INT32_MAX),
                              .seq_len = take_size(source, INT32_MAX),
                              .sequences = take(source, 1) % 4 == 0 ? take_size(source, INT32_MAX) : 0,
                              .heads = take_size(source, 65535),
                              .qk_heads = take(source, 1) % 2 == 0 ? take_size(source, 65535) : 0,
                              .key_dim = take_size(source, 1024),
                              .value_dim = take_size(source, 1024),
                              .feature_map = (clattn_feature_map)(take(source, 1) % 64),
                              .steps = (int32_t)take(source, 1) % 66,
                              .layer = take(source, 1) % 4 == 0 ? take_32(source) : 0,
                              .layers = take(source, 1) % 4 == 0 ? take_32(source) : 0,
                              .mode = (clattn_mode)(take(source, 1) % 4),
                              .chunk = (int32_t)(take(source, 1) % 4) * 8,
                              .scale = take_double(source),
                              .slopes = (clattn_slopes)(take(source, 1) % 3),
                              .eps = take(source, 1) % 4 == 0 ? take_double(source) : 0,
                              .kv_heads = take(source, 1) % 4 == 0 ? take_size(source, 65535) : 0,
                              .kv_len = take(source, 1) % 4 == 0 ? take_size(source, INT32_MAX) : 0,
                              .window = take(source, 1) % 4 == 0 ? take_size(source, INT32_MAX) : 0};
}

/* What rules of a list take. */
static void make_list(clattn_plan_desc *desc, struct source *source)
{
    desc->flags &= ~(CLATTN_STATE_VK | CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE);
    desc->kv_heads = desc->qk_heads;
    desc->qk_heads = desc->heads;
    desc->steps = 0;
    desc->kv_len = desc->flags & (CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_INT64) ? 0 : take(source, 1) % 8;
    desc->window = take(source, 1) % 8;
}

/* Most of these are problems, and small ones. */
static clattn_plan_desc tame_desc(struct source *source)
{
    clattn_plan_desc desc = {.rule = (clattn_rule)(1 + take(source, 1) % (RULE_COUNT - 1)),
                             .dtype = (clattn_dtype)(take(source, 1) % 3),
                             .gate_dtype = (clattn_dtype)(take(source, 1) % 3),
                             .flags = (uint32_t)take(source, 2) % (CLATTN_WITH_LSE * 2)};

    desc.flags &= rule_flags(rule_get(desc.rule)) | CLATTN_QK_L2NORM | CLATTN_STATE_VK | CLATTN_INITIAL_STATE |
                  CLATTN_FINAL_STATE | CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_INT64;
    desc.batch = desc.flags & (CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_INT64) ? 1 : take(source, 1) % 4;
    desc.sequences = desc.flags & (CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_INT64) ? 1 + take(source, 1) % 3 : 0;
    desc.seq_len = 1 + take(source, 1) % 5;
    desc.qk_heads = 1 + take(source, 1) % 2;
    desc.heads = desc.qk_heads * (1 + take(source, 1) % 3);
    desc.key_dim = 1 + take(source, 1) % 5;
    desc.value_dim = 1 + take(source, 1) % 5;
    desc.scale = take_double(source);
    desc.steps = (int32_t)(take(source, 1) % 3);
    if (rule_has_list(rule_get(desc.rule)) && take(source, 1) % 16 != 0)
        make_list(&desc, source);
    desc.operand_type_count = take(source, 1) % 8 == 7;
    if (desc.operand_type_count > 0)
        desc.operand_types[0] = (clattn_operand_type){(clattn_operand_id)(take(source, 1) % ((int)OPERAND_IDS + 2)),
                                                      (clattn_dtype)(take(source, 1) % 4)};
    if (take(source, 1) % 4 == 3)
        desc.pass = (clattn_pass)(take(source, 1) % 3);
    return desc;
}

/* An operand of exactly the bytes that it needs, filled from the input; sometimes moved or strided, which must be refused
 * unless it fits. */
static clattn_operand make_operand(const clattn_plan_desc *desc, clattn_operand_id id, struct source *source)
{
    clattn_operand operand = {.host = NULL};
    clattn_operand_info info;
    size_t element;

    if (clattn_operand_describe(desc, operand_to_public(id), &info) != CLATTN_SUCCESS || info.rank == 0)
        return operand;
    element = (size_t)info.element_size;
    operand.size = element;
    for (int i = 0; i < info.rank; i++)
        operand.size *= (size_t)info.dims[i];
    operand.host = malloc(operand.size);
    for (size_t at = 0; operand.host != NULL && at < operand.size; at++)
        ((uint8_t *)operand.host)[at] = (uint8_t)take(source, 1);
    if (take(source, 1) % 8 == 7) {
        operand.batch_stride = take(source, 8);
        operand.token_stride = take(source, 1);
        operand.head_stride = take(source, 1);
    }
    return operand;
}

static void compute(const clattn_plan_desc *desc, const struct arguments *operands)
{
    clattn_operand list[OPERAND_COUNT];
    const clattn_call call = arguments_call(operands, list);

    clattn_reference(desc, &call, NULL, NULL);
}

static void run_reference(const clattn_plan_desc *desc, struct source *source)
{
    struct arguments operands = {.seq_len = take(source, 1) % 7,
                                 .batch = take(source, 1) % 5,
                                 .kv_len = desc->kv_len != 0 ? take(source, 1) % 9 : 0};

    for (int id = 1; id < OPERAND_COUNT; id++)
        operands.of[id] = make_operand(desc, (clattn_operand_id)id, source);
    compute(desc, &operands);
    for (int id = 1; id < OPERAND_COUNT; id++)
        free(operands.of[id].host);
}

/* A problem of any size in operands of eight bytes: refused, unless it is the smallest of all. */
static void run_in_eight_bytes(const clattn_plan_desc *desc)
{
    double memory[OPERAND_COUNT];
    struct arguments operands = {.seq_len = CLATTN_WHOLE};
    clattn_operand_info info;

    memset(memory, 0, sizeof memory);
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (clattn_operand_describe(desc, operand_to_public((clattn_operand_id)id), &info) == CLATTN_SUCCESS &&
            info.rank > 0)
            operands.of[id] = (clattn_operand){.host = &memory[id], .size = sizeof *memory};
    compute(desc, &operands);
}

static void check_desc(const clattn_plan_desc *desc, clattn_status status, const clattn_plan_desc *full)
{
    clattn_plan_desc again;
    clattn_operand_info info;

    for (int id = 1; id < OPERAND_COUNT; id++)
        if ((clattn_operand_describe(desc, operand_to_public((clattn_operand_id)id), &info) == CLATTN_SUCCESS) !=
            (status == CLATTN_SUCCESS))
            abort();
    if (status == CLATTN_SUCCESS &&
        (clattn_plan_desc_complete(&again, full, NULL, NULL) != CLATTN_SUCCESS || again.scale != full->scale ||
         again.eps != full->eps || again.flags != full->flags || again.batch != full->batch ||
         again.qk_heads != full->qk_heads || again.kv_heads != full->kv_heads || again.kv_len != full->kv_len))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct source source = {data, size};
    int wild = take(&source, 1) % 2 == 0;
    clattn_plan_desc desc = wild ? wild_desc(&source) : tame_desc(&source), full;
    clattn_status status = clattn_plan_desc_complete(&full, &desc, NULL, NULL);

    check_desc(&desc, status, &full);
    if (status == CLATTN_SUCCESS && wild)
        run_in_eight_bytes(&full);
    else if (status == CLATTN_SUCCESS)
        run_reference(&full, &source);
    return 0;
}
