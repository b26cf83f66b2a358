/* clattn_choices [--all] FACTS...: prints which solver, kernels and tiles plans choose on the devices of facts files
 * (tune/device_facts.h), for every rule in many sizes. For each device, engine and rule there is a line with the hash
 * of all choices; with --all a line for each case, so that `diff` can compare two builds. A file that names a matrix
 * engine is used without and with it. Parameters that were measured for the device's name apply. No OpenCL is needed
 * (recording_opencl.h). */
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "check/check.h"
#include "op/problem.h"
#include "plan/plan.h"
#include "tools/recording_opencl.h"
#include "tune/device_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The current device and rule, and the choices until now. */
struct survey {
    clattn_context *context;
    char facts[64]; /* the file's name without folder and extension */
    int all;        /* print each case */
    clattn_rule rule;
    const char *variant; /* "": none */
    struct hash hash;    /* of the rule's cases */
    int cases;           /* of the rule */
};

/* ---- One case ---------------------------------------------------------------------------------------------------- */

/* Adds the plan's text in one line, without the problem and the workspace. */
static void add_choice(struct text *line, const clattn_plan *plan)
{
    char *text = plan_text(plan), *at = text != NULL ? strchr(text, '\n') : NULL;
    const char *between = ": ";

    line->failed |= text == NULL;
    while (at != NULL && *++at != '\0') {
        char *end = strchr(at, '\n');
        at += strspn(at, " ");
        if (strncmp(at, "workspace", strlen("workspace")) != 0) {
            text_format(line, "%s%.*s", between, (int)(end != NULL ? (size_t)(end - at) : strlen(at)), at);
            between = "; ";
        }
        at = end;
    }
    free(text);
}

static void add_case(struct text *line, const struct survey *survey, const clattn_plan_desc *d)
{
    static const char *const modes[] = {"", " recurrent", " chunk"};
    const struct engine *engine = survey->context->engine;

    text_format(line, "%s %s %s%s%s, %s%s T=%lld H=%lld K=%lld V=%lld", survey->facts,
                engine != NULL ? engine->name : "none", rule_get(survey->rule)->name, *survey->variant ? ", " : "",
                survey->variant, dtype_name(d->dtype), modes[d->mode], (long long)d->seq_len, (long long)d->heads,
                (long long)d->key_dim, (long long)d->value_dim);
    if (d->kv_len != 0)
        text_format(line, " TK=%lld HK=%lld tail=%lld", (long long)d->kv_len, (long long)d->kv_heads,
                    (long long)d->tail);
    if (d->flags & CLATTN_CU_SEQLENS)
        text_format(line, " sequences=%lld", (long long)d->sequences);
}

static void survey_problem(struct survey *survey, const clattn_plan_desc *desc)
{
    struct text line = {0};
    clattn_plan *plan = NULL;
    clattn_status status = clattn_plan_create(&plan, survey->context, desc);
    char *whole;

    add_case(&line, survey, desc);
    if (status == CLATTN_SUCCESS)
        add_choice(&line, plan);
    else
        text_format(&line, ": no plan, %s", clattn_status_text(status));
    clattn_plan_destroy(plan);
    whole = text_take(&line);
    if (whole != NULL && survey->all)
        puts(whole);
    survey->hash = hash_text(survey->hash, whole != NULL ? whole : "out of memory");
    survey->cases++;
    free(whole);
}

/* Surveys a problem with the rule's variant of that number. Returns whether there is one. */
static int survey_variant(struct survey *survey, int variant, clattn_plan_desc desc)
{
    survey->variant = check_variant(survey->rule, variant, &desc);
    if (survey->variant != NULL)
        survey_problem(survey, &desc);
    return survey->variant != NULL;
}

/* ---- The cases of a rule ----------------------------------------------------------------------------------------- */

enum { HEADS = 32, FEW_HEADS = 4, TOKENS = 1024, KEYS = 4096, DIM = 128 };

static clattn_plan_desc default_desc(const struct survey *survey, clattn_dtype dtype)
{
    return (clattn_plan_desc){.rule = survey->rule,
                              .dtype = dtype,
                              .gate_dtype = dtype == CLATTN_F16 ? CLATTN_F16 : CLATTN_F32,
                              .batch = 1,
                              .seq_len = TOKENS,
                              .heads = HEADS,
                              .key_dim = rule_get(survey->rule)->decay == DECAY_PRODUCT ? 16 : DIM,
                              .value_dim = DIM,
                              .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE};
}

static void survey_lengths(struct survey *survey, clattn_dtype dtype)
{
    static const int64_t lengths[] = {1, 64, 1024, 8192}, heads[] = {FEW_HEADS, HEADS};

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof heads / sizeof *heads; j++) {
            clattn_plan_desc desc = default_desc(survey, dtype);
            desc.seq_len = lengths[i];
            desc.heads = heads[j];
            survey_variant(survey, 0, desc);
        }
}

static void survey_dims(struct survey *survey, clattn_dtype dtype)
{
    static const int64_t dims[][2] = {{64, 64}, {60, 100}, {256, 256}};

    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        clattn_plan_desc desc = default_desc(survey, dtype);
        if (rule_get(survey->rule)->decay != DECAY_PRODUCT)
            desc.key_dim = dims[i][0];
        desc.value_dim = dims[i][1];
        survey_variant(survey, 0, desc);
    }
}

static void survey_modes(struct survey *survey, clattn_dtype dtype)
{
    for (clattn_mode mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++) {
        clattn_plan_desc desc = default_desc(survey, dtype);
        desc.mode = mode;
        if (check_mode_applies(survey->rule, mode))
            survey_variant(survey, 0, desc);
    }
}

static void survey_packed(struct survey *survey, clattn_dtype dtype)
{
    clattn_plan_desc desc = default_desc(survey, dtype);

    desc.flags |= CLATTN_CU_SEQLENS;
    desc.sequences = 4;
    survey_variant(survey, 0, desc);
}

/* One query with many keys that several heads share; for path_attn also with keys that are carried already. */
static void survey_decode(struct survey *survey, clattn_dtype dtype)
{
    clattn_plan_desc desc = default_desc(survey, dtype);

    if (!rule_has_list(rule_get(survey->rule)))
        return;
    desc.seq_len = 1;
    desc.kv_len = KEYS;
    desc.kv_heads = HEADS / 4;
    survey_variant(survey, 0, desc);
    if (survey->rule != CLATTN_PATH_ATTN)
        return;
    desc.flags |= CLATTN_CARRY;
    desc.tail = 16;
    survey_variant(survey, 0, desc);
}

static void survey_rule(struct survey *survey, clattn_rule rule)
{
    static const clattn_dtype dtypes[] = {CLATTN_F32, CLATTN_BF16};
    char digits[HASH_DIGITS];
    const struct engine *engine = survey->context->engine;

    survey->rule = rule;
    survey->hash = (struct hash){0, 0};
    survey->cases = 0;
    for (clattn_dtype dtype = CLATTN_F32; dtype <= CLATTN_BF16; dtype++)
        survey_lengths(survey, dtype);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        survey_dims(survey, dtypes[i]);
        survey_modes(survey, dtypes[i]);
        survey_packed(survey, dtypes[i]);
        survey_decode(survey, dtypes[i]);
    }
    for (int variant = 1; survey_variant(survey, variant, default_desc(survey, CLATTN_BF16)); variant++)
        ;
    if (!survey->all)
        printf("%s %s %s: %d cases, %s\n", survey->facts, engine != NULL ? engine->name : "none", rule_get(rule)->name,
               survey->cases, hash_name(survey->hash, digits));
}

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

/* Limits for what a facts file does not mention. */
static const struct device unbounded = {.info = {.gpu = 1,
                                                 .compute_units = 64,
                                                 .max_work_group = 4096,
                                                 .local_memory = 1 << 20,
                                                 .global_memory = (uint64_t)256 << 30,
                                                 .max_allocation = (uint64_t)256 << 30}};

static void copy_text(char *to, size_t size, const cJSON *facts, const char *key)
{
    const char *text = json_string(facts, key);

    if (text != NULL)
        snprintf(to, size, "%s", text);
}

/* Reads the device's identity, which measured parameters are found by, the name of its engine, and its registers. */
static void read_identity(const char *path, struct device *device, char engine[32])
{
    enum { LARGEST_FILE = 1 << 20 };
    size_t size;
    char *text = file_read(path, LARGEST_FILE, &size);
    cJSON *root = text != NULL ? json_parse(text) : NULL;
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(root, "device"), *facts = cJSON_IsObject(own) ? own : root;
    const cJSON *registers = cJSON_GetObjectItemCaseSensitive(facts, "registers");

    copy_text(device->info.name, sizeof device->info.name, facts, "name");
    copy_text(device->info.driver, sizeof device->info.driver, facts, "driver");
    copy_text(device->vendor, sizeof device->vendor, facts, "vendor");
    copy_text(engine, 32, facts, "engine");
    if (cJSON_IsNumber(registers))
        device->registers = registers->valueint;
    cJSON_Delete(root);
    free(text);
}

static void print_log(void *user, clattn_log_level level, const char *message)
{
    (void)user, (void)level;
    fprintf(stderr, "clattn_choices: %s\n", message);
}

static void survey_rules(struct survey *survey, const struct device *device, const struct engine *engine)
{
    struct tuning_layers tuning = {.path = NULL};
    struct recording recording = {.kernel = NULL};
    clattn_context context;
    const struct opencl *functions;

    recording_open(&context, &recording, &tuning);
    functions = context.device.cl;
    context.device = *device;
    context.device.cl = functions;
    if (engine != NULL)
        recording_set_engine(&context, engine);
    tuning_layers_load(&tuning, NULL, 0, device, &context.log);
    survey->context = &context;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        survey_rule(survey, rule);
    recording_close(&context, &recording);
    tuning_layers_free(&tuning);
}

static void name_facts(struct survey *survey, const char *path)
{
    const char *name = strrchr(path, '/');

    name = name != NULL ? name + 1 : path;
    snprintf(survey->facts, sizeof survey->facts, "%.*s", (int)strcspn(name, "."), name);
}

/* Without the engine that the file names, then with it. Returns 0 if something failed. */
static int survey_file(struct survey *survey, const char *path)
{
    const struct log log = {.fn = print_log};
    struct device device = unbounded;
    char name[32] = "none";
    const struct engine *engine;

    if (device_facts_read(path, &device, &log) != CLATTN_SUCCESS)
        return 0;
    read_identity(path, &device, name);
    name_facts(survey, path);
    survey_rules(survey, &device, NULL);
    engine = engine_get(name);
    if (engine != NULL)
        survey_rules(survey, &device, engine);
    if (engine != NULL || strcmp(name, "none") == 0)
        return 1;
    log_line(&log, CLATTN_LOG_ERROR, "%s: no matrix engine is named %s; there are %s", path, name, engine_names());
    return 0;
}

int main(int argc, char **argv)
{
    struct survey survey = {.all = argc > 1 && strcmp(argv[1], "--all") == 0};
    int failed = 0;

    if (argc < 2 + survey.all) {
        fprintf(stderr, "usage: clattn_choices [--all] FACTS...\n");
        return 2;
    }
    for (int i = 1 + survey.all; i < argc; i++)
        failed |= !survey_file(&survey, argv[i]);
    return failed;
}
