/* clattn make-input: writes random operands of a rule to a file. */
#include "base/system.h"
#include "base/text.h"
#include "check/check.h"
#include "cli/cli.h"
#include "cli/io/desc_options.h"
#include "cli/io/metadata.h"
#include "cli/io/operands.h"
#include "cli/io/output.h"
#include "cli/io/words.h"
#include "op/rule.h"

#include <stdio.h>

static int make_desc(const struct settings *settings, clattn_plan_desc *desc)
{
    *desc = settings->desc;
    desc->rule = settings->rules[0];
    desc->dtype = settings->dtype_count > 0 ? settings->dtypes[0] : CLATTN_F32;
    if (shape_check(&settings->shapes[0], settings->cu_seqlens != NULL, rule_asks_key_dim(rule_get(desc->rule))) !=
        EXIT_OK)
        return EXIT_BAD;
    shape_apply(desc, &settings->shapes[0], NULL);
    desc->flags &= ~CLATTN_CU_SEQLENS_INT64;
    if (settings->initial_state)
        desc->flags |= CLATTN_INITIAL_STATE;
    if (settings->cu_seqlens == NULL)
        return EXIT_OK;
    desc->flags |= CLATTN_CU_SEQLENS | (settings->desc.flags & CLATTN_CU_SEQLENS_INT64);
    if (desc->kv_len != 0 && rule_has_list(rule_get(desc->rule)))
        desc->flags |= CLATTN_CU_SEQLENS_KV;
    desc->sequences = settings->sequences;
    if (desc->seq_len == 0)
        desc->seq_len = settings->cu_seqlens[settings->sequences];
    if (desc->batch > 1)
        return bad("--shape B is %lld, expected 1 with --varlen", (long long)desc->batch);
    return cu_seqlens_check("--varlen", "cu_seqlens", settings->cu_seqlens, (size_t)settings->sequences + 1,
                            desc->seq_len);
}

/* The metadata has the options that were given and the layout of the tensors. The reader of the file chooses all
 * others. */
static cJSON *make_metadata(const clattn_plan_desc *desc, const struct settings *settings)
{
    struct option_set options = settings->given;
    cJSON *metadata;
    char number[32];

    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        options.has[i] |= desc_options[i].seen == SEEN_LAYOUT;
    metadata = metadata_make(desc, &options);
    snprintf(number, sizeof number, "%llu", (unsigned long long)settings->seed);
    cJSON_AddStringToObject(metadata, "seed", number);
    return metadata;
}

static int write_tensors(const struct check_tensors *tensors, const struct settings *settings,
                         const struct output *output)
{
    struct safetensor list[OPERAND_COUNT];
    cJSON *metadata = make_metadata(&tensors->desc, settings);
    int status = output_write(output, list, operands_list(tensors, 0, list), metadata);

    cJSON_Delete(metadata);
    return status;
}

/* "12.6 MB drawn in 40 ms, written in 9 ms, 257 MB a second" */
static void print_time(const struct check_tensors *tensors, double drawn, double written)
{
    double bytes = 0;

    for (int id = 1; id < OPERAND_COUNT; id++)
        if (!tensors->tensor[id].info.output) /* absent tensors have 0 bytes */
            bytes += (double)tensors->tensor[id].bytes;
    text_print(stderr, "%.3g MB drawn in %.3g ms, written in %.3g ms, %.3g MB a second\n", bytes / 1e6, 1e3 * drawn,
               1e3 * written, drawn + written > 0 ? bytes / 1e6 / (drawn + written) : 0);
}

int make_input_main(struct settings *settings)
{
    const struct output output = output_of(settings, settings->output);
    struct check_tensors tensors = {.desc = {.rule = CLATTN_RULE_NONE}};
    struct sink sink = {.error = ""};
    clattn_plan_desc desc, full;
    clattn_status result;
    double begin, drawn;
    int status;

    if (settings->output == NULL)
        return bad("make-input needs an output: -o FILE");
    if (settings->shape_count == 0)
        return bad("make-input needs --shape B=…,T=…,H=…,K=…,V=…");
    if (output_check(&output) != EXIT_OK || make_desc(settings, &desc) != EXIT_OK)
        return EXIT_BAD;
    result = clattn_plan_desc_complete(&full, &desc, sink_log, &sink);
    if (result != CLATTN_SUCCESS)
        return library_error(&sink, "", result);
    if (operands_size_check(&full) != EXIT_OK)
        return EXIT_BAD;
    begin = now_seconds();
    result = check_make(&tensors, &full, settings->seed, CHECK_GATES_USUAL, settings->cu_seqlens);
    if (result != CLATTN_SUCCESS)
        return library_error(&sink, "make-input", result);
    drawn = now_seconds() - begin;
    status = write_tensors(&tensors, settings, &output);
    if (settings->verbose && status == EXIT_OK)
        print_time(&tensors, drawn, now_seconds() - begin - drawn);
    check_free(&tensors);
    return status;
}
