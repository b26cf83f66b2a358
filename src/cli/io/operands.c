#include "cli/io/binding.h"

#include "cli/io/desc_options.h"
#include "cli/io/words.h"
#include "op/state.h"

#include <stdlib.h>
#include <string.h>

/* Finds q, k or v, whose shapes give the problem's sizes. */
static int find_tensor(const struct binding *binding, clattn_operand_id id, const char *dims,
                       const struct safetensor **tensor)
{
    *tensor = binding_find(binding, id);
    if (*tensor == NULL)
        return bad("%s: tensor '%s' is missing, %s needs it", binding->path, operand_name(id), binding->rule->name);
    if ((*tensor)->rank != 4)
        return binding_bad_shape(binding, *tensor, dims);
    if (tensor_dtype(*tensor) == NO_DTYPE)
        return binding_bad_dtype(binding, *tensor, "F32, F16 or BF16");
    return EXIT_OK;
}

/* Whether the file has tensors of a key/value cache: then kv_len is set even if it equals seq_len. */
static int is_cache(const struct binding *binding)
{
    return binding_find(binding, CLATTN_KV_LENS) != NULL || binding_find(binding, CLATTN_K_NEW) != NULL ||
           binding_find(binding, CLATTN_SEQLENS_KV) != NULL;
}

/* The command makes a plan for one file, and a plan has at least one token. Calls of 0 tokens continue a plan. */
static const char not_empty[] = "dims of 1 or more: calls of 0 tokens are for the C interface";

/* Sizes of a rule without queries and keys. */
static int derive_columns(const struct binding *binding, clattn_plan_desc *desc)
{
    const struct safetensor *v;

    if (find_tensor(binding, CLATTN_V, "[B,T,H,V]", &v) != EXIT_OK)
        return EXIT_BAD;
    for (int i = 0; i < 4; i++)
        if (v->dims[i] == 0)
            return binding_bad_shape(binding, v, not_empty);
    desc->dtype = (clattn_dtype)tensor_dtype(v);
    desc->batch = v->dims[0];
    desc->seq_len = v->dims[1];
    desc->heads = v->dims[2];
    desc->value_dim = v->dims[3];
    return EXIT_OK;
}

/* If w has fewer rows than k, only the last keys are not carried. */
static void derive_tail(const struct binding *binding, int64_t keys, clattn_plan_desc *desc)
{
    const struct safetensor *w = binding_find(binding, CLATTN_W);

    desc->tail = 0;
    if (!rule_takes(binding->rule, OPTION_tail) || w == NULL || w->rank != 4 || w->dims[1] == keys)
        return;
    desc->tail = w->dims[1];
    desc->kv_len = keys;
}

static int derive_sizes(const struct binding *binding, clattn_plan_desc *desc)
{
    const struct safetensor *q, *k, *v;
    int list = rule_has_list(binding->rule);

    if (!rule_has_keys(binding->rule))
        return derive_columns(binding, desc);
    if (find_tensor(binding, CLATTN_Q, list ? "[B,T,H,K]" : "[B,T,HQ,K]", &q) != EXIT_OK ||
        find_tensor(binding, CLATTN_K, list ? "[B,TK,HK,K]" : "[B,T*n,HQ,K]", &k) != EXIT_OK ||
        find_tensor(binding, CLATTN_V, list ? "[B,TK,HK,V]" : "[B,T*n,H,V]", &v) != EXIT_OK)
        return EXIT_BAD;
    desc->dtype = (clattn_dtype)tensor_dtype(q);
    desc->batch = q->dims[0];
    desc->seq_len = q->dims[1];
    desc->qk_heads = q->dims[2];
    desc->key_dim = q->dims[3];
    desc->heads = list || q->dims[2] > v->dims[2] ? q->dims[2] : v->dims[2];
    desc->kv_heads = v->dims[2];
    desc->kv_len = list && (k->dims[1] != q->dims[1] || is_cache(binding)) ? k->dims[1] : 0;
    desc->value_dim = v->dims[3];
    derive_tail(binding, k->dims[1], desc);
    for (int i = 0; i < 4; i++)
        if (q->dims[i] == 0 || k->dims[i] == 0 || v->dims[i] == 0)
            return binding_bad_shape(binding, q->dims[i] == 0 ? q : v->dims[i] == 0 ? v : k, not_empty);
    if (desc->steps == 0 && rule_takes(binding->rule, OPTION_steps) && k->dims[1] % q->dims[1] == 0 &&
        k->dims[1] / q->dims[1] <= INT32_MAX)
        desc->steps = (int32_t)(k->dims[1] / q->dims[1]);
    return EXIT_OK;
}

/* Flags that follow from the presence and the shape of a tensor. */
static void derive_flags(const struct binding *binding, clattn_plan_desc *desc)
{
    uint64_t takes = rule_flags(binding->rule);
    const struct safetensor *g = binding_find(binding, CLATTN_G);

    if (rule_has_state(binding->rule) &&
        (desc->pass == CLATTN_PASS_FORWARD || binding_find(binding, gradient_of(CLATTN_STATE_OUT)) != NULL))
        desc->flags |= CLATTN_FINAL_STATE;
    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        if (desc_options[i].shown_by != CLATTN_OPERAND_NONE && option_taken(i, desc, binding->rule) &&
            binding_find(binding, desc_options[i].shown_by) != NULL)
            desc->flags |= desc_options[i].flag;
    if (desc->flags & CLATTN_WITH_STATE_INDICES) {
        const struct safetensor *pool = binding_find(binding, CLATTN_STATE_IN);
        desc->state_slots = pool != NULL && pool->rank > 0 ? pool->dims[0] : 0;
    }
    if ((takes & CLATTN_GATE_PER_HEAD) && g != NULL && g->rank <= 2) /* it has neither batch nor tokens */
        desc->flags |= CLATTN_GATE_PER_HEAD;
    if ((takes & CLATTN_UNGATED) && g == NULL)
        desc->flags |= CLATTN_UNGATED;
}

/* Sizes that follow from a piece's weights. */
static void derive_piece(const struct binding *binding, clattn_plan_desc *desc)
{
    const struct safetensor *w = binding_find(binding, CLATTN_W);

    const struct safetensor *omega = binding_find(binding, CLATTN_OMEGA);

    if (rule_takes(binding->rule, OPTION_features) && omega != NULL && omega->rank == 3)
        desc->key_dim = omega->dims[1] * (desc->features == CLATTN_FEATURES_FAVOR ? 1 : 2);
    if (!rule_takes(binding->rule, OPTION_taps))
        return;
    if (desc->taps == 0 && w != NULL && w->rank == 3 && w->dims[2] <= INT32_MAX)
        desc->taps = (int32_t)w->dims[2];
}

/* Sizes that follow from a learner's weights. */
static void derive_learner(const struct binding *binding, clattn_plan_desc *desc)
{
    const int mlp = binding->rule->model == MODEL_MLP;
    const struct safetensor *first = binding_find(binding, mlp ? CLATTN_W1 : CLATTN_W0);

    if (rule_takes(binding->rule, OPTION_initial_state) && rule_takes(binding->rule, OPTION_hidden_dim) &&
        binding_find(binding, CLATTN_INITIAL_MOMENTUM) != NULL)
        desc->flags |= CLATTN_INITIAL_STATE;
    if (rule_takes(binding->rule, OPTION_hidden_dim) && first != NULL && first->rank == 4)
        desc->hidden_dim = first->dims[mlp ? 3 : 2];
}

/* The number of levels that tokens weigh. */
static void derive_levels(const struct binding *binding, clattn_plan_desc *desc)
{
    const struct safetensor *levels = binding_find(binding, CLATTN_LEVELS);

    if (rule_takes(binding->rule, OPTION_levels) && levels != NULL && levels->rank == 4 && levels->dims[3] <= INT32_MAX)
        desc->levels = (int32_t)levels->dims[3];
}

static int derive_packing(const struct binding *binding, clattn_plan_desc *desc)
{
    const struct safetensor *cu = binding_find(binding, CLATTN_SEQLENS);

    desc->flags &= ~CLATTN_CU_SEQLENS_INT64;
    if (cu == NULL)
        return EXIT_OK;
    if (strcmp(cu->dtype, "I32") != 0 && strcmp(cu->dtype, "I64") != 0)
        return binding_bad_dtype(binding, cu, "I32 or I64");
    if (cu->rank != 1 || cu->dims[0] < 2)
        return binding_bad_shape(binding, cu, "[N+1] for N sequences, N of 1 or more");
    if (desc->batch != 1)
        return bad("%s: tensor '%s' has batch %lld, expected 1 with cu_seqlens", binding->path,
                   rule_has_keys(binding->rule) ? "q" : "v", (long long)desc->batch);
    desc->sequences = cu->dims[0] - 1;
    desc->flags |= CLATTN_CU_SEQLENS | (strcmp(cu->dtype, "I64") == 0 ? CLATTN_CU_SEQLENS_INT64 : 0);
    return EXIT_OK;
}

/* Flags that the command line turns on or off, whatever tensors there are. */
static uint64_t command_line_flags(const struct settings *settings)
{
    uint64_t flags = 0;

    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        if (settings->given.has[i] && desc_options[i].seen == SEEN_SHOWN)
            flags |= desc_options[i].flag;
    return flags & ~CLATTN_CU_SEQLENS_INT64; /* follows the tensor's type */
}

/* The type of all gates: their common type, or f32, to which the others are widened. Which gates there are depends on
 * the rest of the desc. An invalid desc has none; make_problem refuses it. */
static clattn_dtype common_gate_dtype(const struct binding *binding, const clattn_plan_desc *desc)
{
    struct operand_row rows[OPERAND_COUNT];
    clattn_plan_desc full;
    int count = clattn_plan_desc_complete(&full, desc, NULL, NULL) == CLATTN_SUCCESS ? rule_operands(&full, rows) : 0;
    int common = NO_DTYPE;

    for (int i = 0; i < count; i++) {
        const struct safetensor *tensor = binding_find(binding, rows[i].id);
        int dtype = tensor != NULL ? tensor_dtype(tensor) : NO_DTYPE;
        if (rows[i].storage != STORE_GATE || operand_is_output(rows[i].id) || dtype == NO_DTYPE)
            continue;
        if (common != NO_DTYPE && common != dtype)
            return CLATTN_F32;
        common = dtype;
    }
    return common == NO_DTYPE ? CLATTN_F32 : (clattn_dtype)common;
}

/* The whole desc: sizes, flags and types. */
static int derive(const struct binding *binding, const struct settings *settings, clattn_plan_desc *desc)
{
    uint64_t set_by_user = command_line_flags(settings);

    *desc = settings->desc;
    desc->rule = settings->rules[0];
    desc->mode = settings->mode_count > 0 ? settings->modes[0] : CLATTN_MODE_AUTO;
    if (derive_sizes(binding, desc) != EXIT_OK || derive_packing(binding, desc) != EXIT_OK)
        return EXIT_BAD;
    derive_flags(binding, desc);
    derive_piece(binding, desc);
    derive_learner(binding, desc);
    derive_levels(binding, desc);
    desc->flags = (desc->flags & ~set_by_user) | (settings->desc.flags & set_by_user);
    desc->gate_dtype = common_gate_dtype(binding, desc);
    return EXIT_OK;
}

/* From here on the operands' types are fixed, and so is how tensors are copied. */
static int make_problem(const struct binding *binding, const clattn_plan_desc *desc, struct problem *problem)
{
    struct sink sink = {.error = ""};
    const struct log log = {sink_log, &sink};
    clattn_status status = problem_init(problem, desc, &log);

    if (status != CLATTN_SUCCESS)
        return library_error(&sink, binding->path, status);
    binding->to->tensors.desc = problem->desc;
    return EXIT_OK;
}

static int is_used(const struct binding *binding, const struct safetensor *tensor)
{
    const struct check_tensor *operands = binding->to->tensors.tensor;

    for (int id = 1; id < OPERAND_COUNT; id++)
        if (strcmp(operand_name((clattn_operand_id)id), tensor->name) == 0 && operands[id].data != NULL &&
            !operands[id].info.output)
            return 1;
    return 0;
}

/* One line, however many they are: the file may be a whole model's. */
static void warn_unused(const struct binding *binding)
{
    const struct safetensor *first = NULL;
    size_t unused = 0;

    for (size_t i = 0; i < binding->file->count; i++)
        if (!is_used(binding, &binding->file->tensors[i]) && unused++ == 0)
            first = &binding->file->tensors[i];
    if (unused == 1)
        warn("%s: tensor '%s' is not used by %s", binding->path, first->name, binding->rule->name);
    if (unused > 1)
        warn("%s: tensor '%s' and %zu more are not used by %s", binding->path, first->name, unused - 1,
             binding->rule->name);
}

static int bind_inputs(const struct binding *binding, const struct problem *problem, const struct extent *extent)
{
    int is_64 = (problem->desc.flags & CLATTN_CU_SEQLENS_INT64) != 0, status = EXIT_OK;

    for (int i = 0; i < problem->operand_count && status == EXIT_OK; i++) {
        const struct operand_row *row = &problem->operands[i];
        clattn_operand_info *info = &binding->to->tensors.tensor[row->id].info;
        problem_operand_info(problem, extent, row, info);
        if (!info->output)
            status = binding_input(binding, row, is_64);
    }
    return status == EXIT_OK ? binding_check(binding, problem, extent) : status;
}

/* Elements that no sequence writes: in a pool of states those of the file, elsewhere 0. */
static void fill_output(const struct binding *binding, clattn_operand_id id)
{
    const clattn_operand_id before = state_before(binding->rule, id);
    const struct check_tensor *from = &binding->to->tensors.tensor[before];
    const struct check_tensor *to = &binding->to->tensors.tensor[id];

    if (before != NO_OPERAND && from->data != NULL)
        memcpy(to->data, from->data, to->bytes);
}

static int allocate_outputs(const struct binding *binding, const struct problem *problem)
{
    int status = EXIT_OK;

    for (int i = 0; i < problem->operand_count && status == EXIT_OK; i++) {
        const clattn_operand_info *info = &binding->to->tensors.tensor[problem->operands[i].id].info;
        if (!info->output)
            continue;
        status = binding_allocate(binding, problem->operands[i].id, dtype_size(info->dtype));
        if (status == EXIT_OK)
            fill_output(binding, problem->operands[i].id);
    }
    return status;
}

static int bind_operands(const struct binding *binding, const struct problem *problem)
{
    const struct extent extent = problem_most(problem);
    int status = bind_inputs(binding, problem, &extent);

    return status == EXIT_OK ? allocate_outputs(binding, problem) : status;
}

int operands_bind(struct operands *operands, const struct settings *settings, const char *path,
                  const struct safetensors *file)
{
    const struct binding binding = {operands, path, file, rule_get(settings->rules[0])};
    clattn_plan_desc desc;
    struct problem problem;
    int status;

    memset(operands, 0, sizeof *operands);
    status = derive(&binding, settings, &desc);
    if (status == EXIT_OK)
        status = make_problem(&binding, &desc, &problem);
    if (status == EXIT_OK)
        status = bind_operands(&binding, &problem);
    if (status == EXIT_OK)
        warn_unused(&binding);
    return status;
}

void operands_free(struct operands *operands)
{
    for (int id = 1; id < OPERAND_COUNT; id++)
        free(operands->owned[id]), free(operands->tensors.after[id]);
    memset(operands, 0, sizeof *operands);
}

size_t operands_list(const struct check_tensors *tensors, int outputs, struct safetensor list[OPERAND_COUNT])
{
    size_t count = 0;

    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *tensor = &tensors->tensor[id];
        struct safetensor *to = &list[count];
        void *left = outputs ? tensors->after[id] : NULL;
        if (left == NULL && (tensor->data == NULL || tensor->info.output != outputs))
            continue;
        *to = (struct safetensor){.name = tensor->info.name,
                                  .rank = tensor->info.rank,
                                  .data = left != NULL ? left : tensor->data,
                                  .bytes = tensor->bytes,
                                  .dtype = word_name(file_dtype_words, (int)tensor->info.dtype)};
        if (id == CLATTN_SEQLENS || id == CLATTN_SEQLENS_KV)
            to->dtype = tensors->desc.flags & CLATTN_CU_SEQLENS_INT64 ? "I64" : "I32";
        else if (operand_is_index((clattn_operand_id)id))
            to->dtype = "I32";
        memcpy(to->dims, tensor->info.dims, sizeof tensor->info.dims);
        count++;
    }
    return count;
}
