/* clattn run: a rule over the tensors of a file. */
#include "cli/cli.h"
#include "cli/operands.h"
#include "cli/output.h"
#include "cli/target.h"

#include <stdio.h>

static int compute(struct operands *operands, const struct settings *settings)
{
    char plan[2048] = "";
    struct target target;
    int status = target_open(&target, settings->device);

    if (status == EXIT_OK) {
        clattn_status result = target_run(&target, &operands->tensors, plan, sizeof plan);
        if (result != CLATTN_SUCCESS)
            status = library_error(&target.sink, target_name(&target), result);
    }
    if (status == EXIT_OK && settings->verbose)
        fprintf(stderr, "%s\n%s\n", target_name(&target), plan);
    target_close(&target);
    return status;
}

static int run_to(struct operands *operands, const struct settings *settings)
{
    struct safetensor list[OPERAND_COUNT];
    int status = output_check(settings->output);

    if (status == EXIT_OK)
        status = compute(operands, settings);
    if (status == EXIT_OK)
        status = output_write(settings->output, list, operands_list(&operands->tensors, 1, list), NULL);
    return status;
}

int run_main(struct settings *settings)
{
    struct safetensors file;
    struct operands operands = {.owned = {NULL}};
    char error[512];
    int status;

    if (settings->input == NULL)
        return bad("run needs an input: -i IN.safetensors");
    if (settings->output == NULL)
        return bad("run needs an output: -o OUT.safetensors");
    if (safetensors_read(settings->input, &file, error, sizeof error) != 0)
        status = bad("%s: %s", settings->input, error);
    else
        status = operands_bind(&operands, settings, settings->input, &file);
    if (status == EXIT_OK)
        status = run_to(&operands, settings);
    operands_free(&operands);
    safetensors_free(&file);
    return status;
}
