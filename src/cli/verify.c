/* clattn verify: a device held to the double-precision reference over the awkward shapes. */
#include "check/check.h"
#include "cli/cli.h"
#include "cli/operands.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/target.h"
#include "cli/words.h"
#include "plan/plan.h"
#include "op/rule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct column row_columns[] = {
    {"rule", "rule", COLUMN_WORD, 0},
    {"dtype", "dtype", COLUMN_WORD, 0},
    {"cases", "cases", COLUMN_FIXED, 0},
    {"failed", "failed", COLUMN_FIXED, 0},
    {"worst_error", "worst error", COLUMN_SCIENTIFIC, 1},
    {"bound", "bound", COLUMN_SCIENTIFIC, 0},
    {"worst_case", "where", COLUMN_WORD, 0},
    {"worst_mode", "mode", COLUMN_WORD, 0},
    {"worst_operand", "operand", COLUMN_WORD, 0},
    {"ok", "result", COLUMN_WORD, 0},
};
static const struct column case_columns[] = {
    {"case", "case", COLUMN_WORD, 0},         {"mode", "mode", COLUMN_WORD, 0},
    {"error", "error", COLUMN_SCIENTIFIC, 1}, {"operand", "operand", COLUMN_WORD, 0},
    {"solver", "solver", COLUMN_WORD, 0},     {"message", "message", COLUMN_WORD, 0},
    {"ok", "result", COLUMN_WORD, 0},
};

/* How one problem went in one mode. */
struct outcome {
    const char *name;
    clattn_mode mode;
    double error; /* infinite when it did not run */
    clattn_operand_id operand;
    const char *solver;  /* NULL: the reference, or none */
    const char *message; /* why it did not run, or not as it should have; NULL */
};

/* The row at hand: a rule and a type. */
struct row {
    clattn_rule rule;
    clattn_dtype dtype;
    size_t cases, failed;
    double worst;
    cJSON *object, *outcomes;
};

struct verify {
    const struct settings *settings;
    struct target target;
    clattn_mode modes[MODE_COUNT];
    size_t mode_count;
    struct row row;
    cJSON *rows;
    size_t done, total, failed;
    int counting; /* only total is wanted */
};

static const char *rule_name(clattn_rule rule)
{
    return rule_get(rule)->name;
}

static void set_worst(cJSON *object, const struct outcome *outcome)
{
    static const char *const keys[] = {"worst_error", "worst_case", "worst_mode", "worst_operand"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(object, keys[i]);
    cJSON_AddNumberToObject(object, "worst_error", outcome->error);
    cJSON_AddStringToObject(object, "worst_case", outcome->name);
    cJSON_AddStringToObject(object, "worst_mode", word_name(mode_words, (int)outcome->mode));
    if (outcome->message == NULL)
        cJSON_AddStringToObject(object, "worst_operand", operand_name(outcome->operand));
}

static void record(struct verify *verify, const struct outcome *outcome)
{
    struct row *row = &verify->row;
    double bound = check_bound(row->dtype);
    int ok = outcome->error <= bound && outcome->message == NULL;
    cJSON *object = cJSON_CreateObject();

    if (row->cases++ == 0 || outcome->error > row->worst) {
        row->worst = outcome->error;
        set_worst(row->object, outcome);
    }
    if (!ok && row->failed++ == 0)
        warn("%s %s, %s, mode %s: %s%s, error %.2e, bound %.0e", rule_name(row->rule),
             word_name(dtype_words, (int)row->dtype), outcome->name, word_name(mode_words, (int)outcome->mode),
             outcome->message != NULL ? "" : operand_name(outcome->operand),
             outcome->message != NULL ? outcome->message : "", outcome->error, bound);
    cJSON_AddStringToObject(object, "case", outcome->name);
    cJSON_AddStringToObject(object, "mode", word_name(mode_words, (int)outcome->mode));
    cJSON_AddNumberToObject(object, "error", outcome->error);
    if (outcome->message != NULL)
        cJSON_AddStringToObject(object, "message", outcome->message);
    else
        cJSON_AddStringToObject(object, "operand", operand_name(outcome->operand));
    if (outcome->solver != NULL)
        cJSON_AddStringToObject(object, "solver", outcome->solver);
    cJSON_AddBoolToObject(object, "ok", ok);
    cJSON_AddItemToArray(row->outcomes, object);
}

/* One mode of a problem whose answer is known. */
static void check_mode(struct verify *verify, struct check_tensors *tensors, const struct check_tensors *expected,
                       struct outcome *outcome)
{
    struct target *target = &verify->target;
    char plan[4096] = "";
    clattn_status status;

    tensors->desc.mode = outcome->mode;
    target->sink.error[0] = target->sink.warning[0] = '\0';
    if (target->reference)
        status = target_run(target, tensors, plan, sizeof plan);
    else
        status = check_run(tensors, &target->device, NULL, 0, sink_log, &target->sink);
    outcome->error = (double)INFINITY;
    outcome->solver = target->reference ? NULL : target->device.plan.solver;
    /* What must not pass though the results are right. */
    outcome->message = target->device.plan.rejected > 0 ? "a solver gave wrong results and another was taken" : NULL;
    if (status == CLATTN_SUCCESS)
        outcome->error = check_error(tensors, expected, &outcome->operand);
    else
        outcome->message = target->sink.error[0] != '\0' ? target->sink.error : clattn_status_text(status);
    record(verify, outcome);
    target->sink.error[0] = '\0';
}

static clattn_status check_modes(struct verify *verify, struct check_tensors *tensors, const char *name)
{
    struct outcome outcome = {.name = name};
    struct check_tensors expected;

    TRY(check_reference(&expected, tensors, sink_log, &verify->target.sink));
    for (size_t i = 0; i < verify->mode_count; i++) {
        outcome.mode = verify->modes[i];
        if (verify->settings->mode_count == 0 && !check_mode_applies(tensors->desc.rule, outcome.mode))
            continue;
        check_mode(verify, tensors, &expected, &outcome);
    }
    check_free(&expected);
    return CLATTN_SUCCESS;
}

/* One problem in every mode; the reference computes it once. c: NULL for a shape of the command line. */
static int check_problem(struct verify *verify, const clattn_plan_desc *desc, const char *name,
                         const struct check_case *c)
{
    struct sink *sink = &verify->target.sink;
    struct check_tensors tensors;
    clattn_plan_desc full;
    clattn_status status;

    if (verify->counting) {
        verify->total++;
        return EXIT_OK;
    }
    progress_show(verify->done++, verify->total, rule_name(desc->rule));
    status = clattn_plan_desc_complete(&full, desc, sink_log, sink);
    if (status == CLATTN_SUCCESS && operands_size_check(&full) != EXIT_OK)
        return EXIT_BAD;
    if (status == CLATTN_SUCCESS)
        status = check_make(&tensors, &full, verify->settings->seed + 1, c != NULL ? c->gates : CHECK_GATES_USUAL,
                            c != NULL ? c->cu_seqlens : NULL);
    if (status == CLATTN_SUCCESS) {
        status = check_modes(verify, &tensors, name);
        check_free(&tensors);
    }
    return status == CLATTN_SUCCESS ? EXIT_OK : library_error(sink, name, status);
}

/* The command line's options on top of a problem's own. */
static void apply_options(const clattn_plan_desc *from, clattn_plan_desc *desc)
{
    desc->flags |= from->flags;
    desc->chunk = from->chunk;
    if (from->gate_dtype != CLATTN_F32)
        desc->gate_dtype = from->gate_dtype;
    if (from->scale != 0)
        desc->scale = from->scale;
    if (from->feature_map != CLATTN_FEATURE_IDENTITY)
        desc->feature_map = from->feature_map;
    if (from->steps != 0)
        desc->steps = from->steps;
    if (from->slopes != CLATTN_SLOPES_LIGHTNING)
        desc->slopes = from->slopes;
    if (from->eps != 0)
        desc->eps = from->eps;
    if (from->window != 0)
        desc->window = from->window;
    if (from->layers != 0) {
        desc->layer = from->layer;
        desc->layers = from->layers;
    }
}

/* A case or a shape in every variant of the row's rule. */
static int check_variants(struct verify *verify, const clattn_plan_desc *base, const char *name,
                          const struct check_case *c)
{
    int status = EXIT_OK;

    for (int variant = 0; status == EXIT_OK; variant++) {
        clattn_plan_desc desc = *base;
        const char *option = check_variant(desc.rule, variant, &desc);
        char full_name[160];
        if (option == NULL)
            break;
        if (c != NULL && !check_case_applies(c, desc.rule, variant, desc.dtype))
            continue;
        apply_options(&verify->settings->desc, &desc);
        snprintf(full_name, sizeof full_name, "%s%s%s", name, *option != '\0' ? ", " : "", option);
        status = check_problem(verify, &desc, full_name, c);
    }
    return status;
}

static int check_problems(struct verify *verify, clattn_rule rule, clattn_dtype dtype)
{
    const struct settings *settings = verify->settings;
    int status = EXIT_OK;
    char name[128];

    for (size_t i = 0; i < settings->shape_count && status == EXIT_OK; i++) {
        clattn_plan_desc desc = {.rule = rule, .dtype = dtype, .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE};
        shape_apply(&desc, &settings->shapes[i], &(struct shape){.batch = 1});
        status = check_variants(verify, &desc, shape_name(&desc, name, sizeof name), NULL);
    }
    for (size_t i = 0; i < check_case_count && settings->shape_count == 0 && status == EXIT_OK; i++) {
        clattn_plan_desc desc = check_case_desc(&check_cases[i], rule, dtype, CLATTN_MODE_AUTO);
        status = check_variants(verify, &desc, check_cases[i].name, &check_cases[i]);
    }
    return status;
}

static int check_row(struct verify *verify, clattn_rule rule, clattn_dtype dtype)
{
    struct row *row = &verify->row;
    int status;

    if (verify->counting)
        return check_problems(verify, rule, dtype);
    *row = (struct row){.rule = rule, .dtype = dtype, .object = cJSON_CreateObject(), .outcomes = cJSON_CreateArray()};
    cJSON_AddItemToArray(verify->rows, row->object);
    cJSON_AddStringToObject(row->object, "rule", rule_name(rule));
    cJSON_AddStringToObject(row->object, "dtype", word_name(dtype_words, (int)dtype));
    status = check_problems(verify, rule, dtype);
    cJSON_AddNumberToObject(row->object, "cases", (double)row->cases);
    cJSON_AddNumberToObject(row->object, "failed", (double)row->failed);
    cJSON_AddNumberToObject(row->object, "bound", check_bound(dtype));
    cJSON_AddBoolToObject(row->object, "ok", row->failed == 0 && row->cases > 0);
    cJSON_AddItemToObject(row->object, "outcomes", row->outcomes);
    verify->failed += row->failed;
    return status;
}

static int check_rows(struct verify *verify, int counting)
{
    const struct settings *settings = verify->settings;
    int status = EXIT_OK;

    verify->counting = counting;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        int wanted = settings->rule_count == 0;
        for (size_t i = 0; i < settings->rule_count; i++)
            wanted |= settings->rules[i] == rule;
        for (clattn_dtype dtype = CLATTN_F32; dtype <= CLATTN_BF16 && wanted && status == EXIT_OK; dtype++) {
            int listed = settings->dtype_count == 0;
            for (size_t i = 0; i < settings->dtype_count; i++)
                listed |= settings->dtypes[i] == dtype;
            if (listed)
                status = check_row(verify, rule, dtype);
        }
    }
    return status;
}

static void print_cases(const cJSON *rows)
{
    const cJSON *row;

    cJSON_ArrayForEach(row, rows)
    {
        cJSON *outcomes = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(row, "outcomes"), 1);
        progress_clear();
        printf("%s %s\n", cJSON_GetObjectItemCaseSensitive(row, "rule")->valuestring,
               cJSON_GetObjectItemCaseSensitive(row, "dtype")->valuestring);
        table_print(outcomes, case_columns, sizeof case_columns / sizeof *case_columns, FORMAT_TEXT);
        putchar('\n');
    }
}

/* Deletes the rows. */
static int print_results(struct verify *verify)
{
    cJSON *object;

    progress_clear();
    if (verify->settings->format != FORMAT_JSON) {
        if (verify->settings->verbose)
            print_cases(verify->rows);
        printf("device: %s\n", target_name(&verify->target));
        return table_print(verify->rows, row_columns, sizeof row_columns / sizeof *row_columns, FORMAT_TEXT);
    }
    object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "device", target_name(&verify->target));
    cJSON_AddStringToObject(object, "driver", verify->target.info.driver);
    cJSON_AddBoolToObject(object, "ok", verify->failed == 0);
    cJSON_AddItemToObject(object, "results", verify->rows);
    return json_print(object);
}

int verify_main(struct settings *settings)
{
    struct verify verify = {.settings = settings, .mode_count = settings->mode_count};
    int status = EXIT_OK;

    for (size_t i = 0; i < settings->shape_count && status == EXIT_OK; i++)
        status = shape_check(&settings->shapes[i], 0);
    if (status == EXIT_OK)
        status = target_open(&verify.target, settings->device);
    for (size_t i = 0; i < MODE_COUNT; i++)
        verify.modes[i] = settings->mode_count > 0 ? settings->modes[i] : (clattn_mode)i;
    if (verify.mode_count == 0)
        verify.mode_count = verify.target.reference ? 1 : MODE_COUNT;
    if (status == EXIT_OK && settings->device == NULL && verify.target.reference)
        status = failed("verify needs an OpenCL device, or --device reference to check the reference's own rounding");
    if (status == EXIT_OK) {
        verify.rows = cJSON_CreateArray();
        check_rows(&verify, 1);
        status = check_rows(&verify, 0);
    }
    if (status == EXIT_OK) {
        status = print_results(&verify);
        status = status == EXIT_OK && verify.failed > 0 ? EXIT_FAILED : status;
    } else
        cJSON_Delete(verify.rows);
    target_close(&verify.target);
    return status;
}
