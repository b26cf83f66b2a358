/* clattn rules: prints the rule table. */
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/io/desc_options.h"
#include "cli/out/origin.h"
#include "cli/out/rules_json.h"
#include "cli/out/table.h"
#include "cli/out/wrap.h"
#include "op/op.h"
#include "op/problem.h"
#include "op/rule.h"
#include "op/state.h"
#include "tune/tuning_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What surprises people who know the original implementations. clattn.h says the same after the list of rules. */
static const struct {
    clattn_rule rule;
    const char *text;
} notes[] = {
    {CLATTN_LIGHTNING_ATTN, "MiniMax-01 needs slopes=minimax and --scale 1"},
    {CLATTN_RWKV6, "RWKV-6 has no scale and needs --scale 1: the default is 1/sqrt(K), as in flash-linear-attention"},
    {CLATTN_MLSTM, "xLSTM needs eps=1e-6"},
    {CLATTN_COMBA, "p erases from the state before the decay, as in the paper; in precond_gated_delta_rule after it"},
    {CLATTN_PRECOND_GATED_DELTA_RULE, "p is the normalised key and k the preconditioned one; use no qk_l2norm"},
    {CLATTN_DELTAFORMER, "without p, the keys are p, as in the paper; flash-linear-attention writes u by softmax(q.k): "
                         "pass p = q for that"},
    {CLATTN_PATH_ATTN,
     "the gate is scaled, scale (q.k + b), as in flash-linear-attention; in forgetting_attn it is not"},
    {CLATTN_FORGETTING_ATTN, "the gate is not scaled, scale q.k + b; in path_attn it is"},
    {CLATTN_FEATURES, "Performer: no maximum is subtracted from the exponents of keys, and with of_queries=on that of "
                      "each row from those of queries; eps is added after the exponential"},
    {CLATTN_LACT, "muon=none adds a step unchanged; muon_update_steps = 0 of its authors divides it by its norm"},
    {CLATTN_TTT_LINEAR, "readout q is the authors'; flash-linear-attention has readout=z and --scale 1/sqrt(K)"},
    {CLATTN_TTT_MLP, "readout q is the authors'; flash-linear-attention has readout=z"},
    {CLATTN_TITANS, "the paper's loss is |z - v|^2: pass twice its theta; Atlas is omega=N with muon=five"},
    {CLATTN_MESA_NET,
     "solved where cg_steps=0; flash-linear-attention takes 30 steps, with 1e-5 added to denominators, "
     "which ends at a relative error of 2e-4 to 1e-2"},
    {CLATTN_HGRN, "--mode chunk is refused, auto works"},
    {CLATTN_LRU, "--mode chunk is refused, auto works"},
    {CLATTN_FULL_GATE, "--mode chunk is refused, auto works"},
    {CLATTN_MAMBA, "--mode chunk is refused, auto works"},
    {CLATTN_MAMBA, "more than 1024 channels are several heads with HQ=1"},
    {CLATTN_MAMBA, "S4D is a zero-order hold: complex=on with k = B (e^(dt a) - 1) / (a dt)"},
    {CLATTN_MAMBA,
     "Falcon-Mamba and Jamba normalise B, C and dt (k, q and dt here): use rms_norm before this rule, or clattn layer"},
};

static const char *const storage_names[] = {
    [STORE_DATA] = "data", [STORE_GATE] = "gate",        [STORE_MATRIX] = "f32",
    [STORE_STATE] = "f32", [STORE_INDEX] = "i32 or i64", [STORE_LENGTH] = "i32"};

enum { MAX_SHAPE_TEXT = 96 };

/* One operand of a rule over all flags that the rule takes. */
struct summary {
    struct operand_row row;
    int uses;                    /* the number of flag sets with this operand */
    int needed;                  /* the number of those that also have outputs o */
    char shapes[MAX_SHAPE_TEXT]; /* "[B,T,H] or [H]" */
};

/* The name that users see for a dim. */
static const char *letter_name(const char *letter)
{
    static const char *const names[][2] = {{"Q", "HQ"}, {"P", "N+1"}, {"X", "TK"},  {"E", "TK"},     {"Y", "HK"},
                                           {"G", "H"},  {"L", "HQ"},  {"Z", "K*V"}, {"U", "V/2"},    {"J", "W"},
                                           {"R", "W"},  {"F", "m"},   {"D", "F"},   {"A", "W*taps"}, {"I", "L"},
                                           {"O", "n"},  {"k", "K*K"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (*letter == *names[i][0])
            return names[i][1];
    return letter;
}

/* Translates "BSQK" into "[B,T*n,HQ,K]". */
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

/* A rule's operands with one option set. Returns 0 if the rule does not take the option. */
static int operands_with(clattn_rule rule, enum option_id option, struct operand_row rows[OPERAND_COUNT])
{
    const struct rule *row = rule_get(rule);
    clattn_plan_desc desc = {.rule = rule};

    if (rule_takes(row, OPTION_state) && (option == OPTION_state || option == OPTION_state_indices))
        desc.flags |= CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE;
    if (option == OPTION_normalize || option == OPTION_accepted || option == OPTION_with_momentum)
        desc.flags |= CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE;
    if (desc_options[option].with != 0 && !rule_takes(row, option))
        desc.flags |= desc_options[option].with & rule_flags(row);
    if (!option_taken(option, &desc, row) || (option == OPTION_attn && !rule_has_matrix(row)))
        return 0;
    if (option == OPTION_accepted)
        desc.state_window = 1;
    option_put(option, 1, &desc);
    learner_complete_kinds(&desc, row);
    return rule_operands(&desc, rows);
}

/* Whether an operand may come with the option's first value, which is LN of losses. */
static int brings_operands(enum option_id option)
{
    return desc_options[option].type == OPTION_FLAG || option == OPTION_state_window || option == OPTION_loss;
}

static int has_outputs(const struct operand_row *rows, int count)
{
    for (int n = 0; n < count; n++)
        if (rows[n].id == CLATTN_O)
            return 1;
    return 0;
}

/* Collects every operand of the rule, without options and with each option that may add one. Returns the number of sets
 * with outputs o: a required operand is in all of them. */
static int summarize(clattn_rule rule, struct summary summaries[OPERAND_COUNT])
{
    const struct rule *row = rule_get(rule);
    clattn_plan_desc plain = {.rule = rule};
    struct operand_row rows[OPERAND_COUNT];
    int sets = 0;

    learner_complete_kinds(&plain, row);
    memset(summaries, 0, OPERAND_COUNT * sizeof *summaries);
    for (int i = -1; i < OPTION_COUNT; i++) {
        int brings = i >= 0 && brings_operands((enum option_id)i);
        int count = i < 0 ? rule_operands(&plain, rows) : brings ? operands_with(rule, (enum option_id)i, rows) : 0;
        int outputs = has_outputs(rows, count);
        sets += outputs;
        for (int n = 0; n < count; n++) {
            add_use(&summaries[rows[n].id], &rows[n], rule_takes(row, OPTION_steps), rule_has_list(row));
            summaries[rows[n].id].needed += outputs;
        }
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
        cJSON_AddNumberToObject(operand, "id", id);
        cJSON_AddStringToObject(operand, "name", name);
        cJSON_AddStringToObject(operand, "shape", summaries[id].shapes);
        cJSON_AddStringToObject(operand, "storage", storage_names[summaries[id].row.storage]);
        cJSON_AddBoolToObject(operand, "required", summaries[id].needed == sets);
        cJSON_AddBoolToObject(operand, "output", operand_is_output((clattn_operand_id)id));
        cJSON_AddItemToArray(operands, operand);
    }
    return operands;
}

static void add_operand_name(cJSON *object, const char *key, clattn_operand_id id)
{
    if (id != NO_OPERAND)
        cJSON_AddStringToObject(object, key, operand_name(id));
}

/* The tensors that the rule keeps from token to token. */
static cJSON *make_state(clattn_rule rule)
{
    cJSON *array = cJSON_CreateArray();
    char shape[MAX_SHAPE_TEXT];

    for (const struct state_tensor *tensor = rule_get(rule)->state; tensor->name != NULL; tensor++) {
        cJSON *object = cJSON_CreateObject();
        shape_text(tensor->dims.sequence, 0, 0, shape, sizeof shape);
        cJSON_AddStringToObject(object, "name", tensor->name);
        add_operand_name(object, "before", tensor->before);
        add_operand_name(object, "after", tensor->after);
        add_operand_name(object, "between", tensor->between);
        cJSON_AddStringToObject(object, "shape", shape);
        cJSON_AddStringToObject(object, "storage",
                                tensor->storage == STORE_MATRIX ? "f32, f16 or bf16" : storage_names[tensor->storage]);
        cJSON_AddBoolToObject(object, "required", tensor->required);
        if (tensor->flag != 0)
            cJSON_AddStringToObject(object, "flag", rule_flag_name(tensor->flag));
        cJSON_AddItemToArray(array, object);
    }
    return array;
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

static cJSON *make_notes(clattn_rule rule)
{
    cJSON *array = cJSON_CreateArray();

    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (notes[i].rule == rule)
            cJSON_AddItemToArray(array, cJSON_CreateString(notes[i].text));
    return array;
}

/* Adds the name of the rule's group, whose rules `clattn tune` tunes as one. */
static void add_group(cJSON *object, clattn_rule rule)
{
    char group[32];

    cJSON_AddStringToObject(object, "group", tuning_group_of(rule, group));
}

static cJSON *make_rule(clattn_rule rule)
{
    cJSON *object = cJSON_CreateObject();
    clattn_rule_info info;

    clattn_rule_describe(rule, &info);
    cJSON_AddNumberToObject(object, "id", rule);
    cJSON_AddStringToObject(object, "name", info.name);
    cJSON_AddItemToObject(object, "aliases", make_words(info.aliases));
    cJSON_AddStringToObject(object, "recurrence", info.recurrence);
    cJSON_AddStringToObject(object, "paper", info.paper);
    add_group(object, rule);
    cJSON_AddItemToObject(object, "options", rule_options_json(rule));
    cJSON_AddItemToObject(object, "notes", make_notes(rule));
    cJSON_AddItemToObject(object, "operands", make_operands(rule));
    cJSON_AddItemToObject(object, "state", make_state(rule));
    return object;
}

/* Prints text in the column of a rule's values, after a title or, if that is "", below what stands there. */
static void print_value(const char *title, const char *text)
{
    enum { VALUES = 14 };
    char left[VALUES + 1];

    snprintf(left, sizeof left, "  %s", title);
    wrap_print(stdout, wrap_width(stdout), left, VALUES, text);
}

/* Prints a list. If the items are objects, prints their value of the key `of`. */
static void print_words(const cJSON *rule, const char *key, const char *of, const char *title)
{
    struct text text = {0};
    const cJSON *item;
    char *line;

    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(rule, key))
    {
        const char *word = of != NULL ? json_string(item, of) : item->valuestring;
        if (word != NULL)
            text_format(&text, "%s%s", text.size > 0 ? ", " : "", word);
    }
    line = text_take(&text);
    if (line != NULL && *line != '\0')
        print_value(title, line);
    free(line);
}

static void print_notes(const cJSON *rule)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(rule, "notes")) print_value("note", item->valuestring);
}

/* Prints a name in the column of values, and what there is to say of it in one further right. */
static void print_named(const char *title, const char *name, const char *text)
{
    enum { TEXTS = 35 };
    char left[128];

    snprintf(left, sizeof left, "  %-12s%s", title, name);
    wrap_print(stdout, wrap_width(stdout), left, TEXTS, text);
}

static void print_tensor(const char *title, const cJSON *tensor)
{
    char text[256];

    snprintf(text, sizeof text, "%-26s %s", json_string(tensor, "shape"), json_string(tensor, "storage"));
    print_named(title, json_string(tensor, "name"), text);
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
        print_tensor(left, item);
        left = "";
    }
}

/* An option a line, with what it means. */
static void print_options(const cJSON *rule)
{
    const cJSON *item;
    const char *left = "options";

    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(rule, "options"))
    {
        const char *usage = json_string(item, "usage");
        if (usage == NULL)
            continue;
        print_named(left, usage, desc_options[desc_option_find(json_string(item, "name"))].help);
        left = "";
    }
}

/* A tensor of the state a line. */
static void print_state(const cJSON *rule)
{
    const cJSON *item;
    const char *left = "state";

    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(rule, "state"))
    {
        print_tensor(left, item);
        left = "";
    }
}

static void print_rule(const cJSON *rule)
{
    puts(json_string(rule, "name"));
    print_value("recurrence", json_string(rule, "recurrence"));
    print_value("paper", json_string(rule, "paper"));
    if (json_string(rule, "group") != NULL)
        print_value("tuned as", json_string(rule, "group"));
    print_words(rule, "aliases", NULL, "also");
    print_options(rule);
    print_notes(rule);
    print_state(rule);
    print_operands(rule, "inputs", 1, 0);
    print_operands(rule, "optional", 0, 0);
    print_operands(rule, "outputs", 1, 1);
    print_operands(rule, "optional", 0, 1);
    putchar('\n');
}

/* Each rule with its recurrence. */
static void print_list(const cJSON *rules)
{
    enum { RECURRENCES = 29 };
    const cJSON *rule;

    cJSON_ArrayForEach(rule, rules)
        wrap_print(stdout, wrap_width(stdout), json_string(rule, "name"), RECURRENCES, json_string(rule, "recurrence"));
    puts("\n`clattn rules RULE` lists a rule's options and tensors.");
}

/* One row per rule, as in docs/rules.md. JSON also has the operands. */
static int print_table(const cJSON *rules, enum format format)
{
    static const struct column columns[] = {{"name", "rule", COLUMN_WORD, 0, 0},
                                            {"also", "also", COLUMN_WORD, 0, 1},
                                            {"recurrence", "recurrence", COLUMN_WORD, 0, 0},
                                            {"paper", "source", COLUMN_WORD, 0, 2},
                                            BUILD_COLUMNS};
    cJSON *rows = cJSON_CreateArray();
    const cJSON *rule;

    cJSON_ArrayForEach(rule, rules)
    {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "also", rule_get(clattn_rule_find(json_string(rule, "name")))->aliases);
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
            if (json_string(rule, columns[i].key) != NULL)
                cJSON_AddStringToObject(row, columns[i].key, json_string(rule, columns[i].key));
        cJSON_AddItemToArray(rows, row);
    }
    return table_print(rows, columns, sizeof columns / sizeof *columns, format);
}

static void print_rules(const cJSON *rules)
{
    const cJSON *rule;

    cJSON_ArrayForEach(rule, rules) print_rule(rule);
    puts("B batch, T tokens, H value heads, HQ query/key heads, HK key/value heads,\n"
         "TK tokens of keys, K and V dims of 1 to 1024, N sequences, M states of a pool,\n"
         "W states in a window or taps, n steps. If several heads of q and o share a\n"
         "state, all other operands have HK heads in place of HQ and H.");
}

/* The rules, together with what bindings are generated from. */
static int print_json(cJSON *rules)
{
    cJSON *all = cJSON_CreateObject();

    origin_add(all, NULL);
    interface_add(all);
    cJSON_AddItemToObject(all, "rules", rules);
    return json_print(all);
}

int rules_main(struct settings *settings)
{
    cJSON *rules = cJSON_CreateArray();

    for (size_t i = 0; i < settings->rule_count; i++)
        cJSON_AddItemToArray(rules, make_rule(settings->rules[i]));
    for (clattn_rule r = CLATTN_RULE_NONE + 1; settings->rule_count == 0 && r < RULE_COUNT; r++)
        cJSON_AddItemToArray(rules, make_rule(r));
    origin_add_all(rules, NULL);
    if (settings->format == FORMAT_JSON)
        return print_json(rules);
    if (settings->format != FORMAT_TEXT) {
        int status = print_table(rules, settings->format);
        cJSON_Delete(rules);
        return status;
    }
    if (settings->rule_count > 0)
        print_rules(rules);
    else
        print_list(rules);
    cJSON_Delete(rules);
    return EXIT_OK;
}
