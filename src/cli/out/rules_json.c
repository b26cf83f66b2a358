#include "cli/out/rules_json.h"

#include "cli/io/desc_options.h"
#include "op/problem.h"
#include "op/rule.h"

#include <clattn_layer.h>
#include <stdio.h>
#include <string.h>

/* ---- Enums ------------------------------------------------------------------------------------------------------- */

static cJSON *add_value(cJSON *values, const char *name, int value)
{
    cJSON *object = cJSON_CreateObject();

    cJSON_AddStringToObject(object, "name", name);
    cJSON_AddNumberToObject(object, "value", value);
    cJSON_AddItemToArray(values, object);
    return object;
}

static void add_statuses(cJSON *enums)
{
    cJSON *values = cJSON_AddArrayToObject(enums, "clattn_status");

#define STATUS_VALUE(name, value, text)                                                                                \
    cJSON_AddStringToObject(add_value(values, "CLATTN_" #name, value), "text", text);
    CLATTN_STATUSES(STATUS_VALUE)
#undef STATUS_VALUE
}

static void add_log_levels(cJSON *enums)
{
    cJSON *values = cJSON_AddArrayToObject(enums, "clattn_log_level");

    add_value(values, "CLATTN_LOG_ERROR", CLATTN_LOG_ERROR);
    add_value(values, "CLATTN_LOG_WARNING", CLATTN_LOG_WARNING);
    add_value(values, "CLATTN_LOG_INFO", CLATTN_LOG_INFO);
}

static void add_rules(cJSON *enums)
{
    cJSON *values = cJSON_AddArrayToObject(enums, "clattn_rule");

    add_value(values, "CLATTN_RULE_NONE", CLATTN_RULE_NONE);
#define RULE_VALUE(NAME, value) add_value(values, "CLATTN_" #NAME, value);
    CLATTN_RULES(RULE_VALUE)
#undef RULE_VALUE
}

static void add_operand_ids(cJSON *enums)
{
    cJSON *values = cJSON_AddArrayToObject(enums, "clattn_operand_id");

    add_value(values, "CLATTN_OPERAND_NONE", CLATTN_OPERAND_NONE);
#define OPERAND_VALUE(ID, name, value, shape) add_value(values, "CLATTN_" #ID, value);
    CLATTN_OPERANDS(OPERAND_VALUE)
#undef OPERAND_VALUE
    add_value(values, "CLATTN_GRADIENTS", CLATTN_GRADIENTS);
}

static void add_layers(cJSON *enums)
{
    cJSON *values = cJSON_AddArrayToObject(enums, "clattn_layer");

    add_value(values, "CLATTN_LAYER_NONE", CLATTN_LAYER_NONE);
#define LAYER_VALUE(NAME, value) add_value(values, "CLATTN_LAYER_" #NAME, value);
    CLATTN_LAYERS(LAYER_VALUE)
#undef LAYER_VALUE
    values = cJSON_AddArrayToObject(enums, "clattn_layer_role");
    add_value(values, "CLATTN_LAYER_WEIGHT", CLATTN_LAYER_WEIGHT);
    add_value(values, "CLATTN_LAYER_INPUT", CLATTN_LAYER_INPUT);
    add_value(values, "CLATTN_LAYER_OUTPUT", CLATTN_LAYER_OUTPUT);
    values = cJSON_AddArrayToObject(enums, "clattn_layer_flags");
    add_value(values, "CLATTN_LAYER_INITIAL_STATE", CLATTN_LAYER_INITIAL_STATE);
    add_value(values, "CLATTN_LAYER_FINAL_STATE", CLATTN_LAYER_FINAL_STATE);
    add_value(values, "CLATTN_LAYER_BIASES", CLATTN_LAYER_BIASES);
    add_value(values, "CLATTN_LAYER_BACKWARD", CLATTN_LAYER_BACKWARD);
    add_value(values, "CLATTN_LAYER_ADDED", CLATTN_LAYER_ADDED);
}

/* Adds an enum of the table of options, once, even if several options have it. */
static void add_option_enum(cJSON *enums, const struct desc_option *option)
{
    cJSON *values;

    if (option->type_name == NULL || option->values == NULL || cJSON_HasObjectItem(enums, option->type_name))
        return;
    values = cJSON_AddArrayToObject(enums, option->type_name);
    for (const struct option_value *at = option->values; at->word != NULL; at++)
        if (at == option->values || strcmp(at->id, at[-1].id) != 0)
            add_value(values, at->id, at->value);
}

static void add_enums(cJSON *object)
{
    cJSON *enums = cJSON_AddObjectToObject(object, "enums");

    add_statuses(enums);
    add_log_levels(enums);
    add_rules(enums);
    add_operand_ids(enums);
    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        add_option_enum(enums, &desc_options[i]);
    add_layers(enums);
}

/* ---- Structs: their fields in order, each behind the one before at the next multiple of its own alignment -------- */

static cJSON *add_field(cJSON *fields, const char *name, const char *type)
{
    cJSON *object = cJSON_CreateObject();

    cJSON_AddStringToObject(object, "name", name);
    cJSON_AddStringToObject(object, "type", type);
    cJSON_AddItemToArray(fields, object);
    return object;
}

static const char *type_of(const struct desc_option *option)
{
    static const char *const names[] = {[OPTION_FLAG] = "bool",
                                        [OPTION_FLAGS] = "uint64",
                                        [OPTION_INT32] = "int32",
                                        [OPTION_INT64] = "int64",
                                        [OPTION_DOUBLE] = "double",
                                        [OPTION_ENUM] = "int32",
                                        [OPTION_TYPES] = "clattn_operand_type"};

    return option->type_name != NULL ? option->type_name : names[option->type];
}

/* The first field at or after an offset, or OPTION_COUNT. */
static enum option_id next_field(size_t offset)
{
    enum option_id next = OPTION_COUNT;

    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        if (desc_options[i].type != OPTION_FLAG && desc_options[i].offset >= offset &&
            (next == OPTION_COUNT || desc_options[i].offset < desc_options[next].offset))
            next = i;
    return next;
}

static void add_desc(cJSON *structs)
{
    enum { TYPES = sizeof((clattn_plan_desc *)0)->operand_types / sizeof(clattn_operand_type) };
    cJSON *fields = cJSON_AddArrayToObject(structs, "clattn_plan_desc");
    enum option_id i;

    for (size_t offset = 0; (i = next_field(offset)) != OPTION_COUNT; offset = desc_options[i].offset + 1) {
        cJSON *field = add_field(fields, desc_options[i].name, type_of(&desc_options[i]));
        if (desc_options[i].type == OPTION_TYPES)
            cJSON_AddNumberToObject(field, "count", TYPES);
    }
}

/* Structs besides clattn_plan_desc. The test `bindings` compares these lists with clattn.h and clattn_layer.h. */
static const struct struct_row {
    const char *name;
    struct field_row {
        const char *name, *type;
        int count; /* of an array */
    } fields[19];
} struct_rows[] = {
    {"clattn_rule_info",
     {{"rule", "clattn_rule", 0},
      {"name", "string", 0},
      {"aliases", "string", 0},
      {"recurrence", "string", 0},
      {"paper", "string", 0}}},
    {"clattn_operand_type", {{"id", "clattn_operand_id", 0}, {"dtype", "clattn_dtype", 0}}},
    {"clattn_operand_info",
     {{"name", "string", 0},
      {"dims", "int64", 4},
      {"rank", "int32", 0},
      {"output", "int32", 0},
      {"dtype", "clattn_dtype", 0},
      {"element_size", "int32", 0}}},
    {"clattn_device_info",
     {{"device", "pointer", 0},
      {"platform", "char", 64},
      {"name", "char", 128},
      {"driver", "char", 64},
      {"version", "char", 64},
      {"gpu", "int32", 0},
      {"compute_units", "uint32", 0},
      {"global_memory", "uint64", 0},
      {"local_memory", "uint64", 0},
      {"max_allocation", "uint64", 0},
      {"max_work_group", "size", 0},
      {"unusable", "string", 0}}},
    {"clattn_context_desc",
     {{"cl", "pointer", 0},
      {"device", "pointer", 0},
      {"log", "pointer", 0},
      {"log_user", "pointer", 0},
      {"cache_dir", "string", 0},
      {"cache_limit", "uint64", 0},
      {"blob_load", "pointer", 0},
      {"blob_store", "pointer", 0},
      {"blob_user", "pointer", 0},
      {"engine", "string", 0},
      {"tuning", "string", 0},
      {"self_test", "int32", 0},
      {"flags", "uint32", 0},
      {"clblast", "string", 0}}},
    {"clattn_plan_info",
     {{"desc", "pointer", 0},
      {"solver", "string", 0},
      {"tiles_by", "string", 0},
      {"engine", "string", 0},
      {"mode", "clattn_mode", 0},
      {"chunk", "int32", 0},
      {"launches", "int32", 0},
      {"rejected", "int32", 0},
      {"workspace_bytes", "uint64", 0},
      {"saved_bytes", "uint64", 0}}},
    {"clattn_operand",
     {{"id", "clattn_operand_id", 0},
      {"buffer", "pointer", 0},
      {"host", "pointer", 0},
      {"offset", "size", 0},
      {"size", "size", 0},
      {"batch_stride", "int64", 0},
      {"token_stride", "int64", 0},
      {"head_stride", "int64", 0}}},
    {"clattn_call",
     {{"operands", "pointer", 0},
      {"operand_count", "size", 0},
      {"seq_len", "int64", 0},
      {"batch", "int64", 0},
      {"sequences", "int64", 0},
      {"workspace", "pointer", 0},
      {"workspace_offset", "size", 0},
      {"workspace_size", "size", 0},
      {"kv_len", "int64", 0},
      {"tail", "int64", 0}}},
    {"clattn_layer_info",
     {{"layer", "clattn_layer", 0},
      {"name", "string", 0},
      {"module", "string", 0},
      {"formula", "string", 0},
      {"paper", "string", 0}}},
    {"clattn_layer_desc",
     {{"layer", "clattn_layer", 0},
      {"dtype", "clattn_dtype", 0},
      {"flags", "uint32", 0},
      {"batch", "int64", 0},
      {"seq_len", "int64", 0},
      {"hidden", "int64", 0},
      {"heads", "int64", 0},
      {"qk_heads", "int64", 0},
      {"key_dim", "int64", 0},
      {"value_dim", "int64", 0},
      {"taps", "int64", 0},
      {"rank", "int64", 0},
      {"eps", "double", 0},
      {"inner", "int64", 0},
      {"mini_batch", "int32", 0},
      {"muon", "clattn_muon", 0},
      {"step_min", "double", 0},
      {"step_max", "double", 0}}},
    {"clattn_layer_tensor",
     {{"name", "string", 0},
      {"dtype", "clattn_dtype", 0},
      {"rank", "int32", 0},
      {"dims", "int64", 4},
      {"data", "pointer", 0}}},
    {"clattn_layer_part",
     {{"name", "string", 0},
      {"role", "clattn_layer_role", 0},
      {"rank", "int32", 0},
      {"dims", "int64", 4},
      {"letters", "string", 4},
      {"dtype", "clattn_dtype", 0},
      {"optional", "int32", 0},
      {"whole", "int32", 0}}},
    {"clattn_layer_operand",
     {{"name", "string", 0}, {"buffer", "pointer", 0}, {"host", "pointer", 0}, {"offset", "size", 0}}},
    {"clattn_layer_call",
     {{"operands", "pointer", 0},
      {"operand_count", "size", 0},
      {"seq_len", "int64", 0},
      {"workspace", "pointer", 0},
      {"workspace_offset", "size", 0}}},
};

static void add_structs(cJSON *object)
{
    cJSON *structs = cJSON_AddObjectToObject(object, "structs");

    for (size_t i = 0; i < sizeof struct_rows / sizeof *struct_rows; i++) {
        cJSON *fields = cJSON_AddArrayToObject(structs, struct_rows[i].name);
        for (const struct field_row *field = struct_rows[i].fields; field->name != NULL; field++) {
            cJSON *added = add_field(fields, field->name, field->type);
            if (field->count > 0)
                cJSON_AddNumberToObject(added, "count", field->count);
        }
    }
    add_desc(structs);
}

/* ---- Flags, operands, options ------------------------------------------------------------------------------------ */

static int bit_of(uint64_t flag)
{
    int bit = 0;

    while (flag >> bit > 1)
        bit++;
    return bit;
}

static void add_flags(cJSON *object)
{
    cJSON *flags = cJSON_AddArrayToObject(object, "flags");

    for (enum option_id i = 0; i < OPTION_COUNT; i++) {
        cJSON *flag;
        if (desc_options[i].type != OPTION_FLAG)
            continue;
        flag = cJSON_CreateObject();
        cJSON_AddStringToObject(flag, "name", desc_options[i].id);
        cJSON_AddNumberToObject(flag, "bit", bit_of(desc_options[i].flag));
        cJSON_AddItemToArray(flags, flag);
    }
}

static void add_operands(cJSON *object)
{
    static const struct {
        int id;
        const char *name, *shape;
    } all[] = {
#define OPERAND_ROW(ID, name, value, shape) {value, #name, shape},
        CLATTN_OPERANDS(OPERAND_ROW)
#undef OPERAND_ROW
    };
    cJSON *operands = cJSON_AddArrayToObject(object, "operands");

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        cJSON *operand = cJSON_CreateObject();
        cJSON_AddNumberToObject(operand, "id", all[i].id);
        cJSON_AddStringToObject(operand, "name", all[i].name);
        cJSON_AddStringToObject(operand, "shape", all[i].shape);
        cJSON_AddBoolToObject(operand, "output", operand_is_output((clattn_operand_id)all[i].id));
        cJSON_AddItemToArray(operands, operand);
    }
}

static void add_words(cJSON *object, enum option_id option)
{
    const struct option_value *values = option_values(option);
    cJSON *words;

    if (values == NULL)
        return;
    words = cJSON_AddArrayToObject(object, "values");
    for (; values->word != NULL; values++) {
        cJSON *word = cJSON_CreateObject();
        cJSON_AddStringToObject(word, "word", values->word);
        cJSON_AddNumberToObject(word, "value", values->value);
        if (values->only != CLATTN_RULE_NONE)
            cJSON_AddStringToObject(word, "only", rule_get(values->only)->name);
        cJSON_AddItemToArray(words, word);
    }
}

static cJSON *option_json(enum option_id option)
{
    const struct desc_option *row = &desc_options[option];
    cJSON *object = cJSON_CreateObject();

    cJSON_AddStringToObject(object, "name", row->name);
    cJSON_AddStringToObject(object, row->type == OPTION_FLAG ? "flag" : "field", row->id);
    cJSON_AddStringToObject(object, "type", type_of(row));
    add_words(object, option);
    if (row->low != 0 || row->high != 0) {
        cJSON_AddNumberToObject(object, "low", row->low);
        cJSON_AddNumberToObject(object, "high", row->high);
    }
    if (row->shown_by != CLATTN_OPERAND_NONE)
        cJSON_AddStringToObject(object, "operand", operand_name(row->shown_by));
    if (row->said_by != NULL)
        cJSON_AddStringToObject(object, "said_by", row->said_by);
    cJSON_AddStringToObject(object, "help", row->help);
    return object;
}

void interface_add(cJSON *object)
{
    cJSON *options;

    add_enums(object);
    add_structs(object);
    add_flags(object);
    add_operands(object);
    options = cJSON_AddArrayToObject(object, "options");
    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        cJSON_AddItemToArray(options, option_json(i));
}

/* ---- Of one rule ------------------------------------------------------------------------------------------------- */

/* What 0 in a desc means for an option: the value in the completed desc, or in words what it depends on. */
static void add_default(cJSON *object, clattn_rule rule, enum option_id option)
{
    const struct desc_option *row = &desc_options[option];
    const clattn_plan_desc desc = {.rule = rule,
                                   .flags = row->with & rule_flags(rule_get(rule)),
                                   .seq_len = 1,
                                   .heads = 1,
                                   .key_dim = rule_asks_key_dim(rule_get(rule)) ? 4 : 0,
                                   .value_dim = 4};
    int fixed = row->depends == NULL || (option == OPTION_scale && rule_get(rule)->default_scale != 0);
    struct problem problem;

    if (!fixed)
        cJSON_AddStringToObject(object, "depends", row->depends);
    else if (problem_init(&problem, &desc, NULL) == CLATTN_SUCCESS)
        cJSON_AddNumberToObject(object, "default", option_get(option, &problem.desc));
}

const char *rule_flag_name(uint64_t flags)
{
    enum option_id option = 0;

    while (option + 1 < OPTION_COUNT && !(desc_options[option].flag & flags))
        option++;
    return desc_options[option].id;
}

static cJSON *rule_option(clattn_rule rule, enum option_id option)
{
    const struct desc_option *row = &desc_options[option];
    char argument[96], usage[128];
    cJSON *object = cJSON_CreateObject();

    cJSON_AddStringToObject(object, "name", row->name);
    cJSON_AddStringToObject(object, row->type == OPTION_FLAG ? "flag" : "field", row->id);
    add_default(object, rule, option);
    if (!rule_takes(rule_get(rule), option))
        cJSON_AddStringToObject(object, "with", rule_flag_name(row->with & rule_flags(rule_get(rule))));
    if (desc_option_is_named(option)) {
        snprintf(usage, sizeof usage, "%s=%s", row->name,
                 desc_option_argument(option, rule, argument, sizeof argument));
        cJSON_AddStringToObject(object, "usage", usage);
    }
    return object;
}

cJSON *rule_options_json(clattn_rule rule)
{
    const struct rule *row = rule_get(rule);
    cJSON *array = cJSON_CreateArray();

    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        if (rule_takes(row, i) || (desc_options[i].with & rule_flags(row)) != 0)
            cJSON_AddItemToArray(array, rule_option(rule, i));
    return array;
}
