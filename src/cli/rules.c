/* clattn rules: what the rule table says, in words. */
#include "cli/cli.h"
#include "cli/origin.h"
#include "cli/table.h"
#include "op/problem.h"
#include "op/rule.h"
#include "tune/tuning_layers.h"

#include <stdio.h>
#include <string.h>

/* What a flag or knob is called on the command line. */
static const struct {
    uint32_t flag, knob;
    const char *text;
} options[] = {
    {CLATTN_NORMALIZE, 0, "--normalize"},
    {0, RULE_TAKES_FEATURE_MAP, "--feature-map identity|elu1|relu"},
    {0, RULE_TAKES_STEPS, "--option steps=N"},
    {0, RULE_TAKES_LAYER, "--option layer=N, --option layers=N, --option slopes=lightning|minimax"},
    {0, RULE_TAKES_EPS, "--option eps=X"},
    {0, RULE_TAKES_GATE_MAP, "--option gate_map=softplus|sigmoid|logsigmoid|exp, --option gate_scale=X"},
    {0, RULE_TAKES_BETA_MAP, "--option beta_map=sigmoid|twice-sigmoid"},
    {0, RULE_TAKES_STEP_MAP, "--option beta_map=softplus"},
    {CLATTN_WITH_A_LOG, 0, "--option a_log=on"},
    {CLATTN_GATE_PER_HEAD, 0, "--option gate=head"},
    {CLATTN_VALUE_GATE, 0, "--option value_gate=on"},
    {CLATTN_UNGATED, 0, "--option ungated=on"},
    {CLATTN_WITH_SINK, 0, "--option sink=on"},
    {CLATTN_WITH_LSE, 0, "--option lse=on, --option window=N"},
    {CLATTN_WITH_KV_LENS, 0, "--option kv_lens=on"},
    {CLATTN_APPEND, 0, "--option append=on"},
    {0, RULE_TAKES_TAIL, "--option tail=N, --option absolute=on"},
    {CLATTN_CARRY, 0, "--option carry=on"},
    {0, RULE_TAKES_KERNEL, "--option kernel=softmax|linear|relu|round|floor"},
    {0, RULE_TAKES_WRITE_KERNEL, "--option write_kernel=softmax|linear|relu|round|floor"},
    {CLATTN_WITH_P, 0, "--option p=on"},
    {CLATTN_WITH_BETA, 0, "--option beta=on"},
    {CLATTN_WITH_WRITTEN, 0, "--option written=on"},
    {CLATTN_SOFTPLUS, 0, "--option softplus=on"},
    {CLATTN_WITH_DT_BIAS, 0, "--option dt_bias=on"},
    {CLATTN_WITH_D, 0, "--option d=on"},
    {CLATTN_WITH_Z, 0, "--option z=on"},
    {CLATTN_COMPLEX, 0, "--option complex=on"},
    {0, RULE_TAKES_TAPS, "--option taps=N, --option activation=silu|none, --option with_bias=on, --option residual=on"},
    {0, RULE_TAKES_NORM,
     "--option weighting=shared|heads|none, --option gating=after|before|sigmoid, --option centered=on, "
     "--option eps_outside=on"},
    {CLATTN_WITH_ROPE, 0, "--option rope=on with the options of rope"},
    {0, RULE_TAKES_ROPE,
     "--option rope_dim=N, --option rope_base=X, --option interleaved=on, --option with_position=on, "
     "--option turned_back=on"},
    {0, RULE_TAKES_FEATURES, "--option features=favor|rfa|hedgehog, --option of_queries=on"},
    {0, RULE_TAKES_LEARNING,
     "--option hidden_dim=N, --option mini_batch=N, --option muon=five|keller, --option pre_norm=on, --option "
     "with_momentum=on"},
    {CLATTN_NONCAUSAL, 0, "--option noncausal=on"}};

/* What surprises those who know the originals. The same stands in clattn.h, behind the list of rules. */
static const struct {
    clattn_rule rule;
    const char *text;
} notes[] = {
    {CLATTN_DELTAFORMER,
     "without p it is k, as in the paper; flash-linear-attention's u is of softmax(q.k): give p = q"},
    {CLATTN_PATH_ATTN, "the gate is within the scale, as in flash-linear-attention; that of forgetting_attn is not"},
    {CLATTN_FORGETTING_ATTN, "the gate is added to scale q.k and not scaled itself; path_attn scales its own"},
    {CLATTN_FEATURES,
     "favor takes no maximum from the exponents of keys, of queries with of_queries=on the row's; eps is "
     "added after e^(y - |x|^2/2)"},
    {CLATTN_LACT, "muon=none adds the step as it is; its authors' muon_update_steps = 0 divides it by its norm"},
    {CLATTN_MAMBA, "more than 256 channels are heads of 256 with HQ=1"},
    {CLATTN_MAMBA, "S4D's zero-order hold is complex=on with k = (e^(dt a) - 1) / (a dt), times its B"},
    {CLATTN_MAMBA, "Falcon-Mamba normalises B, C and dt, q and k here: rms_norm does, ahead of this rule"},
};

static const char *const storage_names[] = {
    [STORE_DATA] = "data", [STORE_GATE] = "gate",        [STORE_MATRIX] = "f32",
    [STORE_STATE] = "f32", [STORE_INDEX] = "i32 or i64", [STORE_LENGTH] = "i32"};

enum { MAX_SHAPE_TEXT = 96 };

/* An operand over all the flags that a rule takes. */
struct summary {
    struct operand_row row;
    int uses;                    /* in how many of the flag sets */
    char shapes[MAX_SHAPE_TEXT]; /* "[B,T,H] or [H]" */
};

/* What users call it */
static const char *letter_name(const char *letter)
{
    static const char *const names[][2] = {{"Q", "HQ"}, {"P", "N+1"}, {"X", "TK"},  {"E", "TK"},  {"Y", "HK"},
                                           {"G", "H"},  {"L", "HQ"},  {"Z", "K*V"}, {"U", "V/2"}, {"J", "W"},
                                           {"R", "W"},  {"F", "m"},   {"D", "F"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (*letter == *names[i][0])
            return names[i][1];
    return letter;
}

/* "BSQK" as "[B,T*n,HQ,K]" */
static void shape_text(const char *dims, int steps, int list, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");

    for (const char *letter = dims; *letter != '\0' && used < size; letter++) {
        const char one[2] = {*letter, '\0'};
        int writes = *letter == 'S' || (*letter == 'C' && !list);
        const char *name = writes ? (steps ? "T*n" : "T") : *letter == 'C' ? "TK" : letter_name(one);
        used += (size_t)snprintf(text + used, size - used, "%s%s", letter > dims ? "," : "", name);
    }
    if (used < size)
        snprintf(text + used, size - used, "]");
}

static void add_use(struct summary *summary, const struct operand_row *row, int steps, int list)
{
    char shape[MAX_SHAPE_TEXT];
    size_t used = strlen(summary->shapes);

    shape_text(row->dims, steps, list, shape, sizeof shape);
    summary->row = *row;
    summary->uses++;
    if (strstr(summary->shapes, shape) == NULL)
        snprintf(summary->shapes + used, sizeof summary->shapes - used, "%s%s", used > 0 ? " or " : "", shape);
}

/* Every operand of the rule under no flag and under each of its own alone; returns the number of those flag sets. */
static int summarize(clattn_rule rule, struct summary summaries[OPERAND_COUNT])
{
    const struct rule *row = rule_get(rule);
    const uint32_t states = rule_has_state(row) ? CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE : 0;
    const uint32_t common[] = {0,
                               states,
                               states | CLATTN_STATE_VK,
                               CLATTN_CU_SEQLENS,
                               rule_has_matrix(row) ? CLATTN_WITH_ATTN : 0,
                               rule_has_state(row) ? states | CLATTN_WITH_STATE_INDICES : 0};
    enum { COMMON = sizeof common / sizeof *common };
    int sets = 0;

    memset(summaries, 0, OPERAND_COUNT * sizeof *summaries);
    for (uint32_t i = 0; i < COMMON + 32; i++) {
        uint32_t flags = i < COMMON ? common[i] : (rule_flags(row) & (UINT32_C(1) << (i - COMMON)));
        clattn_plan_desc desc = {.rule = rule, .flags = flags == CLATTN_NORMALIZE ? flags | states : flags};
        desc.state_window = i == COMMON - 1 && row->read != READ_STABILIZED;
        desc.with_bias = i == 1 && (row->knobs & RULE_TAKES_TAPS);
        desc.with_momentum = i == 1 && (row->knobs & RULE_TAKES_LEARNING);
        desc.with_position = (i == 3 && (row->knobs & RULE_TAKES_ROPE)) || (flags & CLATTN_WITH_ROPE);
        struct operand_row rows[OPERAND_COUNT];
        int count = i == 0 || flags != 0 ? rule_operands(&desc, rows) : 0;
        sets += count > 0;
        for (int n = 0; n < count; n++)
            add_use(&summaries[rows[n].id], &rows[n], (row->knobs & RULE_TAKES_STEPS) != 0, rule_has_list(row));
    }
    return sets;
}

static cJSON *make_operands(clattn_rule rule)
{
    struct summary summaries[OPERAND_COUNT];
    int sets = summarize(rule, summaries);
    cJSON *operands = cJSON_CreateArray();

    for (int id = 1; id < OPERAND_COUNT; id++) {
        const char *name = operand_name((clattn_operand_id)id);
        cJSON *operand;
        if (summaries[id].uses == 0)
            continue;
        operand = cJSON_CreateObject();
        cJSON_AddStringToObject(operand, "name", name);
        cJSON_AddStringToObject(operand, "shape", summaries[id].shapes);
        cJSON_AddStringToObject(operand, "storage", storage_names[summaries[id].row.storage]);
        cJSON_AddBoolToObject(operand, "required", summaries[id].uses == sets);
        cJSON_AddBoolToObject(operand, "output", operand_is_output((clattn_operand_id)id));
        cJSON_AddItemToArray(operands, operand);
    }
    return operands;
}

static cJSON *make_words(const char *words)
{
    cJSON *array = cJSON_CreateArray();
    char word[64];

    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, words);
        cJSON_AddItemToArray(array, cJSON_CreateString(word));
        words += length + strspn(words + length, " ");
    }
    return array;
}

static cJSON *make_options(const struct rule *rule)
{
    cJSON *array = cJSON_CreateArray();

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if ((rule_flags(rule) & options[i].flag) || (rule->knobs & options[i].knob))
            cJSON_AddItemToArray(array, cJSON_CreateString(options[i].text));
    return array;
}

static cJSON *make_notes(clattn_rule rule)
{
    cJSON *array = cJSON_CreateArray();

    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (notes[i].rule == rule)
            cJSON_AddItemToArray(array, cJSON_CreateString(notes[i].text));
    return array;
}

/* Under which name `clattn tune` has it, with those whose kernels are nearly the same. */
static void add_group(cJSON *object, clattn_rule rule)
{
    const clattn_plan_desc desc = {.rule = rule, .seq_len = 1, .heads = 1, .key_dim = 1, .value_dim = 2};
    struct problem problem;
    char group[32];

    if (problem_init(&problem, &desc, NULL) == CLATTN_SUCCESS)
        cJSON_AddStringToObject(object, "group", tuning_group(&problem, group));
}

static cJSON *make_rule(clattn_rule rule)
{
    cJSON *object = cJSON_CreateObject();
    clattn_rule_info info;

    clattn_rule_describe(rule, &info);
    cJSON_AddStringToObject(object, "name", info.name);
    cJSON_AddItemToObject(object, "aliases", make_words(info.aliases));
    cJSON_AddStringToObject(object, "recurrence", info.recurrence);
    cJSON_AddStringToObject(object, "paper", info.paper);
    add_group(object, rule);
    cJSON_AddItemToObject(object, "options", make_options(rule_get(rule)));
    cJSON_AddItemToObject(object, "notes", make_notes(rule));
    cJSON_AddItemToObject(object, "operands", make_operands(rule));
    return object;
}

static const char *text_of(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static void print_words(const cJSON *rule, const char *key, const char *title)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(rule, key), *item;

    if (cJSON_GetArraySize(array) == 0)
        return;
    printf("  %-12s", title);
    cJSON_ArrayForEach(item, array) printf("%s%s", item == array->child ? "" : ", ", item->valuestring);
    putchar('\n');
}

static void print_notes(const cJSON *rule)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(rule, "notes"))
        printf("  %-12s%s\n", "note", item->valuestring);
}

static void print_operands(const cJSON *rule, const char *title, int required, int output)
{
    const cJSON *item;
    const char *left = title;

    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(rule, "operands"))
    {
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "required")) != required ||
            cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "output")) != output)
            continue;
        printf("  %-12s%-20s %-26s %s\n", left, text_of(item, "name"), text_of(item, "shape"),
               text_of(item, "storage"));
        left = "";
    }
}

static void print_rule(const cJSON *rule)
{
    printf("%s\n  %-12s%s\n  %-12s%s\n", text_of(rule, "name"), "recurrence", text_of(rule, "recurrence"), "paper",
           text_of(rule, "paper"));
    if (text_of(rule, "group") != NULL)
        printf("  %-12s%s\n", "tuned as", text_of(rule, "group"));
    print_words(rule, "aliases", "also");
    print_words(rule, "options", "options");
    print_notes(rule);
    print_operands(rule, "inputs", 1, 0);
    print_operands(rule, "optional", 0, 0);
    print_operands(rule, "outputs", 1, 1);
    print_operands(rule, "optional", 0, 1);
    putchar('\n');
}

/* A row a rule, as in README; JSON has its operands, too. */
static int print_table(const cJSON *rules, enum format format)
{
    static const struct column columns[] = {{"name", "rule", COLUMN_WORD, 0},
                                            {"also", "also", COLUMN_WORD, 0},
                                            {"recurrence", "recurrence", COLUMN_WORD, 0},
                                            {"paper", "source", COLUMN_WORD, 0},
                                            BUILD_COLUMNS};
    cJSON *rows = cJSON_CreateArray();
    const cJSON *rule;

    cJSON_ArrayForEach(rule, rules)
    {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "also", rule_get(clattn_rule_find(text_of(rule, "name")))->aliases);
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
            if (text_of(rule, columns[i].key) != NULL)
                cJSON_AddStringToObject(row, columns[i].key, text_of(rule, columns[i].key));
        cJSON_AddItemToArray(rows, row);
    }
    return table_print(rows, columns, sizeof columns / sizeof *columns, format);
}

int rules_main(struct settings *settings)
{
    cJSON *rules = cJSON_CreateArray();
    const cJSON *rule;

    for (size_t i = 0; i < settings->rule_count; i++)
        cJSON_AddItemToArray(rules, make_rule(settings->rules[i]));
    for (clattn_rule r = CLATTN_RULE_NONE + 1; settings->rule_count == 0 && r < RULE_COUNT; r++)
        cJSON_AddItemToArray(rules, make_rule(r));
    origin_add_all(rules, NULL);
    if (settings->format == FORMAT_JSON)
        return json_print(rules);
    if (settings->format != FORMAT_TEXT) {
        int status = print_table(rules, settings->format);
        cJSON_Delete(rules);
        return status;
    }
    puts(
        "B batch, T tokens, H value heads, HQ query/key heads, HK key/value heads, TK tokens of keys, K, V dims, "
        "N sequences, M states of a pool, W states left on the way or taps, n steps; every rule also takes --scale and "
        "--qk-l2norm; where several heads of q and o share a "
        "state, all else has HK heads in the place of HQ and H\n");
    cJSON_ArrayForEach(rule, rules) print_rule(rule);
    cJSON_Delete(rules);
    return EXIT_OK;
}
