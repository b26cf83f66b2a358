/* clattn run: computes a rule over the tensors of a file. */
#include "base/text.h"
#include "cli/cli.h"
#include "cli/io/input.h"
#include "cli/io/metadata.h"
#include "cli/io/operands.h"
#include "cli/io/output.h"
#include "cli/out/progress.h"
#include "cli/device/target.h"
#include "op/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_time(struct text *text, double seconds)
{
    if (seconds < 1)
        text_format(text, " %.3g ms", 1e3 * seconds);
    else
        text_format(text, " %.3g s", seconds);
}

/* "out.safetensors: 1000 tokens in 1.2 ms (833333 tokens/s), chunk_scan on NAME; the plan in 340 ms" */
static void print_end(const char *path, const clattn_plan_desc *desc, const struct target *target)
{
    double tokens = (double)desc->batch * (double)desc->seq_len;
    struct text text = {0};
    char *line;

    text_format(&text, "%s: %.0f tokens in", strcmp(path, "-") == 0 ? "standard output" : path, tokens);
    add_time(&text, target->run_seconds);
    if (target->run_seconds > 0)
        text_format(&text, " (%.0f tokens/s)", tokens / target->run_seconds);
    if (target->reference)
        text_format(&text, ", reference");
    else {
        text_format(&text, ", %s on %s; the plan in", target->solver, target_name(target));
        add_time(&text, target->plan_seconds);
    }
    line = text_take(&text);
    if (line != NULL)
        note("%s", line);
    free(line);
}

struct job {
    struct target *target;
    struct check_tensors *tensors;
    char plan[2048];
    clattn_status status;
};

static void run_job(void *user)
{
    struct job *job = user;

    job->status = target_run(job->target, job->tensors, job->plan, sizeof job->plan);
}

static int compute(struct operands *operands, const struct settings *settings, struct target *target)
{
    struct job job = {.target = target, .tensors = &operands->tensors};
    int status = target_open_of(target, settings);

    if (status != EXIT_OK)
        return status;
    target_note_cache(target, settings);
    if (settings->ranks != NULL)
        run_job(&job); /* on this thread, which is that of MPI */
    else
        progress_while(&target->phase, run_job, &job);
    if (job.status != CLATTN_SUCCESS)
        return library_error(&target->sink, target_name(target), job.status);
    if (settings->verbose)
        fprintf(stderr, "%s\n%s\n", target_name(target), job.plan);
    return EXIT_OK;
}

/* Every option, and the device, driver and solver. */
static cJSON *make_metadata(const clattn_plan_desc *desc, const struct target *target)
{
    cJSON *metadata = metadata_make(desc, NULL);

    cJSON_AddStringToObject(metadata, "device", target_name(target));
    cJSON_AddStringToObject(metadata, "driver", target->info.driver);
    cJSON_AddStringToObject(metadata, "solver", target->solver);
    return metadata;
}

static int write_outputs(const struct operands *operands, const struct output *output, const struct target *target)
{
    struct safetensor list[OPERAND_COUNT];
    cJSON *metadata = make_metadata(&operands->tensors.desc, target);
    int status = output_write(output, list, operands_list(&operands->tensors, 1, list), metadata);

    cJSON_Delete(metadata);
    return status;
}

static int run_to(struct operands *operands, const struct settings *settings)
{
    const struct output output = output_of(settings, settings->output);
    struct target target = {.reference = 0};
    const int writes = ranks_print(settings->ranks);
    int status = ranks_agree(settings->ranks, writes ? output_check(&output) : EXIT_OK);

    if (status == EXIT_OK)
        status = compute(operands, settings, &target);
    if (status == EXIT_OK && writes)
        status = write_outputs(operands, &output, &target);
    if (status == EXIT_OK && writes && fflush(stdout) == 0)
        print_end(settings->output, &operands->tensors.desc, &target);
    target_close(&target);
    return status;
}

int run_main(struct settings *settings)
{
    struct operands operands = {.owned = {NULL}};
    struct safetensors file;
    const char *path;
    int status;

    if (settings->input == NULL)
        return bad("run needs an input: -i IN.safetensors");
    if (settings->output == NULL)
        return bad("run needs an output: -o OUT.safetensors");
    if (settings->ranks != NULL && strcmp(settings->input, "-") == 0)
        return bad("run --split reads a file, which each rank opens, and not standard input");
    path = input_name(settings->input);
    status = (settings->ranks != NULL ? input_map : input_read)(settings->input, &file);
    if (status == EXIT_OK)
        status = metadata_apply(settings, path, &file);
    if (status == EXIT_OK)
        status = operands_bind(&operands, settings, path, &file);
    status = ranks_agree(settings->ranks, status);
    if (status == EXIT_OK) {
        if (settings->ranks == NULL) /* ranks warn of their parts, which are all that they read */
            operands_warn(&operands, path, NULL);
        status = run_to(&operands, settings);
    }
    operands_free(&operands);
    safetensors_free(&file);
    return status;
}
