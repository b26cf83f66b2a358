#include "cli/operands.h"

#include "cli/desc_options.h"
#include "cli/words.h"
#include "op/problem.h"
#include "reference/number.h"

#include <stdlib.h>
#include <string.h>

enum { NO_DTYPE = -1 };

/* What binding has at hand. */
struct binding {
    struct operands *to;
    const char *path;
    const struct safetensors *file;
    const struct rule *rule;
};

static const struct safetensor *find(const struct binding *binding, clattn_operand_id id)
{
    return safetensors_find(binding->file, operand_name(id));
}

static int file_dtype(const struct safetensor *tensor)
{
    for (const struct word *word = file_dtype_words; word->name != NULL; word++)
        if (strcmp(word->name, tensor->dtype) == 0)
            return word->value;
    return NO_DTYPE;
}

static int bad_dtype(const struct binding *binding, const struct safetensor *tensor, const char *expected)
{
    return bad("%s: tensor '%s' has dtype %s, expected %s", binding->path, tensor->name, tensor->dtype, expected);
}

static int bad_shape(const struct binding *binding, const struct safetensor *tensor, const char *expected)
{
    char text[160];

    return bad("%s: tensor '%s' has shape %s, expected %s", binding->path, tensor->name,
               dims_name(tensor->rank, tensor->dims, text, sizeof text), expected);
}

/* q, k or v, from which the sizes follow. */
static int find_main(const struct binding *binding, clattn_operand_id id, const char *dims,
                     const struct safetensor **tensor)
{
    *tensor = find(binding, id);
    if (*tensor == NULL)
        return bad("%s: tensor '%s' is missing, %s needs it", binding->path, operand_name(id), binding->rule->name);
    if ((*tensor)->rank != 4)
        return bad_shape(binding, *tensor, dims);
    if (file_dtype(*tensor) == NO_DTYPE)
        return bad_dtype(binding, *tensor, "F32, F16 or BF16");
    return EXIT_OK;
}

/* Whether the file says which of its keys are whose, or there. */
static int is_cache(const struct binding *binding)
{
    return find(binding, CLATTN_KV_LENS) != NULL || find(binding, CLATTN_K_NEW) != NULL ||
           find(binding, CLATTN_SEQLENS_KV) != NULL;
}

/* Of a rule without queries and keys. */
static int derive_columns(const struct binding *binding, clattn_plan_desc *desc)
{
    const struct safetensor *v;

    if (find_main(binding, CLATTN_V, "[B,T,H,V]", &v) != EXIT_OK)
        return EXIT_BAD;
    for (int i = 0; i < 4; i++)
        if (v->dims[i] == 0)
            return bad_shape(binding, v, "dims of 1 or more");
    desc->dtype = (clattn_dtype)file_dtype(v);
    desc->batch = v->dims[0];
    desc->seq_len = v->dims[1];
    desc->heads = v->dims[2];
    desc->value_dim = v->dims[3];
    return EXIT_OK;
}

static int derive_sizes(const struct binding *binding, clattn_plan_desc *desc)
{
    const struct safetensor *q, *k, *v;
    int list = rule_has_list(binding->rule);

    if (!rule_has_keys(binding->rule))
        return derive_columns(binding, desc);
    if (find_main(binding, CLATTN_Q, list ? "[B,T,H,K]" : "[B,T,HQ,K]", &q) != EXIT_OK ||
        find_main(binding, CLATTN_K, list ? "[B,TK,HK,K]" : "[B,T*n,HQ,K]", &k) != EXIT_OK ||
        find_main(binding, CLATTN_V, list ? "[B,TK,HK,V]" : "[B,T*n,H,V]", &v) != EXIT_OK)
        return EXIT_BAD;
    desc->dtype = (clattn_dtype)file_dtype(q);
    desc->batch = q->dims[0];
    desc->seq_len = q->dims[1];
    desc->qk_heads = q->dims[2];
    desc->key_dim = q->dims[3];
    desc->heads = list || q->dims[2] > v->dims[2] ? q->dims[2] : v->dims[2];
    desc->kv_heads = v->dims[2];
    desc->kv_len = list && (k->dims[1] != q->dims[1] || is_cache(binding)) ? k->dims[1] : 0;
    desc->value_dim = v->dims[3];
    for (int i = 0; i < 4; i++)
        if (q->dims[i] == 0 || k->dims[i] == 0 || v->dims[i] == 0)
            return bad_shape(binding, q->dims[i] == 0 ? q : v->dims[i] == 0 ? v : k, "dims of 1 or more");
    if (desc->steps == 0 && (binding->rule->knobs & RULE_TAKES_STEPS) && k->dims[1] % q->dims[1] == 0 &&
        k->dims[1] / q->dims[1] <= INT32_MAX)
        desc->steps = (int32_t)(k->dims[1] / q->dims[1]);
    return EXIT_OK;
}

/* Operands that are read where they are there. */
static const struct {
    clattn_operand_id id;
    uint32_t flag;
} optional[] = {{CLATTN_SINK, CLATTN_WITH_SINK},   {CLATTN_P, CLATTN_WITH_P},
                {CLATTN_BETA, CLATTN_WITH_BETA},   {CLATTN_KV_LENS, CLATTN_WITH_KV_LENS},
                {CLATTN_GV, CLATTN_VALUE_GATE},    {CLATTN_SEQLENS_KV, CLATTN_CU_SEQLENS_KV},
                {CLATTN_K_NEW, CLATTN_APPEND},     {CLATTN_DT_BIAS, CLATTN_WITH_DT_BIAS},
                {CLATTN_A_LOG, CLATTN_WITH_A_LOG}, {CLATTN_D, CLATTN_WITH_D},
                {CLATTN_Z, CLATTN_WITH_Z}};

/* What the presence and the shape of a tensor say. */
static void derive_flags(const struct binding *binding, clattn_plan_desc *desc)
{
    uint32_t takes = binding->rule->flags;
    const struct safetensor *g = find(binding, CLATTN_G);

    if (rule_has_state(binding->rule))
        desc->flags |= CLATTN_FINAL_STATE;
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        if (find(binding, optional[i].id) != NULL)
            desc->flags |= optional[i].flag & takes;
    if (find(binding, CLATTN_STATE_IN) != NULL && rule_has_state(binding->rule))
        desc->flags |= CLATTN_INITIAL_STATE;
    if (find(binding, CLATTN_STATE_INDICES) != NULL && rule_has_state(binding->rule)) {
        const struct safetensor *pool = find(binding, CLATTN_STATE_IN);
        desc->flags |= CLATTN_WITH_STATE_INDICES;
        desc->state_slots = pool != NULL && pool->rank > 0 ? pool->dims[0] : 0;
    }
    if ((takes & CLATTN_GATE_PER_HEAD) && g != NULL && g->rank == 1)
        desc->flags |= CLATTN_GATE_PER_HEAD;
    if ((takes & CLATTN_UNGATED) && g == NULL)
        desc->flags |= CLATTN_UNGATED;
}

/* What a piece's weights say. */
static void derive_piece(const struct binding *binding, clattn_plan_desc *desc)
{
    const struct safetensor *w = find(binding, CLATTN_W);

    const struct safetensor *omega = find(binding, CLATTN_OMEGA);

    if ((binding->rule->knobs & RULE_TAKES_FEATURES) && omega != NULL && omega->rank == 3)
        desc->key_dim = omega->dims[1] * (desc->features == CLATTN_FEATURES_FAVOR ? 1 : 2);
    if ((binding->rule->knobs & RULE_TAKES_ROPE) && find(binding, CLATTN_POSITION) != NULL)
        desc->with_position = 1;
    if (!(binding->rule->knobs & RULE_TAKES_TAPS))
        return;
    if (desc->taps == 0 && w != NULL && w->rank == 3 && w->dims[2] <= INT32_MAX)
        desc->taps = (int32_t)w->dims[2];
    if (find(binding, CLATTN_BIAS) != NULL)
        desc->with_bias = 1;
}

/* What a learner's weights and rates say. */
static void derive_learner(const struct binding *binding, clattn_plan_desc *desc)
{
    const struct safetensor *w0 = find(binding, CLATTN_W0);

    if (!(binding->rule->knobs & RULE_TAKES_LEARNING))
        return;
    if (w0 != NULL && w0->rank == 4)
        desc->hidden_dim = w0->dims[2];
    if (find(binding, CLATTN_MOMENTUM) != NULL)
        desc->with_momentum = 1;
}

static int derive_packing(const struct binding *binding, clattn_plan_desc *desc)
{
    const struct safetensor *cu = find(binding, CLATTN_SEQLENS);

    desc->flags &= ~(uint32_t)CLATTN_CU_SEQLENS_INT64;
    if (cu == NULL)
        return EXIT_OK;
    if (strcmp(cu->dtype, "I32") != 0 && strcmp(cu->dtype, "I64") != 0)
        return bad_dtype(binding, cu, "I32 or I64");
    if (cu->rank != 1 || cu->dims[0] < 2)
        return bad_shape(binding, cu, "[N+1] for N sequences, N of 1 or more");
    if (desc->batch != 1)
        return bad("%s: tensor '%s' has batch %lld, expected 1 with cu_seqlens", binding->path,
                   rule_has_keys(binding->rule) ? "q" : "v", (long long)desc->batch);
    desc->sequences = cu->dims[0] - 1;
    desc->flags |= CLATTN_CU_SEQLENS | (strcmp(cu->dtype, "I64") == 0 ? CLATTN_CU_SEQLENS_INT64 : 0);
    return EXIT_OK;
}

/* What the command line turns on or off, whatever tensors there are */
static uint32_t said_flags(const struct settings *settings)
{
    uint32_t flags = 0;

    for (size_t i = 0; i < DESC_OPTION_COUNT; i++)
        if ((settings->given >> i & 1) && desc_option_is_shown(i))
            flags |= desc_option_flag(i);
    return flags & ~(uint32_t)CLATTN_CU_SEQLENS_INT64; /* the tensor's own type */
}

/* The storage of all gates: theirs if they agree, else f32. */
static clattn_dtype common_gate_dtype(const struct binding *binding, const struct problem *problem)
{
    int common = NO_DTYPE;

    for (int i = 0; i < problem->operand_count; i++) {
        const struct safetensor *tensor = find(binding, problem->operands[i].id);
        int dtype = tensor != NULL ? file_dtype(tensor) : NO_DTYPE;
        if (problem->operands[i].storage != STORE_GATE || dtype == NO_DTYPE)
            continue;
        if (common != NO_DTYPE && common != dtype)
            return CLATTN_F32;
        common = dtype;
    }
    return common == NO_DTYPE ? CLATTN_F32 : (clattn_dtype)common;
}

static int derive(const struct binding *binding, const struct settings *settings, struct problem *problem)
{
    struct sink sink = {.error = ""};
    const struct log log = {sink_log, &sink};
    clattn_plan_desc desc = settings->desc;
    uint32_t said = said_flags(settings);
    clattn_status status;

    desc.rule = settings->rules[0];
    desc.mode = settings->mode_count > 0 ? settings->modes[0] : CLATTN_MODE_AUTO;
    if (derive_sizes(binding, &desc) != EXIT_OK || derive_packing(binding, &desc) != EXIT_OK)
        return EXIT_BAD;
    derive_flags(binding, &desc);
    derive_piece(binding, &desc);
    derive_learner(binding, &desc);
    desc.flags = (desc.flags & ~said) | (settings->desc.flags & said);
    status = problem_init(problem, &desc, &log);
    if (status != CLATTN_SUCCESS)
        return library_error(&sink, binding->path, status);
    problem->desc.gate_dtype = common_gate_dtype(binding, problem);
    binding->to->tensors.desc = problem->desc;
    return EXIT_OK;
}

/* The bytes of an operand; no memory holds more than SIZE_MAX / 2. */
static int count_bytes(const clattn_operand_info *info, size_t element, size_t *bytes)
{
    *bytes = element;
    for (int i = 0; i < info->rank; i++) {
        if (info->dims[i] != 0 && *bytes > SIZE_MAX / 2 / (uint64_t)info->dims[i])
            return -1;
        *bytes *= (size_t)info->dims[i];
    }
    return 0;
}

int operands_size_check(const clattn_plan_desc *desc)
{
    for (int id = 1; id < OPERAND_COUNT; id++) {
        clattn_operand_info info;
        char dims[96];
        size_t bytes;
        if (clattn_operand_describe(desc, (clattn_operand_id)id, &info) == CLATTN_SUCCESS &&
            count_bytes(&info, sizeof(int64_t), &bytes) != 0)
            return bad("%s has shape %s, more than memory can hold", info.name,
                       dims_name(info.rank, info.dims, dims, sizeof dims));
    }
    return EXIT_OK;
}

static int allocate(const struct binding *binding, clattn_operand_id id, size_t element)
{
    struct check_tensor *tensor = &binding->to->tensors.tensor[id];

    if (count_bytes(&tensor->info, element, &tensor->bytes) == 0)
        tensor->data = binding->to->owned[id] = calloc(tensor->bytes + 1, 1);
    if (tensor->data == NULL)
        return failed("%s: no memory for the %zu bytes of %s", binding->path, tensor->bytes, tensor->info.name);
    return EXIT_OK;
}

/* Into own memory: widened to f32, or only aligned. */
static int copy(const struct binding *binding, clattn_operand_id id, const struct safetensor *from, size_t element)
{
    struct check_tensor *tensor = &binding->to->tensors.tensor[id];
    size_t narrow = safetensors_element(from->dtype), count = from->bytes / narrow;
    const char *bytes = from->data;

    if (allocate(binding, id, element) != EXIT_OK)
        return EXIT_FAILED;
    if (narrow == element)
        memcpy(tensor->data, from->data, from->bytes);
    for (size_t i = 0; i < count && narrow != element; i++) {
        uint16_t one;
        memcpy(&one, bytes + i * narrow, sizeof one);
        ((float *)tensor->data)[i] = (float)number_load((clattn_dtype)file_dtype(from), &one, 0);
    }
    return EXIT_OK;
}

static int check_dtype(const struct binding *binding, enum storage storage, const struct safetensor *from,
                       clattn_dtype wanted)
{
    int dtype = file_dtype(from);

    if (storage == STORE_LENGTH && strcmp(from->dtype, "I32") != 0)
        return bad_dtype(binding, from, "I32");
    if (storage == STORE_INDEX && strcmp(from->dtype, find(binding, CLATTN_SEQLENS)->dtype) != 0)
        return bad_dtype(binding, from, find(binding, CLATTN_SEQLENS)->dtype);
    if (storage == STORE_INDEX || storage == STORE_LENGTH)
        return EXIT_OK;
    if (dtype == NO_DTYPE)
        return bad_dtype(binding, from, "F32, F16 or BF16");
    if (storage == STORE_DATA && dtype != (int)wanted) {
        char expected[40];
        snprintf(expected, sizeof expected, "%s like %s", word_name(file_dtype_words, (int)wanted),
                 rule_has_keys(binding->rule) ? "q" : "v");
        return bad_dtype(binding, from, expected);
    }
    return EXIT_OK;
}

/* A row [K*V] may come as [K,V]. */
static int is_row_of_two(const struct safetensor *from, const clattn_operand_info *info, const char *dims)
{
    int last = info->rank - 1;

    return dims[last] == 'G' && from->rank == info->rank + 1 && from->dims[last + 1] != 0 &&
           from->dims[last] == info->dims[last] / from->dims[last + 1] &&
           info->dims[last] % from->dims[last + 1] == 0 &&
           memcmp(from->dims, info->dims, (size_t)last * sizeof *info->dims) == 0;
}

static int check_shape(const struct binding *binding, const struct safetensor *from, const clattn_operand_info *info,
                       const char *dims)
{
    char expected[96];

    if (is_row_of_two(from, info, dims))
        return EXIT_OK;
    if (from->rank == info->rank && memcmp(from->dims, info->dims, (size_t)info->rank * sizeof *info->dims) == 0)
        return EXIT_OK;
    return bad_shape(binding, from, dims_name(info->rank, info->dims, expected, sizeof expected));
}

/* A gate of one head for all: where its heads stand; or a shape's end. */
static size_t one_head(const struct safetensor *from, const struct operand_row *row, const clattn_operand_info *info)
{
    size_t axis = strcspn(row->dims, "G");

    if (row->storage != STORE_GATE || from->rank != info->rank || row->dims[axis] == '\0' || from->dims[axis] != 1)
        return (size_t)info->rank;
    for (size_t i = 0; i < (size_t)info->rank; i++)
        if (i != axis && from->dims[i] != info->dims[i])
            return (size_t)info->rank;
    return axis;
}

/* The one head's numbers, for each. */
static int copy_head(const struct binding *binding, const struct operand_row *row, const struct safetensor *from,
                     size_t axis)
{
    struct check_tensor *tensor = &binding->to->tensors.tensor[row->id];
    int64_t heads = tensor->info.dims[axis], inner = 1,
            count = (int64_t)(from->bytes / safetensors_element(from->dtype));
    struct check_tensor one;

    if (copy(binding, row->id, from, dtype_size(tensor->info.dtype)) != EXIT_OK)
        return EXIT_FAILED;
    one = *tensor;
    if (allocate(binding, row->id, dtype_size(tensor->info.dtype)) != EXIT_OK)
        return EXIT_FAILED;
    for (int i = (int)axis + 1; i < tensor->info.rank; i++)
        inner *= tensor->info.dims[i];
    for (int64_t i = 0; i < count * heads; i++)
        number_store(tensor->info.dtype, tensor->data, i,
                     number_load(tensor->info.dtype, one.data, i / (inner * heads) * inner + i % inner));
    free(one.data);
    return EXIT_OK;
}

static int bind_input(const struct binding *binding, const struct operand_row *row, int is_64)
{
    struct check_tensor *tensor = &binding->to->tensors.tensor[row->id];
    const struct safetensor *from = find(binding, row->id);
    size_t element =
        operand_is_index(row->id) ? (is_64 && row->storage == STORE_INDEX ? 8 : 4) : dtype_size(tensor->info.dtype);
    char dims[96];
    size_t axis;

    if (from == NULL)
        return bad("%s: tensor '%s' is missing, %s needs it with shape %s", binding->path, operand_name(row->id),
                   binding->rule->name, dims_name(tensor->info.rank, tensor->info.dims, dims, sizeof dims));
    axis = one_head(from, row, &tensor->info);
    if ((axis == (size_t)tensor->info.rank && check_shape(binding, from, &tensor->info, row->dims) != EXIT_OK) ||
        check_dtype(binding, row->storage, from, tensor->info.dtype) != EXIT_OK)
        return EXIT_BAD;
    if (axis < (size_t)tensor->info.rank)
        return copy_head(binding, row, from, axis);
    if (safetensors_element(from->dtype) != element || (uintptr_t)from->data % element != 0)
        return copy(binding, row->id, from, element);
    memcpy(&tensor->data, &from->data, sizeof tensor->data); /* read only: drops the const */
    tensor->bytes = from->bytes;
    return EXIT_OK;
}

/* The n-th entry of cu_seqlens or cu_seqlens_kv */
static int64_t cut_at(const struct check_tensor *cuts, const clattn_plan_desc *desc, int64_t n)
{
    return desc->flags & CLATTN_CU_SEQLENS_INT64 ? ((const int64_t *)cuts->data)[n] : ((const int32_t *)cuts->data)[n];
}

/* Cuts of that many tokens */
static int check_packing(const struct binding *binding, const clattn_plan_desc *desc, clattn_operand_id id,
                         int64_t tokens)
{
    const struct check_tensor *tensor = &binding->to->tensors.tensor[id];
    size_t count = (size_t)desc->sequences + 1;
    int64_t *wide;
    int status;

    if (tensor->data == NULL)
        return EXIT_OK;
    wide = malloc(count * sizeof *wide);
    if (wide == NULL)
        return failed("%s: no memory for %s", binding->path, operand_name(id));
    for (size_t i = 0; i < count; i++)
        wide[i] = cut_at(tensor, desc, (int64_t)i);
    status = cu_seqlens_check(binding->path, operand_name(id), wide, count, tokens);
    free(wide);
    return status;
}

/* The device clamps what is out of range. */
static int check_kv_lens(const struct binding *binding, const clattn_plan_desc *desc)
{
    const struct check_tensor *tensor = &binding->to->tensors.tensor[CLATTN_KV_LENS];
    const struct check_tensor *cuts = &binding->to->tensors.tensor[CLATTN_SEQLENS_KV];

    for (int64_t n = 0; tensor->data != NULL && n < tensor->info.dims[0]; n++) {
        int64_t length = ((const int32_t *)tensor->data)[n];
        int64_t most = cuts->data != NULL ? cut_at(cuts, desc, n + 1) - cut_at(cuts, desc, n) : desc->kv_len;
        if (length < 0 || length > most)
            return bad("%s: kv_lens[%lld] is %lld, expected 0 to %lld", binding->path, (long long)n, (long long)length,
                       (long long)most);
    }
    return EXIT_OK;
}

/* The device takes what is past the pool for none. */
static int check_slots(const struct binding *binding, const clattn_plan_desc *desc, const struct extent *extent)
{
    const struct check_tensor *tensor = &binding->to->tensors.tensor[CLATTN_STATE_INDICES];
    int64_t most = desc->state_slots != 0 ? desc->state_slots : extent->sequences;

    for (int64_t n = 0; tensor->data != NULL && n < tensor->info.dims[0]; n++)
        if (((const int32_t *)tensor->data)[n] >= most)
            return bad("%s: state_indices[%lld] is %d, expected less than the %lld states there are", binding->path,
                       (long long)n, ((const int32_t *)tensor->data)[n], (long long)most);
    return EXIT_OK;
}

static void warn_unused(const struct binding *binding)
{
    for (size_t i = 0; i < binding->file->count; i++) {
        const struct safetensor *tensor = &binding->file->tensors[i];
        int used = 0;
        for (int id = 1; id < OPERAND_COUNT; id++)
            used |= strcmp(operand_name((clattn_operand_id)id), tensor->name) == 0 &&
                    binding->to->tensors.tensor[id].data != NULL && !binding->to->tensors.tensor[id].info.output;
        if (!used)
            warn("%s: tensor '%s' is not used by %s", binding->path, tensor->name, binding->rule->name);
    }
}

int operands_bind(struct operands *operands, const struct settings *settings, const char *path,
                  const struct safetensors *file)
{
    const struct binding binding = {operands, path, file, rule_get(settings->rules[0])};
    struct problem problem;
    struct extent extent;
    int status;

    memset(operands, 0, sizeof *operands);
    status = derive(&binding, settings, &problem);
    if (status != EXIT_OK)
        return status;
    extent = problem_most(&problem);
    for (int i = 0; i < problem.operand_count && status == EXIT_OK; i++) {
        const struct operand_row *row = &problem.operands[i];
        clattn_operand_info *info = &operands->tensors.tensor[row->id].info;
        problem_operand_info(&problem, &extent, row, info);
        status =
            info->output ? EXIT_OK : bind_input(&binding, row, (problem.desc.flags & CLATTN_CU_SEQLENS_INT64) != 0);
    }
    if (status == EXIT_OK)
        status = check_packing(&binding, &problem.desc, CLATTN_SEQLENS, extent.seq_len);
    if (status == EXIT_OK)
        status = check_packing(&binding, &problem.desc, CLATTN_SEQLENS_KV, extent.kv_len);
    if (status == EXIT_OK)
        status = check_kv_lens(&binding, &problem.desc);
    if (status == EXIT_OK)
        status = check_slots(&binding, &problem.desc, &extent);
    for (int i = 0; i < problem.operand_count && status == EXIT_OK; i++) {
        const clattn_operand_info *info = &operands->tensors.tensor[problem.operands[i].id].info;
        if (info->output)
            status = allocate(&binding, problem.operands[i].id, dtype_size(info->dtype));
    }
    if (status == EXIT_OK)
        warn_unused(&binding);
    return status;
}

void operands_free(struct operands *operands)
{
    for (int id = 1; id < OPERAND_COUNT; id++)
        free(operands->owned[id]);
    memset(operands, 0, sizeof *operands);
}

size_t operands_list(const struct check_tensors *tensors, int outputs, struct safetensor list[OPERAND_COUNT])
{
    size_t count = 0;

    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *tensor = &tensors->tensor[id];
        struct safetensor *to = &list[count];
        if (tensor->data == NULL || tensor->info.output != outputs)
            continue;
        *to = (struct safetensor){.name = tensor->info.name,
                                  .rank = tensor->info.rank,
                                  .data = tensor->data,
                                  .bytes = tensor->bytes,
                                  .dtype = word_name(file_dtype_words, (int)tensor->info.dtype)};
        if (id == CLATTN_KV_LENS || id == CLATTN_STATE_INDICES || id == CLATTN_POSITION)
            to->dtype = "I32";
        else if (operand_is_index((clattn_operand_id)id))
            to->dtype = tensors->desc.flags & CLATTN_CU_SEQLENS_INT64 ? "I64" : "I32";
        memcpy(to->dims, tensor->info.dims, sizeof tensor->info.dims);
        count++;
    }
    return count;
}
