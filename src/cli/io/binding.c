/* Finds one input, checks it, and puts it into memory as the library reads it. */
#include "cli/io/binding.h"

#include "cli/io/words.h"
#include "reference/number.h"

#include <stdlib.h>
#include <string.h>

const struct safetensor *binding_find(const struct binding *binding, clattn_operand_id id)
{
    return safetensors_find(binding->file, operand_name(id));
}

int tensor_dtype(const struct safetensor *tensor)
{
    for (const struct word *word = file_dtype_words; word->name != NULL; word++)
        if (strcmp(word->name, tensor->dtype) == 0)
            return word->value;
    return NO_DTYPE;
}

int binding_bad_dtype(const struct binding *binding, const struct safetensor *tensor, const char *expected)
{
    return bad("%s: tensor '%s' has dtype %s, expected %s", binding->path, tensor->name, tensor->dtype, expected);
}

int binding_bad_shape(const struct binding *binding, const struct safetensor *tensor, const char *expected)
{
    char text[160];

    return bad("%s: tensor '%s' has shape %s, expected %s", binding->path, tensor->name,
               dims_name(tensor->rank, tensor->dims, text, sizeof text), expected);
}

/* -1 if they are more than SIZE_MAX / 2, which no memory holds. */
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
        if (clattn_operand_describe(desc, operand_to_public((clattn_operand_id)id), &info) == CLATTN_SUCCESS &&
            count_bytes(&info, sizeof(int64_t), &bytes) != 0)
            return bad("%s has shape %s, more than memory can hold", info.name,
                       dims_name(info.rank, info.dims, dims, sizeof dims));
    }
    return EXIT_OK;
}

int binding_allocate(const struct binding *binding, clattn_operand_id id, size_t element)
{
    struct check_tensor *tensor = &binding->to->tensors.tensor[id];

    if (count_bytes(&tensor->info, element, &tensor->bytes) == 0)
        tensor->data = binding->to->owned[id] = calloc(tensor->bytes + 1, 1);
    if (tensor->data == NULL)
        return failed("%s: no memory for the %zu bytes of %s", binding->path, tensor->bytes, tensor->info.name);
    return EXIT_OK;
}

/* Copies a tensor into memory of its own, widened to f32 or only aligned. */
static int copy(const struct binding *binding, clattn_operand_id id, const struct safetensor *from, size_t element)
{
    struct check_tensor *tensor = &binding->to->tensors.tensor[id];
    size_t narrow = safetensors_element(from->dtype), count = from->bytes / narrow;
    const char *bytes = from->data;

    if (binding_allocate(binding, id, element) != EXIT_OK)
        return EXIT_FAILED;
    if (narrow == element)
        memcpy(tensor->data, from->data, from->bytes);
    for (size_t i = 0; i < count && narrow != element; i++) {
        uint16_t single;
        memcpy(&single, bytes + i * narrow, sizeof single);
        ((float *)tensor->data)[i] = (float)number_load((clattn_dtype)tensor_dtype(from), &single, 0);
    }
    return EXIT_OK;
}

static int check_dtype(const struct binding *binding, enum storage storage, const struct safetensor *from,
                       clattn_dtype wanted)
{
    int dtype = tensor_dtype(from);

    if (storage == STORE_LENGTH && strcmp(from->dtype, "I32") != 0)
        return binding_bad_dtype(binding, from, "I32");
    if (storage == STORE_INDEX && strcmp(from->dtype, binding_find(binding, CLATTN_SEQLENS)->dtype) != 0)
        return binding_bad_dtype(binding, from, binding_find(binding, CLATTN_SEQLENS)->dtype);
    if (storage == STORE_INDEX || storage == STORE_LENGTH)
        return EXIT_OK;
    if (dtype == NO_DTYPE)
        return binding_bad_dtype(binding, from, "F32, F16 or BF16");
    if (storage == STORE_DATA && dtype != (int)wanted) {
        char expected[40];
        snprintf(expected, sizeof expected, "%s like %s", word_name(file_dtype_words, (int)wanted),
                 rule_has_keys(binding->rule) ? "q" : "v");
        return binding_bad_dtype(binding, from, expected);
    }
    return EXIT_OK;
}

/* A row [K*V] may come as [K,V]: the same numbers, with one dim less. */
static struct safetensor flat_row(const struct binding *binding, const struct safetensor *from,
                                  const struct operand_row *row)
{
    const clattn_plan_desc *desc = &binding->to->tensors.desc;
    const int last = (int)strlen(row->dims) - 1;
    struct safetensor flat = *from;

    if (row->dims[last] != 'Z' || from->rank != last + 2 || from->dims[last] != desc->key_dim ||
        from->dims[last + 1] != desc->value_dim)
        return flat;
    flat.rank--;
    flat.dims[last] *= flat.dims[last + 1];
    return flat;
}

static int check_shape(const struct binding *binding, const struct safetensor *from, const clattn_operand_info *info)
{
    char expected[96];

    if (from->rank == info->rank && memcmp(from->dims, info->dims, (size_t)info->rank * sizeof *info->dims) == 0)
        return EXIT_OK;
    return binding_bad_shape(binding, from, dims_name(info->rank, info->dims, expected, sizeof expected));
}

/* If a gate has one head that serves all heads: the axis of the heads. Otherwise the rank. */
static size_t single_head_axis(const struct safetensor *from, const struct operand_row *row,
                               const clattn_operand_info *info)
{
    size_t axis = strcspn(row->dims, "G");

    if (row->storage != STORE_GATE || from->rank != info->rank || row->dims[axis] == '\0' || from->dims[axis] != 1)
        return (size_t)info->rank;
    for (size_t i = 0; i < (size_t)info->rank; i++)
        if (i != axis && from->dims[i] != info->dims[i])
            return (size_t)info->rank;
    return axis;
}

/* Repeats the numbers of the one head for each. */
static int repeat_head(const struct binding *binding, const struct operand_row *row, const struct safetensor *from,
                       size_t axis)
{
    struct check_tensor *tensor = &binding->to->tensors.tensor[row->id];
    int64_t heads = tensor->info.dims[axis], inner = 1,
            count = (int64_t)(from->bytes / safetensors_element(from->dtype));
    struct check_tensor single;

    if (copy(binding, row->id, from, dtype_size(tensor->info.dtype)) != EXIT_OK)
        return EXIT_FAILED;
    single = *tensor;
    if (binding_allocate(binding, row->id, dtype_size(tensor->info.dtype)) != EXIT_OK)
        return EXIT_FAILED;
    for (int i = (int)axis + 1; i < tensor->info.rank; i++)
        inner *= tensor->info.dims[i];
    for (int64_t i = 0; i < count * heads; i++)
        number_store(tensor->info.dtype, tensor->data, i,
                     number_load(tensor->info.dtype, single.data, i / (inner * heads) * inner + i % inner));
    free(single.data);
    return EXIT_OK;
}

static int bad_missing(const struct binding *binding, const struct operand_row *row)
{
    const clattn_operand_info *info = &binding->to->tensors.tensor[row->id].info;
    char dims[96];

    return bad("%s: tensor '%s' is missing, %s needs it with shape %s", binding->path, operand_name(row->id),
               binding->rule->name, dims_name(info->rank, info->dims, dims, sizeof dims));
}

int binding_input(const struct binding *binding, const struct operand_row *row, int is_64)
{
    struct check_tensor *tensor = &binding->to->tensors.tensor[row->id];
    const struct safetensor *found = binding_find(binding, row->id);
    size_t element =
        operand_is_index(row->id) ? (is_64 && row->storage == STORE_INDEX ? 8 : 4) : dtype_size(tensor->info.dtype);
    struct safetensor from;
    size_t axis;

    if (found == NULL)
        return bad_missing(binding, row);
    from = flat_row(binding, found, row);
    axis = single_head_axis(&from, row, &tensor->info);
    if ((axis == (size_t)tensor->info.rank && check_shape(binding, &from, &tensor->info) != EXIT_OK) ||
        check_dtype(binding, row->storage, &from, tensor->info.dtype) != EXIT_OK)
        return EXIT_BAD;
    if (axis < (size_t)tensor->info.rank)
        return repeat_head(binding, row, &from, axis);
    if (safetensors_element(from.dtype) != element || (uintptr_t)from.data % element != 0)
        return copy(binding, row->id, &from, element);
    memcpy(&tensor->data, &from.data, sizeof tensor->data); /* drops the const: it is only read */
    tensor->bytes = from.bytes;
    return EXIT_OK;
}

/* Entry n of cu_seqlens or cu_seqlens_kv. */
static int64_t boundary_at(const struct check_tensor *boundaries, const clattn_plan_desc *desc, int64_t n)
{
    return desc->flags & CLATTN_CU_SEQLENS_INT64 ? ((const int64_t *)boundaries->data)[n]
                                                 : ((const int32_t *)boundaries->data)[n];
}

/* Checks the boundaries of sequences with that many tokens in all. */
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
        wide[i] = boundary_at(tensor, desc, (int64_t)i);
    status = cu_seqlens_check(binding->path, operand_name(id), wide, count, tokens);
    free(wide);
    return status;
}

/* The device would clamp lengths that are out of range. */
static int check_kv_lens(const struct binding *binding, const clattn_plan_desc *desc)
{
    const struct check_tensor *tensor = &binding->to->tensors.tensor[CLATTN_KV_LENS];
    const struct check_tensor *boundaries = &binding->to->tensors.tensor[CLATTN_SEQLENS_KV];

    for (int64_t n = 0; tensor->data != NULL && n < tensor->info.dims[0]; n++) {
        int64_t length = ((const int32_t *)tensor->data)[n];
        int64_t most = boundaries->data != NULL
                           ? boundary_at(boundaries, desc, n + 1) - boundary_at(boundaries, desc, n)
                           : desc->kv_len;
        if (length < 0 || length > most)
            return bad("%s: kv_lens[%lld] is %lld, expected 0 to %lld", binding->path, (long long)n, (long long)length,
                       (long long)most);
    }
    return EXIT_OK;
}

/* The library treats an index past the pool as "no state", as it does a negative one. In a file it is a mistake. */
static int check_slots(const struct binding *binding, const struct problem *problem, const struct extent *extent)
{
    const struct check_tensor *tensor = &binding->to->tensors.tensor[CLATTN_STATE_INDICES];
    const int32_t *slots = tensor->data;
    const int64_t most = problem_dim(&problem->desc, extent, 'M');
    struct sink sink = {.error = ""};
    clattn_status status;

    if (slots == NULL)
        return EXIT_OK;
    for (int64_t n = 0; n < tensor->info.dims[0]; n++)
        if (slots[n] >= most)
            return bad("%s: state_indices[%lld] is %d, expected less than the %lld states there are", binding->path,
                       (long long)n, slots[n], (long long)most);
    status = problem_check_slots(problem, extent, slots, &(struct log){sink_log, &sink});
    return status == CLATTN_SUCCESS ? EXIT_OK : library_error(&sink, binding->path, status);
}

int binding_check(const struct binding *binding, const struct problem *problem, const struct extent *extent)
{
    const clattn_plan_desc *desc = &problem->desc;
    int status = check_packing(binding, desc, CLATTN_SEQLENS, extent->seq_len);

    if (status == EXIT_OK)
        status = check_packing(binding, desc, CLATTN_SEQLENS_KV, extent->kv_len);
    if (status == EXIT_OK)
        status = check_kv_lens(binding, desc);
    return status == EXIT_OK ? check_slots(binding, problem, extent) : status;
}
