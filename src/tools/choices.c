/* clattn_choices [--all] FACTS...: what plans are made of on the devices of facts files (tune/device_facts.h): solver,
 * kernels and tiles of every rule in many sizes. A line for each device, engine and rule has the hash of all that was
 * chosen; with --all there is a line for each case, for `diff` to tell two builds apart. A file that names a device's
 * engine is taken without and with it, and what the shipped table has measured of its name counts. No OpenCL is
 * needed: see noted_opencl.h. */
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "check/check.h"
#include "op/problem.h"
#include "plan/plan.h"
#include "tools/noted_opencl.h"
#include "tune/device_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is being asked, and what came of it so far. */
struct asked {
    clattn_context *context;
    char facts[64]; /* the file's name without folder and ending */
    int all;        /* whether each case is printed */
    clattn_rule rule;
    const char *variant; /* "": none */
    struct hash hash;    /* of the rule's cases */
    int cases;           /* of the rule */
};

/* ---- One case ----------------------------------------------------------------------------------------------------- */

/* The plan's text without the problem and the workspace, in one line. */
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

static void add_case(struct text *line, const struct asked *asked, const clattn_plan_desc *d)
{
    static const char *const modes[] = {"", " recurrent", " chunk"};
    const struct engine *engine = asked->context->engine;

    text_format(line, "%s %s %s%s%s, %s%s T=%lld H=%lld K=%lld V=%lld", asked->facts,
                engine != NULL ? engine->name : "none", rule_get(asked->rule)->name, *asked->variant ? ", " : "",
                asked->variant, dtype_name(d->dtype), modes[d->mode], (long long)d->seq_len, (long long)d->heads,
                (long long)d->key_dim, (long long)d->value_dim);
    if (d->kv_len != 0)
        text_format(line, " TK=%lld HK=%lld tail=%lld", (long long)d->kv_len, (long long)d->kv_heads,
                    (long long)d->tail);
    if (d->flags & CLATTN_CU_SEQLENS)
        text_format(line, " sequences=%lld", (long long)d->sequences);
}

static void ask(struct asked *asked, const clattn_plan_desc *desc)
{
    struct text line = {0};
    clattn_plan *plan = NULL;
    clattn_status status = clattn_plan_create(&plan, asked->context, desc);
    char *whole;

    add_case(&line, asked, desc);
    if (status == CLATTN_SUCCESS)
        add_choice(&line, plan);
    else
        text_format(&line, ": no plan, %s", clattn_status_text(status));
    clattn_plan_destroy(plan);
    whole = text_take(&line);
    if (whole != NULL && asked->all)
        puts(whole);
    asked->hash = hash_text(asked->hash, whole != NULL ? whole : "out of memory");
    asked->cases++;
    free(whole);
}

/* The rule's variant of that number, of a problem; whether there is such a variant. */
static int ask_variant(struct asked *asked, int variant, clattn_plan_desc desc)
{
    asked->variant = check_variant(asked->rule, variant, &desc);
    if (asked->variant != NULL)
        ask(asked, &desc);
    return asked->variant != NULL;
}

/* ---- The cases of a rule ------------------------------------------------------------------------------------------ */

enum { HEADS = 32, FEW_HEADS = 4, TOKENS = 1024, KEYS = 4096, DIM = 128 };

static clattn_plan_desc usual(const struct asked *asked, clattn_dtype dtype)
{
    return (clattn_plan_desc){.rule = asked->rule,
                              .dtype = dtype,
                              .gate_dtype = dtype == CLATTN_F16 ? CLATTN_F16 : CLATTN_F32,
                              .batch = 1,
                              .seq_len = TOKENS,
                              .heads = HEADS,
                              .key_dim = rule_get(asked->rule)->decay == DECAY_PRODUCT ? 16 : DIM,
                              .value_dim = DIM,
                              .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE};
}

static void ask_lengths(struct asked *asked, clattn_dtype dtype)
{
    static const int64_t lengths[] = {1, 64, 1024, 8192}, heads[] = {FEW_HEADS, HEADS};

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof heads / sizeof *heads; j++) {
            clattn_plan_desc desc = usual(asked, dtype);
            desc.seq_len = lengths[i];
            desc.heads = heads[j];
            ask_variant(asked, 0, desc);
        }
}

static void ask_dims(struct asked *asked, clattn_dtype dtype)
{
    static const int64_t dims[][2] = {{64, 64}, {60, 100}, {256, 256}};

    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        clattn_plan_desc desc = usual(asked, dtype);
        if (rule_get(asked->rule)->decay != DECAY_PRODUCT)
            desc.key_dim = dims[i][0];
        desc.value_dim = dims[i][1];
        ask_variant(asked, 0, desc);
    }
}

static void ask_modes(struct asked *asked, clattn_dtype dtype)
{
    for (clattn_mode mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++) {
        clattn_plan_desc desc = usual(asked, dtype);
        desc.mode = mode;
        if (check_mode_applies(asked->rule, mode))
            ask_variant(asked, 0, desc);
    }
}

static void ask_packed(struct asked *asked, clattn_dtype dtype)
{
    clattn_plan_desc desc = usual(asked, dtype);

    desc.flags |= CLATTN_CU_SEQLENS;
    desc.sequences = 4;
    ask_variant(asked, 0, desc);
}

/* One query of many keys, of which heads share some; and, of path_attn, of keys that are turned already. */
static void ask_decode(struct asked *asked, clattn_dtype dtype)
{
    clattn_plan_desc desc = usual(asked, dtype);

    if (!rule_has_list(rule_get(asked->rule)))
        return;
    desc.seq_len = 1;
    desc.kv_len = KEYS;
    desc.kv_heads = HEADS / 4;
    ask_variant(asked, 0, desc);
    if (asked->rule != CLATTN_PATH_ATTN)
        return;
    desc.flags |= CLATTN_CARRY;
    desc.tail = 16;
    ask_variant(asked, 0, desc);
}

static void ask_rule(struct asked *asked, clattn_rule rule)
{
    static const clattn_dtype dtypes[] = {CLATTN_F32, CLATTN_BF16};
    char digits[HASH_DIGITS];
    const struct engine *engine = asked->context->engine;

    asked->rule = rule;
    asked->hash = (struct hash){0, 0};
    asked->cases = 0;
    for (clattn_dtype dtype = CLATTN_F32; dtype <= CLATTN_BF16; dtype++)
        ask_lengths(asked, dtype);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        ask_dims(asked, dtypes[i]);
        ask_modes(asked, dtypes[i]);
        ask_packed(asked, dtypes[i]);
        ask_decode(asked, dtypes[i]);
    }
    for (int variant = 1; ask_variant(asked, variant, usual(asked, CLATTN_BF16)); variant++)
        ;
    if (!asked->all)
        printf("%s %s %s: %d cases, %s\n", asked->facts, engine != NULL ? engine->name : "none", rule_get(rule)->name,
               asked->cases, hash_name(asked->hash, digits));
}

/* ---- Devices ------------------------------------------------------------------------------------------------------ */

/* What a device has that a facts file says nothing of. */
static const struct device unbounded = {.info = {.gpu = 1,
                                                 .compute_units = 64,
                                                 .max_work_group = 4096,
                                                 .local_memory = 1 << 20,
                                                 .global_memory = (uint64_t)256 << 30,
                                                 .max_allocation = (uint64_t)256 << 30}};

static void copy_text(char *to, size_t size, const cJSON *facts, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(facts, key));

    if (text != NULL)
        snprintf(to, size, "%s", text);
}

/* Who the device is, by which measured tiles are found; the name of its engine; and registers. */
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

static void ask_rules(struct asked *asked, const struct device *device, const struct engine *engine)
{
    struct tuning_layers tuning = {.path = NULL};
    struct noted noted = {.kernel = NULL};
    clattn_context context;
    const struct opencl *functions;

    noted_open(&context, &noted, &tuning);
    functions = context.device.cl;
    context.device = *device;
    context.device.cl = functions;
    if (engine != NULL)
        noted_set_engine(&context, engine);
    tuning_layers_load(&tuning, NULL, device, &context.log);
    asked->context = &context;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        ask_rule(asked, rule);
    noted_close(&context, &noted);
    tuning_layers_free(&tuning);
}

static void name_facts(struct asked *asked, const char *path)
{
    const char *name = strrchr(path, '/');

    name = name != NULL ? name + 1 : path;
    snprintf(asked->facts, sizeof asked->facts, "%.*s", (int)strcspn(name, "."), name);
}

/* Without the engine that the file names, and with it; whether all was asked. */
static int ask_file(struct asked *asked, const char *path)
{
    const struct log log = {.fn = print_log};
    struct device device = unbounded;
    char name[32] = "none";
    const struct engine *engine;

    if (device_facts_read(path, &device, &log) != CLATTN_SUCCESS)
        return 0;
    read_identity(path, &device, name);
    name_facts(asked, path);
    ask_rules(asked, &device, NULL);
    engine = engine_get(name);
    if (engine != NULL)
        ask_rules(asked, &device, engine);
    if (engine != NULL || strcmp(name, "none") == 0)
        return 1;
    log_line(&log, CLATTN_LOG_ERROR, "%s: no matrix engine is named %s; there are %s", path, name, engine_names());
    return 0;
}

int main(int argc, char **argv)
{
    struct asked asked = {.all = argc > 1 && strcmp(argv[1], "--all") == 0};
    int failed = 0;

    if (argc < 2 + asked.all) {
        fprintf(stderr, "usage: clattn_choices [--all] FACTS...\n");
        return 2;
    }
    for (int i = 1 + asked.all; i < argc; i++)
        failed |= !ask_file(&asked, argv[i]);
    return failed;
}
