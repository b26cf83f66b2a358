/* clattn layer: computes a whole layer with the weights of a checkpoint, or lists the layer's tensors. */
#include "cli/layer.h"

#include "base/text.h"
#include "cli/io/desc_options.h"
#include "cli/io/input.h"
#include "cli/io/operands.h"
#include "cli/io/output.h"
#include "cli/device/target.h"
#include "cli/io/words.h"
#include "cli/out/progress.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 16, MAX_TENSORS = 40, MOST_NAME = 96 };

/* An operand of the call, in aligned memory of its own and on a device. */
struct operand {
    clattn_layer_part part;
    size_t bytes;
    void *host;
    cl_mem buffer;
};

struct layer_run {
    const struct settings *settings;
    const char *name, *path, *x_path;
    struct safetensors file, x_file;
    const struct safetensors *x; /* points to one of these two */
    clattn_layer_tensor *tensors;
    size_t tensor_count;
    clattn_layer_desc desc;
    struct operand operands[MAX_PARTS], weights;
    size_t operand_count;
    struct target target;
    clattn_status status; /* of the computation */
};

/* ---- The checkpoint ---------------------------------------------------------------------------------------------- */

static int read_dtype(const char *path, const struct safetensor *tensor, clattn_dtype *dtype)
{
    for (const struct word *word = file_dtype_words; word->name != NULL; word++)
        if (strcmp(word->name, tensor->dtype) == 0) {
            *dtype = (clattn_dtype)word->value;
            return EXIT_OK;
        }
    return bad("%s: tensor '%s' has dtype %s, expected F32, F16 or BF16", path, tensor->name, tensor->dtype);
}

/* What a call may have besides the checkpoint. */
static clattn_layer_desc desc_of_all(const struct layer_run *run)
{
    const uint32_t pass = run->settings->backward ? CLATTN_LAYER_BACKWARD : 0;

    return (clattn_layer_desc){.layer = run->desc.layer,
                               .flags = CLATTN_LAYER_INITIAL_STATE | CLATTN_LAYER_FINAL_STATE | pass};
}

static int is_weight(const struct layer_run *run, const char *name, clattn_layer_role *role)
{
    const clattn_layer_desc desc = desc_of_all(run);
    clattn_layer_part part;

    for (size_t i = 0; clattn_layer_part_describe(&desc, i, &part) == CLATTN_SUCCESS; i++)
        if (strcmp(part.name, name) == 0) {
            *role = part.role;
            return 1;
        }
    return 0;
}

/* A tensor that the layer does not know is an error: its effect would be missing from the results. */
static int add_tensor(struct layer_run *run, const struct safetensor *from, const char *name)
{
    clattn_layer_tensor *tensor = &run->tensors[run->tensor_count];
    clattn_layer_role role;

    if (!is_weight(run, name, &role))
        return bad("%s: tensor '%s' is none of layer %s, see `clattn layer %s`", run->path, from->name, run->name,
                   run->name);
    if (role != CLATTN_LAYER_WEIGHT)
        return EXIT_OK;
    *tensor = (clattn_layer_tensor){.name = name, .rank = from->rank, .data = from->data};
    for (int i = 0; i < from->rank && i < 4; i++)
        tensor->dims[i] = from->dims[i];
    run->tensor_count++;
    if (read_dtype(run->path, from, &tensor->dtype) != EXIT_OK)
        return EXIT_BAD;
    tensor_warn(run->path, from, tensor->dtype);
    return EXIT_OK;
}

static int check_origin(struct layer_run *run)
{
    return layer_read_origin(&run->desc, run->settings->input, &run->file);
}

/* Whether the layer has the pass that is asked for. */
static int check_pass(struct layer_run *run)
{
    const clattn_layer_desc desc = desc_of_all(run);
    clattn_layer_part part;

    return clattn_layer_part_describe(&desc, 0, &part) == CLATTN_SUCCESS
               ? EXIT_OK
               : bad("layer %s has no backward pass, as its rule has no gradients", run->name);
}

static int add_tensors(struct layer_run *run)
{
    const char *prefix = run->settings->prefix != NULL ? run->settings->prefix : "";
    size_t length = strlen(prefix), matches = 0;

    run->tensors = calloc(run->file.count + 1, sizeof *run->tensors);
    if (run->tensors == NULL)
        return failed("no memory for the list of tensors");
    for (size_t i = 0; i < run->file.count; i++) {
        const struct safetensor *from = &run->file.tensors[i];
        if (strncmp(from->name, prefix, length) != 0)
            continue;
        matches++;
        if (add_tensor(run, from, from->name + length) != EXIT_OK)
            return EXIT_BAD;
    }
    return matches > 0 ? EXIT_OK : bad("%s: no tensor's name begins with '%s'", run->path, prefix);
}

/* ---- The operands ------------------------------------------------------------------------------------------------ */

static int bad_dims(const struct layer_run *run, const struct safetensor *tensor, int rank, const int64_t *dims)
{
    char actual[160], expected[160];

    return bad("%s: tensor '%s' is %s %s, expected %s", run->x_path, tensor->name, tensor->dtype,
               dims_name(tensor->rank, tensor->dims, actual, sizeof actual),
               dims_name(rank, dims, expected, sizeof expected));
}

/* Whether x's file has one of what the flag asks for, which is not there without it. Then it must have all of them. */
static int has_state(const struct layer_run *run, uint32_t flag)
{
    const uint32_t pass = run->settings->backward ? CLATTN_LAYER_BACKWARD : 0;
    const clattn_layer_desc desc = {.layer = run->desc.layer, .flags = flag | pass};
    clattn_layer_part part;

    for (size_t i = 0; clattn_layer_part_describe(&desc, i, &part) == CLATTN_SUCCESS; i++)
        if (part.role == CLATTN_LAYER_INPUT && strcmp(part.name, "x") != 0 && strcmp(part.name, "d_y") != 0 &&
            !part.whole && safetensors_find(run->x, part.name) != NULL)
            return 1;
    return 0;
}

/* States that are there are read; of the forward pass all final ones are written. */
static uint32_t flags_of(const struct layer_run *run)
{
    uint32_t flags = has_state(run, CLATTN_LAYER_INITIAL_STATE) ? CLATTN_LAYER_INITIAL_STATE : 0;

    if (!run->settings->backward)
        return flags | CLATTN_LAYER_FINAL_STATE;
    flags |= has_state(run, CLATTN_LAYER_FINAL_STATE) ? CLATTN_LAYER_FINAL_STATE : 0;
    return flags | CLATTN_LAYER_BACKWARD;
}

/* Options of a problem that a layer also has: the fields of both descs. */
#define OPTION(field)                                                                                                  \
    {                                                                                                                  \
#field, offsetof(clattn_plan_desc, field), offsetof(clattn_layer_desc, field),                                 \
            sizeof(((clattn_layer_desc *)0)->field)                                                                    \
    }
static const struct {
    const char *name;
    size_t from, to, size;
} options[] = {OPTION(eps), OPTION(mini_batch), OPTION(muon), OPTION(step_min), OPTION(step_max)};
enum { OPTIONS = sizeof options / sizeof *options };

const char *layer_option(size_t index)
{
    return index < OPTIONS ? options[index].name : NULL;
}

static int bad_option(const char *name)
{
    struct text text = {0};
    char *list;

    for (size_t i = 0; i < OPTIONS; i++)
        text_format(&text, "%s%s", i == 0 ? "" : i + 1 < OPTIONS ? ", " : " or ", options[i].name);
    list = text_take(&text);
    bad("layer takes no --option %s, expected %s", name, list != NULL ? list : "another");
    free(list);
    return EXIT_BAD;
}

/* Applies --option. */
static int apply_options(struct layer_run *run)
{
    struct option_set given = run->settings->given;

    for (size_t i = 0; i < OPTIONS; i++) {
        const enum option_id option = desc_option_find(options[i].name);
        if (given.has[option]) /* or it stays what the model's config says */
            memcpy((char *)&run->desc + options[i].to, (const char *)&run->settings->desc + options[i].from,
                   options[i].size);
        given.has[option] = 0;
    }
    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        if (given.has[i])
            return bad_option(desc_options[i].name);
    return EXIT_OK;
}

static int check_x(const struct layer_run *run, const struct safetensor *x)
{
    char actual[160];

    if (x == NULL)
        return bad("%s: tensor 'x' is missing, layer %s needs it", run->x_path, run->name);
    if (x->rank != 3 || x->dims[0] < 1)
        return bad("%s: tensor 'x' is %s %s, expected [B,T,C] with B of 1 or more", run->x_path, x->dtype,
                   dims_name(x->rank, x->dims, actual, sizeof actual));
    return EXIT_OK;
}

/* Derives the desc from the shapes of the tensors and of x. */
static int derive(struct layer_run *run)
{
    const struct shape sizes = run->settings->shape_count > 0 ? run->settings->shapes[0] : (struct shape){0};
    const struct safetensor *x = safetensors_find(run->x, "x");
    clattn_layer_desc *d = &run->desc;
    clattn_status status;

    if (check_x(run, x) != EXIT_OK || read_dtype(run->x_path, x, &d->dtype) != EXIT_OK)
        return EXIT_BAD;
    d->batch = x->dims[0];
    d->seq_len = x->dims[1];
    d->heads = sizes.heads;
    d->qk_heads = sizes.qk_heads;
    d->key_dim = sizes.key_dim;
    d->value_dim = sizes.value_dim;
    d->flags = flags_of(run);
    if (apply_options(run) != EXIT_OK)
        return EXIT_BAD;
    status = clattn_layer_fit(d, d, run->tensors, run->tensor_count, sink_log, &run->target.sink);
    return status == CLATTN_SUCCESS ? EXIT_OK : library_error(&run->target.sink, run->path, status);
}

/* The dtype's name in files. */
static const char *part_dtype(const clattn_layer_part *part)
{
    return part->whole ? "I32" : word_name(file_dtype_words, (int)part->dtype);
}

static int fill_operand(struct layer_run *run, struct operand *operand)
{
    const struct safetensor *tensor = safetensors_find(run->x, operand->part.name);
    const clattn_layer_part *part = &operand->part;
    int matching;

    if (tensor == NULL)
        return bad("%s: tensor '%s' is missing, layer %s needs it", run->x_path, part->name, run->name);
    matching = tensor->rank == part->rank;
    if (strcmp(tensor->dtype, part_dtype(part)) != 0)
        return bad("%s: tensor '%s' has dtype %s, expected %s", run->x_path, part->name, tensor->dtype,
                   part_dtype(part));
    for (int i = 0; i < part->rank && matching; i++)
        matching = tensor->dims[i] == part->dims[i];
    if (!matching)
        return bad_dims(run, tensor, part->rank, part->dims);
    memcpy(operand->host, tensor->data, operand->bytes);
    if (!part->whole)
        tensor_warn(run->x_path, tensor, part->dtype);
    return EXIT_OK;
}

static int make_operand(struct layer_run *run, const clattn_layer_part *part)
{
    struct operand *operand = &run->operands[run->operand_count++];

    operand->part = *part;
    operand->bytes = part->dtype == CLATTN_F32 ? 4 : 2;
    for (int i = 0; i < part->rank; i++)
        operand->bytes *= (size_t)part->dims[i];
    operand->host = calloc(operand->bytes + 1, 1);
    if (operand->host == NULL)
        return failed("no memory for %zu bytes of %s", operand->bytes, part->name);
    return part->role == CLATTN_LAYER_INPUT ? fill_operand(run, operand) : EXIT_OK;
}

static int make_operands(struct layer_run *run)
{
    clattn_layer_part part;
    int status = EXIT_OK;

    for (size_t i = 0; status == EXIT_OK && clattn_layer_part_describe(&run->desc, i, &part) == CLATTN_SUCCESS; i++)
        if (part.role != CLATTN_LAYER_WEIGHT)
            status = make_operand(run, &part);
    return status;
}

static int pack(struct layer_run *run)
{
    struct operand *weights = &run->weights;
    clattn_status status = clattn_layer_packed_size(&run->desc, &weights->bytes);

    weights->part.name = "weights";
    weights->host = malloc(weights->bytes + 1);
    if (weights->host == NULL)
        return failed("no memory for %zu bytes of weights", weights->bytes);
    if (status == CLATTN_SUCCESS)
        status =
            clattn_layer_pack(&run->desc, run->tensors, run->tensor_count, weights->host, sink_log, &run->target.sink);
    return status == CLATTN_SUCCESS ? EXIT_OK : library_error(&run->target.sink, run->path, status);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static clattn_layer_call make_call(const struct layer_run *run, clattn_layer_operand *list)
{
    size_t count = 0;

    list[count++] = (clattn_layer_operand){run->weights.part.name, run->weights.buffer, run->weights.host, 0};
    for (size_t i = 0; i < run->operand_count; i++)
        list[count++] =
            (clattn_layer_operand){run->operands[i].part.name, run->operands[i].buffer, run->operands[i].host, 0};
    return (clattn_layer_call){.operands = list, .operand_count = count, .seq_len = run->desc.seq_len};
}

static clattn_status to_device(struct layer_run *run, struct operand *operand)
{
    const struct log log = {sink_log, &run->target.sink};

    return opencl_create_buffer(&log, opencl_get(), run->target.device.cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                operand->bytes > 0 ? operand->bytes : 1, operand->host, &operand->buffer);
}

static clattn_status from_device(struct layer_run *run, struct operand *operand)
{
    const struct log log = {sink_log, &run->target.sink};

    if (operand->part.role == CLATTN_LAYER_OUTPUT && operand->bytes > 0)
        TRY(opencl_read(&log, opencl_get(), run->target.device.queue, operand->buffer, 0, operand->bytes,
                        operand->host));
    return CLATTN_SUCCESS;
}

static clattn_status run_on(struct layer_run *run, clattn_layer_plan *plan, struct operand *workspace)
{
    clattn_layer_operand list[MAX_PARTS + 1];
    clattn_layer_call call;

    TRY(clattn_layer_workspace_size(plan, &workspace->bytes));
    workspace->host = calloc(workspace->bytes + 1, 1);
    if (workspace->host == NULL)
        return CLATTN_OUT_OF_MEMORY;
    TRY(to_device(run, workspace));
    TRY(to_device(run, &run->weights));
    for (size_t i = 0; i < run->operand_count; i++)
        TRY(to_device(run, &run->operands[i]));
    call = make_call(run, list);
    call.workspace = workspace->buffer;
    TRY(clattn_layer_enqueue(plan, run->target.device.queue, &call, 0, NULL, NULL));
    for (size_t i = 0; i < run->operand_count; i++)
        TRY(from_device(run, &run->operands[i]));
    return CLATTN_SUCCESS;
}

static void release_operand(struct operand *operand)
{
    if (operand->buffer != NULL)
        opencl_get()->ReleaseMemObject(operand->buffer);
    free(operand->host);
}

static clattn_status run_device(struct layer_run *run)
{
    clattn_layer_desc desc = run->desc;
    struct operand workspace = {.host = NULL};
    clattn_layer_plan *plan = NULL;
    char text[8192];
    clattn_status status;

    desc.seq_len = desc.seq_len > 0 ? desc.seq_len : 1;
    status = clattn_layer_plan_create(&plan, run->target.device.context, &desc, sink_log, &run->target.sink);
    run->target.phase = "running";
    if (status == CLATTN_SUCCESS)
        status = run_on(run, plan, &workspace);
    if (status == CLATTN_SUCCESS && run->settings->verbose &&
        clattn_layer_plan_text(plan, text, sizeof text) == CLATTN_SUCCESS)
        fprintf(stderr, "%s\n%s", target_name(&run->target), text);
    clattn_layer_plan_destroy(plan);
    release_operand(&workspace);
    return status;
}

static void run_target(void *user)
{
    struct layer_run *run = user;
    clattn_layer_operand list[MAX_PARTS + 1];
    clattn_layer_call call;

    run->target.phase = run->target.reference ? "computing" : "compiling";
    if (run->target.reference) {
        call = make_call(run, list);
        run->status = clattn_layer_reference(&run->desc, &call, sink_log, &run->target.sink);
    } else {
        run->status = run_device(run);
    }
}

static int compute(struct layer_run *run)
{
    if (target_open(&run->target, run->settings->device) != EXIT_OK)
        return EXIT_BAD;
    target_note_cache(&run->target, run->settings);
    progress_while(&run->target.phase, run_target, run);
    return run->status == CLATTN_SUCCESS ? EXIT_OK
                                         : library_error(&run->target.sink, target_name(&run->target), run->status);
}

static int has_position(clattn_layer layer)
{
    const clattn_layer_desc desc = {.layer = layer, .flags = CLATTN_LAYER_INITIAL_STATE};
    clattn_layer_part part = {.whole = 0};

    for (size_t i = 0; !part.whole && clattn_layer_part_describe(&desc, i, &part) == CLATTN_SUCCESS;)
        i++;
    return part.whole;
}

/* [B]: the position of the next run's first token. To be freed; NULL if the layer has no positions. */
static int32_t *next_position(const struct layer_run *run)
{
    const int32_t *first = NULL;
    int32_t *next;

    for (size_t i = 0; i < run->operand_count; i++)
        if (run->operands[i].part.whole)
            first = run->operands[i].host;
    next = has_position(run->desc.layer) ? calloc((size_t)run->desc.batch, sizeof *next) : NULL;
    for (int64_t n = 0; next != NULL && n < run->desc.batch; n++)
        next[n] = (first != NULL ? first[n] : 0) + (int32_t)run->desc.seq_len;
    return next;
}

/* The tensors of a file to be written. */
struct written {
    struct safetensor list[MAX_TENSORS];
    char names[MAX_TENSORS][MOST_NAME]; /* of gradients by weights */
    void *owned[MAX_TENSORS];
    size_t count;
};

static void add_output(struct written *written, const struct operand *operand)
{
    struct safetensor *tensor = &written->list[written->count++];

    *tensor = (struct safetensor){.name = operand->part.name,
                                  .dtype = part_dtype(&operand->part),
                                  .rank = operand->part.rank,
                                  .data = operand->host,
                                  .bytes = operand->bytes};
    memcpy(tensor->dims, operand->part.dims, sizeof operand->part.dims);
}

/* The gradient by a tensor of the checkpoint, in its shape, named d_NAME. */
static int add_gradient(struct layer_run *run, struct written *written, const struct operand *block,
                        const clattn_layer_tensor *weight)
{
    struct safetensor *tensor = &written->list[written->count];
    char *name = written->names[written->count];
    float **numbers = (float **)&written->owned[written->count++];
    clattn_status status;

    text_fit(name, MOST_NAME, "d_%s", weight->name);
    *tensor = (struct safetensor){.name = name, .dtype = "F32", .rank = weight->rank, .bytes = sizeof(float)};
    for (int i = 0; i < weight->rank; i++) {
        tensor->dims[i] = weight->dims[i];
        tensor->bytes *= (size_t)weight->dims[i];
    }
    *numbers = malloc(tensor->bytes + 1);
    if (*numbers == NULL)
        return failed("no memory for %zu bytes of %s", tensor->bytes, name);
    tensor->data = (void *)*numbers;
    status = clattn_layer_unpack(&run->desc, block->host, weight->name, *numbers, sink_log, &run->target.sink);
    return status == CLATTN_SUCCESS ? EXIT_OK : library_error(&run->target.sink, run->path, status);
}

static int add_gradients(struct layer_run *run, struct written *written, const struct operand *block)
{
    int status = EXIT_OK;

    for (size_t i = 0; i < run->tensor_count && status == EXIT_OK; i++)
        status = add_gradient(run, written, block, &run->tensors[i]);
    return status;
}

static void add_position(const struct layer_run *run, struct written *written)
{
    int32_t *position = run->settings->backward ? NULL : next_position(run);

    if (position == NULL)
        return;
    written->owned[written->count] = position;
    written->list[written->count++] = (struct safetensor){.name = "final_position",
                                                          .dtype = "I32",
                                                          .rank = 1,
                                                          .dims = {run->desc.batch},
                                                          .data = (void *)position,
                                                          .bytes = (size_t)run->desc.batch * sizeof *position};
}

static int list_outputs(struct layer_run *run, struct written *written)
{
    for (size_t i = 0; i < run->operand_count; i++) {
        const struct operand *operand = &run->operands[i];
        if (operand->part.role != CLATTN_LAYER_OUTPUT)
            continue;
        if (strcmp(operand->part.name, "d_weights") != 0)
            add_output(written, operand);
        else if (add_gradients(run, written, operand) != EXIT_OK)
            return EXIT_FAILED;
    }
    add_position(run, written);
    return EXIT_OK;
}

static int write_outputs(struct layer_run *run, const struct output *output)
{
    static struct written written;
    cJSON *metadata = cJSON_CreateObject();
    int status;

    memset(&written, 0, sizeof written);
    cJSON_AddStringToObject(metadata, "layer", run->name);
    cJSON_AddStringToObject(metadata, "version", clattn_version());
    cJSON_AddStringToObject(metadata, "device", target_name(&run->target));
    cJSON_AddStringToObject(metadata, "driver", run->target.info.driver);
    status = list_outputs(run, &written);
    if (status == EXIT_OK)
        status = output_write(output, written.list, written.count, metadata);
    cJSON_Delete(metadata);
    for (size_t i = 0; i < written.count; i++)
        free(written.owned[i]);
    return status;
}

static int read_files(struct layer_run *run)
{
    const char *x = run->settings->x;
    int status = EXIT_OK;

    if (x != NULL && strcmp(x, "-") == 0 && strcmp(run->settings->input, "-") == 0)
        return bad("both files are standard input, expected one or none");
    status = input_read(run->settings->input, &run->file);
    run->x = &run->file;
    if (status == EXIT_OK && x != NULL) {
        status = input_read(x, &run->x_file);
        run->x = &run->x_file;
    }
    return status;
}

static int run_layer(struct layer_run *run)
{
    const struct output output = output_of(run->settings, run->settings->output);
    int (*const parts[])(struct layer_run *) = {check_pass, read_files,    check_origin, add_tensors,
                                                derive,     make_operands, pack,         compute};
    int status = output_check(&output);

    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == EXIT_OK; i++)
        status = parts[i](run);
    return status == EXIT_OK ? write_outputs(run, &output) : status;
}

int layer_main(struct settings *settings)
{
    static struct layer_run run;
    int status;

    if (settings->file_count == 0)
        return layer_list(settings->format);
    run = (struct layer_run){.settings = settings, .name = settings->files[0]};
    if (layer_find(run.name, &run.desc.layer) != EXIT_OK)
        return EXIT_BAD;
    if (settings->input == NULL && settings->output == NULL)
        return layer_list_parts(run.desc.layer, settings->format);
    if (settings->input == NULL || settings->output == NULL)
        return bad("layer needs a checkpoint and an output: -i CHECKPOINT.safetensors -o OUT.safetensors");
    run.path = input_name(settings->input);
    run.x_path = settings->x != NULL ? input_name(settings->x) : run.path;
    status = run_layer(&run);
    for (size_t i = 0; i < run.operand_count; i++)
        release_operand(&run.operands[i]);
    release_operand(&run.weights);
    free(run.tensors);
    safetensors_free(&run.file);
    safetensors_free(&run.x_file);
    target_close(&run.target);
    return status;
}
