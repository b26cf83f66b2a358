/* Which rows and problems `clattn verify` checks: the awkward shapes or those of the command line, each in every
 * variant of a rule. */
#include "cli/io/desc_options.h"
#include "cli/io/operands.h"
#include "cli/verify.h"
#include "cli/io/words.h"
#include "op/rule.h"

#include <stdlib.h>

/* Adds the options of the command line to those of a problem. */
static void apply_options(const struct settings *settings, clattn_plan_desc *desc)
{
    desc->chunk = settings->desc.chunk;
    if (settings->desc.gate_dtype != CLATTN_F32)
        desc->gate_dtype = settings->desc.gate_dtype;
    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        if (settings->given.has[i])
            option_put(i, option_get(i, &settings->desc), desc);
}

/* The array with room for one more than count elements; its capacity is a power of two. NULL without memory: then the
 * array stays as it was. */
static void *grow(void *array, size_t count, size_t size)
{
    return (count & (count - 1)) != 0 ? array : realloc(array, (count > 0 ? 2 * count : 1) * size);
}

static int add_problem(struct verify_row *row, const char *name, const char *option, const clattn_plan_desc *desc,
                       const struct check_case *c)
{
    struct verify_problem *problems = grow(row->problems, row->problem_count, sizeof *problems), *problem;
    struct sink sink = {.error = ""};
    clattn_status status;

    if (problems == NULL)
        return failed("no memory for the problems");
    row->problems = problems;
    problem = &problems[row->problem_count++];
    problem->c = c;
    snprintf(problem->name, sizeof problem->name, "%s%s%s", name, *option != '\0' ? ", " : "", option);
    status = clattn_plan_desc_complete(&problem->desc, desc, sink_log, &sink);
    if (status != CLATTN_SUCCESS)
        return library_error(&sink, problem->name, status);
    return operands_size_check(&problem->desc);
}

/* A case or a shape, in every variant of the row's rule. */
static int add_variants(struct verify_row *row, const struct settings *settings, const clattn_plan_desc *base,
                        const char *name, const struct check_case *c)
{
    int status = EXIT_OK;

    for (int variant = 0; status == EXIT_OK; variant++) {
        clattn_plan_desc desc = *base, full;
        const char *option = check_variant(desc.rule, variant, &desc);
        if (option == NULL)
            break;
        if (c != NULL && !check_case_applies(c, desc.rule, variant, desc.dtype))
            continue;
        if (settings->quick && !check_case_quick(c, desc.rule, variant, desc.dtype))
            continue;
        apply_options(settings, &desc);
        check_fit(&desc);
        if (variant > 0 && option_set_any(&settings->given) &&
            clattn_plan_desc_complete(&full, &desc, NULL, NULL) != CLATTN_SUCCESS)
            continue; /* an option of the command line excludes the variant */
        status = add_problem(row, name, option, &desc, c);
    }
    return status;
}

static int add_problems(struct verify_row *row, const struct settings *settings)
{
    int status = EXIT_OK;
    char name[128];

    for (size_t i = 0; i < settings->shape_count && status == EXIT_OK; i++) {
        clattn_plan_desc desc = {
            .rule = row->rule, .dtype = row->dtype, .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE};
        shape_apply(&desc, &settings->shapes[i], &(struct shape){.batch = 1});
        status = add_variants(row, settings, &desc, shape_name(&desc, name, sizeof name), NULL);
    }
    for (size_t i = 0; i < check_case_count && settings->shape_count == 0 && status == EXIT_OK; i++) {
        clattn_plan_desc desc = check_case_desc(&check_cases[i], row->rule, row->dtype, CLATTN_MODE_AUTO);
        status = add_variants(row, settings, &desc, check_cases[i].name, &check_cases[i]);
    }
    return status;
}

static int add_row(struct verify *verify, clattn_rule rule, clattn_dtype dtype)
{
    struct verify_row *rows = grow(verify->rows, verify->row_count, sizeof *rows), *row;

    if (rows == NULL)
        return failed("no memory for the rows");
    verify->rows = rows;
    row = &rows[verify->row_count++];
    *row = (struct verify_row){
        .rule = rule, .dtype = dtype, .object = cJSON_CreateObject(), .outcomes = cJSON_CreateArray()};
    cJSON_AddStringToObject(row->object, "rule", rule_get(rule)->name);
    cJSON_AddStringToObject(row->object, "dtype", dtype_name(dtype));
    return add_problems(row, verify->settings);
}

/* Without names, every rule that takes the pass. */
static int is_rule_wanted(const struct settings *settings, clattn_rule rule)
{
    const int takes = settings->desc.pass == CLATTN_PASS_FORWARD || rule_takes(rule_get(rule), OPTION_pass);
    int wanted = settings->rule_count == 0 && takes;

    for (size_t i = 0; i < settings->rule_count; i++)
        wanted |= settings->rules[i] == rule;
    return wanted;
}

/* Whether --shape needs a K. */
static int asks_key_dim(const struct settings *settings)
{
    int asks = 0;

    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        asks |= is_rule_wanted(settings, rule) && rule_asks_key_dim(rule_get(rule));
    return asks;
}

static int is_dtype_wanted(const struct settings *settings, clattn_dtype dtype)
{
    int wanted = settings->dtype_count == 0;

    for (size_t i = 0; i < settings->dtype_count; i++)
        wanted |= settings->dtypes[i] == dtype;
    return wanted;
}

int verify_rows_make(struct verify *verify)
{
    const struct settings *settings = verify->settings;
    int status = EXIT_OK;

    for (size_t i = 0; i < settings->shape_count && status == EXIT_OK; i++)
        status = shape_check(&settings->shapes[i], 0, asks_key_dim(settings));
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (clattn_dtype dtype = CLATTN_F32; dtype <= CLATTN_BF16 && status == EXIT_OK; dtype++)
            if (is_rule_wanted(settings, rule) && is_dtype_wanted(settings, dtype))
                status = add_row(verify, rule, dtype);
    return status;
}

static void free_row(struct verify_row *row)
{
    cJSON_Delete(row->object);
    cJSON_Delete(row->outcomes);
    free(row->problems);
}

/* Rows of one rule follow each other and have the same modes. */
int verify_rows_choose_modes(struct verify *verify)
{
    const struct modes wanted = modes_wanted(verify->settings, verify->target.reference ? 1 : MODE_COUNT);
    clattn_rule rule = CLATTN_RULE_NONE;
    struct modes modes;
    size_t kept = 0;
    int status = EXIT_OK;

    for (size_t i = 0; i < verify->row_count; i++) {
        struct verify_row row = verify->rows[i];
        if (row.rule != rule && status == EXIT_OK)
            status = modes_choose(verify->settings, &wanted, row.rule, &modes);
        rule = row.rule;
        row.modes = modes;
        verify->total += verify_row_size(&row);
        if (modes.count > 0)
            verify->rows[kept++] = row;
        else
            free_row(&row);
    }
    verify->row_count = kept;
    return status;
}

void verify_rows_free(struct verify *verify)
{
    for (size_t i = 0; i < verify->row_count; i++)
        free_row(&verify->rows[i]);
    free(verify->rows);
}

const struct verify_problem *verify_row_problem(const struct verify_row *row, size_t outcome, clattn_mode *mode)
{
    *mode = row->modes.at[outcome % row->modes.count];
    return &row->problems[outcome / row->modes.count];
}

size_t verify_row_size(const struct verify_row *row)
{
    return row->problem_count * row->modes.count;
}
