/* Plans: what each rank computes of a problem, and which plans it needs for that. */
#include "mpi/mpi.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 }; /* stretches of long sequences are multiples of it */

static int has(const clattn_plan_desc *desc, uint64_t flag)
{
    return (desc->flags & flag) != 0;
}

static int is_list(clattn_rule rule)
{
    return rule == CLATTN_SOFTMAX_ATTN || rule == CLATTN_ALIBI_ATTN || rule == CLATTN_FORGETTING_ATTN ||
           rule == CLATTN_PATH_ATTN || rule == CLATTN_DELTAFORMER;
}

/* Operations on each token by itself. */
static int is_piece(clattn_rule rule)
{
    return rule == CLATTN_RMS_NORM || rule == CLATTN_GATES || rule == CLATTN_ROPE || rule == CLATTN_FEATURES;
}

/* Whether the problem has the operand. */
static int has_operand(const clattn_plan_desc *desc, clattn_operand_id id)
{
    clattn_operand_info info;

    return clattn_operand_describe(desc, id, &info) == CLATTN_SUCCESS && info.rank > 0;
}

static int64_t at_least_one(int64_t x)
{
    return x > 0 ? x : 1;
}

static enum exchange exchange_of(const clattn_plan_desc *desc)
{
    clattn_plan_desc summary, full;

    summary = (clattn_plan_desc){.rule = desc->rule,
                                 .flags = CLATTN_SUMMARY,
                                 .seq_len = 1,
                                 .heads = 1,
                                 .key_dim = desc->key_dim,
                                 .value_dim = desc->value_dim}; /* which rules of a state take, and no others */
    if (is_list(desc->rule))
        return EXCHANGE_KEYS;
    if (desc->rule == CLATTN_SHORT_CONV)
        return EXCHANGE_INPUTS;
    return clattn_plan_desc_complete(&full, &summary, NULL, NULL) == CLATTN_SUCCESS ? EXCHANGE_STATES
                                                                                    : EXCHANGE_NOTHING;
}

/* Parts of a softmax are joined by their lse. Sums of gates are of floats. */
static int is_ring(const clattn_plan_desc *desc)
{
    clattn_operand_info gate;

    if (clattn_operand_describe(desc, CLATTN_G, &gate) == CLATTN_SUCCESS && gate.rank > 0 && gate.dtype != CLATTN_F32)
        return 0;
    return desc->kernel == CLATTN_WEIGHTS_SOFTMAX;
}

/* ---- What is refused ---------------------------------------------------------------------------------------------- */

/* Rules whose tokens depend on those of other ranks in a way that no exchange here covers. */
static const char *refusal_of_rule(const clattn_plan_desc *desc)
{
    if (desc->rule == CLATTN_PATH_ATTN)
        return "the tokens between a key and a query change the key";
    if (desc->rule == CLATTN_DELTAFORMER)
        return "what a token writes depends on what all tokens before it wrote";
    return exchange_of(desc) == EXCHANGE_NOTHING && !is_piece(desc->rule)
               ? "there is no summary of what tokens do to its state"
               : NULL;
}

static const char *refusal_of_tokens(const clattn_plan_desc *desc)
{
    clattn_operand_info state;

    if (refusal_of_rule(desc) != NULL)
        return refusal_of_rule(desc);
    if (desc->pass == CLATTN_PASS_BACKWARD && (desc->rule == CLATTN_MLSTM || is_list(desc->rule)))
        return is_list(desc->rule) ? "gradients by keys of other ranks are not summed"
                                   : "gradients by stabilized states are not folded";
    if (desc->kv_len != 0)
        return "a cache of keys (kv_len)";
    if (has(desc, CLATTN_WITH_ATTN))
        return "attn";
    if (has(desc, CLATTN_WITH_STATE_INDICES) || desc->state_window != 0 || desc->state_every != 0)
        return has(desc, CLATTN_WITH_STATE_INDICES) ? "state_indices" : "states on the way";
    if (is_list(desc->rule) && has(desc, CLATTN_NONCAUSAL) && (desc->window != 0 || desc->rule == CLATTN_ALIBI_ATTN))
        return desc->window != 0 ? "noncausal with a window" : "noncausal, whose bias is a distance";
    if (is_list(desc->rule) && has(desc, CLATTN_KEYS_BEFORE | CLATTN_WITH_ROPE))
        return has(desc, CLATTN_WITH_ROPE) ? "rope of a list, whose keys the piece rotates" : "keys_before";
    for (clattn_operand_id id = CLATTN_STATE_IN; id <= CLATTN_STATE_OUT; id++)
        if (clattn_operand_describe(desc, id, &state) == CLATTN_SUCCESS && state.rank > 0 && state.dtype != CLATTN_F32)
            return "states of 16 bits";
    return NULL;
}

static const char *refusal_of_heads(const clattn_plan_desc *desc)
{
    if (desc->rule == CLATTN_RETENTION || desc->rule == CLATTN_LIGHTNING_ATTN || desc->rule == CLATTN_ALIBI_ATTN)
        return "decays that follow from a head's number among all";
    return has(desc, CLATTN_HEADS_TILED) ? "tiled heads" : NULL;
}

static const char *refusal_of_batch(const clattn_plan_desc *desc)
{
    if (has(desc, CLATTN_CU_SEQLENS))
        return "packed sequences";
    return has(desc, CLATTN_WITH_STATE_INDICES) ? "state_indices" : NULL;
}

static clattn_status check_split(clattn_mpi_plan *plan)
{
    static const char *const names[] = {"", "tokens", "heads", "batch"};
    const char *refusal = NULL;
    clattn_rule_info rule;

    switch (plan->split) {
    case CLATTN_MPI_TOKENS: refusal = refusal_of_tokens(&plan->whole); break;
    case CLATTN_MPI_HEADS: refusal = refusal_of_heads(&plan->whole); break;
    case CLATTN_MPI_BATCH: refusal = refusal_of_batch(&plan->whole); break;
    }
    if (refusal == NULL)
        return CLATTN_SUCCESS;
    clattn_rule_describe(plan->whole.rule, &rule);
    return note_failure(plan->context, CLATTN_UNSUPPORTED, "%s cut by %s is not supported: %s", rule.name,
                        names[plan->split], refusal);
}

/* ---- Descs -------------------------------------------------------------------------------------------------------- */

int64_t token_unit(const clattn_mpi_plan *plan, int64_t total)
{
    enum { FEW = 4 };

    return total / CHUNK / plan->context->ranks >= FEW ? CHUNK : 1;
}

/* The most tokens of one of that many parts in a call of up to the plan's. */
static int64_t most_tokens(const clattn_mpi_plan *plan, int parts)
{
    const int64_t units = (plan->whole.seq_len + CHUNK - 1) / CHUNK;
    const int64_t most = (units + parts - 1) / parts * CHUNK;

    return most < plan->whole.seq_len ? most : plan->whole.seq_len;
}

static void describe_tokens(clattn_mpi_plan *plan)
{
    clattn_plan_desc *local = &plan->local;

    plan->exchange = exchange_of(local);
    plan->trades = plan->exchange == EXCHANGE_KEYS && plan->context->ranks > 1 && !has(local, CLATTN_NONCAUSAL) &&
                   local->window == 0;
    local->seq_len = most_tokens(plan, plan->trades ? 2 * plan->context->ranks : plan->context->ranks);
    local->flags &= ~CLATTN_CU_SEQLENS_INT64;
    if (has(local, CLATTN_WITH_ROPE) || local->rule == CLATTN_ROPE)
        local->flags |= CLATTN_WITH_POSITION;
    if (plan->trades && is_ring(local)) {
        plan->exchange = EXCHANGE_RING;
        local->flags |= CLATTN_WITH_LSE;
    }
    if (is_list(local->rule)) {
        local->kv_len = plan->exchange == EXCHANGE_RING ? most_tokens(plan, plan->context->ranks) : plan->whole.seq_len;
        local->flags |= has(local, CLATTN_CU_SEQLENS) ? CLATTN_CU_SEQLENS_KV : 0;
    }
    if (plan->exchange == EXCHANGE_STATES || plan->exchange == EXCHANGE_INPUTS)
        local->flags |= CLATTN_INITIAL_STATE | (local->pass == CLATTN_PASS_BACKWARD ? CLATTN_FINAL_STATE : 0);
}

/* Heads that share keys, queries or a state stay together. */
static int64_t head_unit(const clattn_plan_desc *desc)
{
    const int64_t groups = desc->qk_heads < desc->kv_heads ? desc->qk_heads : desc->kv_heads;

    return desc->heads / groups;
}

static void describe_heads(clattn_mpi_plan *plan)
{
    const clattn_plan_desc *whole = &plan->whole;
    int64_t first, count;

    part_of(plan->context->rank, plan->context->ranks, whole->heads, head_unit(whole), &first, &count);
    plan->local.heads = count;
    plan->local.qk_heads = count * whole->qk_heads / whole->heads;
    plan->local.kv_heads = count * whole->kv_heads / whole->heads;
}

static void describe_batch(clattn_mpi_plan *plan)
{
    int64_t ranks = plan->context->ranks;

    plan->local.batch = (plan->whole.batch + ranks - 1) / ranks;
}

/* Leaves out the types of operands that the summary does not have. */
static void fit_types(clattn_plan_desc *desc)
{
    clattn_plan_desc untyped = *desc;
    int kept = 0;

    untyped.operand_type_count = 0;
    for (int i = 0; i < desc->operand_type_count; i++)
        if (has_operand(&untyped, desc->operand_types[i].id))
            desc->operand_types[kept++] = desc->operand_types[i];
    desc->operand_type_count = kept;
}

static void describe_summary(clattn_mpi_plan *plan)
{
    clattn_plan_desc *summary = &plan->summary_desc;

    *summary = plan->local;
    if (summary->pass == CLATTN_PASS_BACKWARD)
        summary->mode = CLATTN_MODE_AUTO;
    summary->pass = CLATTN_PASS_FORWARD;
    summary->added_gradients = 0;
    summary->flags &= ~(CLATTN_INITIAL_STATE | CLATTN_NONCAUSAL);
    summary->flags |= plan->exchange == EXCHANGE_STATES ? CLATTN_SUMMARY : CLATTN_FINAL_STATE;
    fit_types(summary);
}

static void describe(clattn_mpi_plan *plan)
{
    plan->local = plan->whole;
    switch (plan->split) {
    case CLATTN_MPI_TOKENS: describe_tokens(plan); break;
    case CLATTN_MPI_HEADS: describe_heads(plan); break;
    case CLATTN_MPI_BATCH: describe_batch(plan); break;
    }
    describe_summary(plan);
}

/* ---- Create ------------------------------------------------------------------------------------------------------- */

static void create_plans(clattn_mpi_plan *plan)
{
    clattn_mpi_context *context = plan->context;
    const int exchanges_states = plan->exchange == EXCHANGE_STATES || plan->exchange == EXCHANGE_INPUTS;

    if (plan->local.heads == 0) /* a rank beyond the heads */
        return;
    if (note_failure(context, clattn_plan_create(&plan->run, context->local, &plan->local), "no plan") ==
            CLATTN_SUCCESS &&
        exchanges_states && context->ranks > 1)
        note_failure(context, clattn_plan_create(&plan->summary, context->local, &plan->summary_desc),
                     "no plan for the states of a stretch");
    if (plan->exchange == EXCHANGE_RING && context->trouble.status == CLATTN_SUCCESS)
        ring_create(plan);
}

static void prepare(clattn_mpi_plan *plan, const clattn_plan_desc *desc)
{
    clattn_mpi_context *context = plan->context;

    if (note_failure(context, clattn_plan_desc_complete(&plan->whole, desc, rank_log, context), "the desc is wrong") !=
        CLATTN_SUCCESS)
        return;
    if (plan->split < CLATTN_MPI_TOKENS || plan->split > CLATTN_MPI_BATCH) {
        note_failure(context, CLATTN_INVALID_ARGUMENT, "split is %d, expected 1 to 3", (int)plan->split);
        return;
    }
    if (check_split(plan) != CLATTN_SUCCESS)
        return;
    describe(plan);
    create_plans(plan);
}

clattn_status clattn_mpi_plan_create(clattn_mpi_plan **plan, clattn_mpi_context *context, const clattn_plan_desc *desc,
                                     clattn_mpi_split split)
{
    clattn_mpi_plan *created;
    clattn_status status;

    if (plan == NULL || context == NULL)
        return CLATTN_INVALID_ARGUMENT;
    *plan = NULL;
    created = calloc(1, sizeof *created);
    if (created == NULL) {
        note_failure(context, CLATTN_OUT_OF_MEMORY, "no memory for a plan");
        return agree(context);
    }
    created->context = context;
    created->split = split;
    prepare(created, desc);
    status = agree(context);
    if (status == CLATTN_SUCCESS)
        *plan = created;
    else
        clattn_mpi_plan_destroy(created);
    return status;
}

void clattn_mpi_plan_destroy(clattn_mpi_plan *plan)
{
    if (plan == NULL)
        return;
    clattn_plan_destroy(plan->run);
    clattn_plan_destroy(plan->summary);
    ring_destroy(plan);
    pool_free(plan);
    free(plan);
}

clattn_status clattn_mpi_plan_local(const clattn_mpi_plan *plan, int64_t length, int64_t *first, int64_t *count)
{
    const clattn_plan_desc *whole = plan != NULL ? &plan->whole : NULL;
    int64_t total = 0, unit = 1;

    if (plan == NULL || first == NULL || count == NULL || length < CLATTN_WHOLE)
        return CLATTN_INVALID_ARGUMENT;
    switch (plan->split) {
    case CLATTN_MPI_TOKENS:
        total = length == CLATTN_WHOLE ? whole->seq_len : length;
        unit = token_unit(plan, total);
        break;
    case CLATTN_MPI_HEADS:
        total = whole->heads;
        unit = head_unit(whole);
        break;
    case CLATTN_MPI_BATCH: total = length > 0 ? length : whole->batch; break;
    }
    part_of(plan->context->rank, plan->context->ranks, total, at_least_one(unit), first, count);
    return CLATTN_SUCCESS;
}
