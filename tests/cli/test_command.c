/* test_command DATA: what the command does with a file's tensors, by its own functions: on the device under test and,
 * where nothing depends on kernels, on the reference alone. DATA is the folder of test_layers' checkpoints. */
#include "command.h"

#include "cli/io/desc_options.h"
#include "cli/io/input.h"
#include "cli/layer.h"
#include "op/problem.h"
#include "reference/number.h"

#include <stdio.h>
#include <string.h>

/* ---- Memory that no kernel writes ----------------------------------------------------------------------------- */

enum { BATCH = 2, TOKENS = 5, SLOTS = 4, OWN = 2 /* the one slot that is some sequence's */ };

/* Buffers that are given no content have 0x5a in every byte, as memory may that was used before. */
static cl_mem(CL_API_CALL *real_create)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
static cl_mem CL_API_CALL create_dirty(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    void *dirt = host == NULL ? malloc(size) : NULL;
    cl_mem buffer;

    if (dirt != NULL) {
        memset(dirt, 0x5a, size);
        flags |= CL_MEM_COPY_HOST_PTR;
    }
    buffer = real_create(context, flags, size, host != NULL ? host : dirt, error);
    free(dirt);
    return buffer;
}

/* A problem with a pool, in which the first sequence has a state and the second none. */
static clattn_plan_desc pool_desc(clattn_rule rule, int with_initial)
{
    clattn_plan_desc desc = {.rule = rule,
                             .flags = CLATTN_FINAL_STATE | CLATTN_WITH_STATE_INDICES,
                             .batch = BATCH,
                             .seq_len = TOKENS,
                             .heads = 2,
                             .key_dim = 4,
                             .value_dim = 4};

    if (with_initial) {
        desc.flags |= CLATTN_INITIAL_STATE;
        desc.state_slots = SLOTS;
    }
    check_fit(&desc);
    return desc;
}

/* Reads and computes the file, as `clattn run` does up to the output. */
static void run_file(struct settings *settings, struct operands *operands, struct safetensors *file)
{
    struct target target;
    char text[2048];

    assert_int_equal(input_read(settings->input, file), EXIT_OK);
    assert_int_equal(operands_bind(operands, settings, settings->input, file), EXIT_OK);
    assert_int_equal(target_open(&target, settings->device), EXIT_OK);
    if (target_run(&target, &operands->tensors, text, sizeof text) != CLATTN_SUCCESS)
        fail_msg("%s", target.sink.error);
    target_close(&target);
}

static void write_tensors(const struct check_tensors *tensors)
{
    struct safetensor list[OPERAND_COUNT];

    test_write_file(test_path("in"), list, operands_list(tensors, 0, list));
}

/* Every number of a slot of `id` that is not the own one is that of `from`, or 0 where there is no such operand. */
static void check_slots_kept(const struct operands *operands, clattn_operand_id id, clattn_operand_id from,
                             int64_t slots)
{
    const struct check_tensors *tensors = &operands->tensors;
    int64_t count, slot;

    if (tensors->tensor[id].data == NULL)
        return;
    count = check_count(&tensors->tensor[id].info);
    slot = count / slots;
    for (int64_t i = 0; i < count; i++) {
        double expected = tensors->tensor[from].data != NULL ? test_get(tensors, from, i) : 0;
        if (i / slot != OWN % slots && test_get(tensors, id, i) != expected)
            fail_msg("%s: %s[%lld] is %g, expected %g", test_rule_name(tensors->desc.rule), operand_name(id),
                     (long long)i, test_get(tensors, id, i), expected);
    }
}

static void check_pool(clattn_rule rule, int with_initial)
{
    const clattn_plan_desc desc = pool_desc(rule, with_initial);
    const int64_t slots = with_initial ? SLOTS : BATCH;
    struct settings settings;
    struct check_tensors tensors;
    struct operands operands;
    struct safetensors file;

    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    ((int32_t *)tensors.tensor[CLATTN_STATE_INDICES].data)[0] = (int32_t)(OWN % slots);
    ((int32_t *)tensors.tensor[CLATTN_STATE_INDICES].data)[1] = -1;
    write_tensors(&tensors);
    settings = test_run_settings(&(clattn_plan_desc){.rule = rule}, test_device_name());
    run_file(&settings, &operands, &file);
    check_slots_kept(&operands, CLATTN_STATE_OUT, CLATTN_STATE_IN, slots);
    check_slots_kept(&operands, CLATTN_NORMALIZER_OUT, CLATTN_NORMALIZER_IN, slots);
    check_slots_kept(&operands, CLATTN_STABILIZER_OUT, CLATTN_STABILIZER_IN, slots);
    check_slots_kept(&operands, CLATTN_GRAM_OUT, CLATTN_GRAM_IN, slots);
    operands_free(&operands);
    safetensors_free(&file);
    check_free(&tensors);
}

/* What no sequence has stays as the file has it: every rule on the reference, on a device one of each kind. */
static void test_pool(void **state)
{
    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        const struct rule *row = rule_get(rule);
        int is_sample = rule == CLATTN_GLA || rule == CLATTN_MLSTM || rule == CLATTN_HGRN || rule == CLATTN_SHORT_CONV;
        if (!rule_has_state(row) || row->op == OP_LEARNER || !(test_is_reference() || is_sample))
            continue;
        check_pool(rule, 1);
        if (test_is_reference() || rule == CLATTN_GLA)
            check_pool(rule, 0);
    }
}

/* States that a sequence is too short for are 0: the second has one token of the three that a window asks for. */
static void test_short_sequence(void **state)
{
    enum { WINDOW = 3 };
    static const int64_t cuts[] = {0, TOKENS - 1, TOKENS};
    const clattn_plan_desc desc = {.rule = CLATTN_LINEAR_ATTN,
                                   .flags = CLATTN_FINAL_STATE | CLATTN_CU_SEQLENS,
                                   .seq_len = TOKENS,
                                   .sequences = 2,
                                   .heads = 2,
                                   .key_dim = 4,
                                   .value_dim = 4};
    struct settings settings =
        test_run_settings(&(clattn_plan_desc){.rule = desc.rule, .state_window = WINDOW}, test_device_name());
    struct check_tensors tensors;
    struct operands operands;
    struct safetensors file;
    int64_t one;

    (void)state;
    test_make(&tensors, &desc, CHECK_GATES_USUAL, cuts);
    write_tensors(&tensors);
    run_file(&settings, &operands, &file);
    one = check_count(&operands.tensors.tensor[CLATTN_STATES].info) / 2 / WINDOW;
    for (int64_t i = 0; i < (2 * WINDOW - 1) * one; i++)
        assert_int_equal(test_get(&operands.tensors, CLATTN_STATES, i) != 0, i < WINDOW * one);
    operands_free(&operands);
    safetensors_free(&file);
    check_free(&tensors);
}

/* Two sequences with the same place, or one past the pool, are mistakes of a file. */
static void test_bad_places(void **state)
{
    static const int32_t bad[][BATCH] = {{OWN, OWN}, {0, 0}, {SLOTS, 0}, {0, INT32_MAX}}, good[] = {-1, INT32_MIN};
    const clattn_plan_desc desc = pool_desc(CLATTN_GLA, 1);
    struct settings settings = test_run_settings(&(clattn_plan_desc){.rule = CLATTN_GLA}, "reference");
    struct check_tensors tensors;

    (void)state;
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    for (size_t i = 0; i <= COUNT(bad); i++) {
        memcpy(tensors.tensor[CLATTN_STATE_INDICES].data, i < COUNT(bad) ? bad[i] : good, sizeof good);
        write_tensors(&tensors);
        assert_int_equal(run_main(&settings), i < COUNT(bad) ? EXIT_BAD : EXIT_OK);
    }
    check_free(&tensors);
}

/* ---- Shapes ---------------------------------------------------------------------------------------------------- */

enum { K_DIM = 3, V_DIM = 4 };

/* Rewrites the file with another shape of a tensor, of which `bytes` are there. */
static void write_shaped(const struct check_tensors *tensors, clattn_operand_id id, const int64_t *dims, int rank,
                         size_t bytes)
{
    struct safetensor list[OPERAND_COUNT];
    size_t count = operands_list(tensors, 0, list);

    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, operand_name(id)) == 0) {
            memcpy(list[i].dims, dims, (size_t)rank * sizeof *dims);
            list[i].rank = rank;
            list[i].bytes = bytes;
        }
    test_write_file(test_path("in"), list, count);
}

/* o of the file, as the reference has it; the status of operands_bind. */
static int compute_o(clattn_rule rule, struct check_tensors *o)
{
    struct settings settings = test_run_settings(&(clattn_plan_desc){.rule = rule}, "reference");
    struct target target = {.reference = 1};
    struct operands operands;
    struct safetensors file;
    char text[64];
    int status;

    assert_int_equal(input_read(settings.input, &file), EXIT_OK);
    status = operands_bind(&operands, &settings, settings.input, &file);
    if (status == EXIT_OK) {
        assert_status(target_run(&target, &operands.tensors, text, sizeof text), SUCCESS);
        test_copy(o, CLATTN_O, &operands.tensors, CLATTN_O);
    }
    operands_free(&operands);
    safetensors_free(&file);
    return status;
}

/* An operand whose rows are [K*V] may come with rows [K,V], of all heads or of one; not with rows [V,K]. */
static void check_rows_of_two(struct check_tensors *tensors, const struct operand_row *row)
{
    const int64_t whole[] = {BATCH, TOKENS, 2, K_DIM * V_DIM}, split[] = {BATCH, TOKENS, 2, K_DIM, V_DIM},
                  one[] = {BATCH, TOKENS, 1, K_DIM, V_DIM}, flat_one[] = {BATCH, TOKENS, 1, K_DIM * V_DIM},
                  turned[] = {BATCH, TOKENS, 2, V_DIM, K_DIM};
    const clattn_rule rule = tensors->desc.rule;
    const size_t bytes = tensors->tensor[row->id].bytes;
    struct check_tensors a, b;

    assert_string_equal(row->dims, "BTGZ"); /* another shape needs another list here */
    assert_status(check_allocate(&a, &tensors->desc), SUCCESS);
    assert_status(check_allocate(&b, &tensors->desc), SUCCESS);
    write_shaped(tensors, row->id, whole, 4, bytes);
    assert_int_equal(compute_o(rule, &a), EXIT_OK);
    write_shaped(tensors, row->id, split, 5, bytes);
    assert_int_equal(compute_o(rule, &b), EXIT_OK);
    test_compare(&b.tensor[CLATTN_O], &a.tensor[CLATTN_O], 0, "rows [K,V]");
    write_shaped(tensors, row->id, flat_one, 4, bytes / 2);
    assert_int_equal(compute_o(rule, &a), EXIT_OK);
    write_shaped(tensors, row->id, one, 5, bytes / 2);
    assert_int_equal(compute_o(rule, &b), EXIT_OK);
    test_compare(&b.tensor[CLATTN_O], &a.tensor[CLATTN_O], 0, "rows [K,V] of one head");
    write_shaped(tensors, row->id, turned, 5, bytes);
    assert_int_equal(compute_o(rule, &b), EXIT_BAD);
    check_free(&a);
    check_free(&b);
}

static void test_rows_of_two(void **state)
{
    int found = 0;

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        clattn_plan_desc desc = {
            .rule = rule, .batch = BATCH, .seq_len = TOKENS, .heads = 2, .key_dim = K_DIM, .value_dim = V_DIM};
        struct operand_row rows[OPERAND_COUNT];
        struct check_tensors tensors;
        int count;
        check_fit(&desc);
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        count = rule_operands(&tensors.desc, rows);
        for (int i = 0; i < count; i++)
            if (strchr(rows[i].dims, 'Z') != NULL && !operand_is_output(rows[i].id)) {
                check_rows_of_two(&tensors, &rows[i]);
                found++;
            }
        check_free(&tensors);
    }
    assert_true(found > 0);
}

/* ---- Options of layers ------------------------------------------------------------------------------------------- */

static const char *data_folder;

/* How the command comes to the fields of clattn_layer_desc that are no options: whatever else there is must be one. */
static const struct {
    const char *field, *from;
} derived[] = {{"layer", "the word after `layer`"},
               {"dtype", "x"},
               {"flags", "whether x's file has states"},
               {"batch", "x"},
               {"seq_len", "x"},
               {"hidden", "x and weights"},
               {"heads", "--shape H, or weights"},
               {"qk_heads", "--shape HQ, or weights"},
               {"key_dim", "--shape K, or weights"},
               {"value_dim", "--shape V, or weights"},
               {"taps", "weights"},
               {"rank", "weights"},
               {"inner", "weights"}};

static int is_derived(const char *field)
{
    for (size_t i = 0; i < COUNT(derived); i++)
        if (strcmp(derived[i].field, field) == 0)
            return 1;
    return 0;
}

static int is_option(const char *field)
{
    for (size_t i = 0; layer_option(i) != NULL; i++)
        if (strcmp(layer_option(i), field) == 0)
            return 1;
    return 0;
}

/* The word before the ';' of a line of the struct; 0 where the line declares nothing. */
static int field_of(const char *line, char *field, size_t size)
{
    const char *end = strchr(line, ';'), *begin = end;

    if (end == NULL || strstr(line, " * ") == line + 4 || strncmp(line, "    /*", 6) == 0)
        return 0;
    while (begin > line && begin[-1] != ' ' && begin[-1] != '*')
        begin--;
    snprintf(field, size, "%.*s", (int)(end - begin), begin);
    return 1;
}

/* Every field of the header's struct is set by an option, or by what is explained above. */
static void test_layer_fields(void **state)
{
    FILE *header = fopen(LAYER_HEADER, "r");
    char line[256], field[64];
    int within = 0, fields = 0, options = 0;

    (void)state;
    assert_non_null(header);
    while (fgets(line, sizeof line, header) != NULL) {
        within = strstr(line, "typedef struct clattn_layer_desc {") != NULL || (within && line[0] != '}');
        if (!within || !field_of(line, field, sizeof field))
            continue;
        fields++;
        if (is_option(field) == is_derived(field))
            fail_msg("clattn_layer_desc has %s: expected either an option of `clattn layer` or a line above", field);
    }
    fclose(header);
    while (layer_option((size_t)options) != NULL)
        options++;
    assert_int_equal(fields, (int)COUNT(derived) + options);
}

/* The names that stand in files which an older clattn wrote. */
static void test_old_names(void **state)
{
    static const char *const names[] = {"steps=2",
                                        "layer=1",
                                        "layers=2",
                                        "slopes=minimax",
                                        "eps=0.5",
                                        "scale=2",
                                        "feature_map=elu1",
                                        "window=3",
                                        "state_window=3",
                                        "state_every=3",
                                        "gate_map=exp",
                                        "beta_map=twice-sigmoid",
                                        "gate_scale=-5",
                                        "a_log=on",
                                        "state=vk",
                                        "heads=tiled",
                                        "gate=head",
                                        "value_gate=on",
                                        "ungated=on",
                                        "normalize=on",
                                        "qk_l2norm=on",
                                        "sink=on",
                                        "lse=on",
                                        "kernel=floor",
                                        "write_kernel=round",
                                        "p=on",
                                        "beta=on",
                                        "written=on",
                                        "attn=on",
                                        "reversed=on",
                                        "softplus=on",
                                        "dt_bias=on",
                                        "d=on",
                                        "z=on",
                                        "complex=on",
                                        "kv_lens=on",
                                        "append=on",
                                        "tail=3",
                                        "carry=on",
                                        "absolute=on",
                                        "state_indices=on",
                                        "cu_seqlens=i64",
                                        "taps=3",
                                        "activation=none",
                                        "with_bias=on",
                                        "residual=on",
                                        "weighting=heads",
                                        "gating=sigmoid",
                                        "centered=on",
                                        "eps_outside=on",
                                        "rope=on",
                                        "rope_base=500",
                                        "rope_dim=4",
                                        "interleaved=on",
                                        "with_position=on",
                                        "turned_back=on",
                                        "features=rfa",
                                        "of_queries=on",
                                        "hidden_dim=8",
                                        "mini_batch=4",
                                        "muon=keller",
                                        "pre_norm=on",
                                        "with_momentum=on",
                                        "noncausal=on"};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        clattn_plan_desc desc = {.rule = CLATTN_RULE_NONE};
        char name[32], text[64];
        size_t length = strcspn(names[i], "=");
        enum option_id option;
        snprintf(name, sizeof name, "%.*s", (int)length, names[i]);
        option = desc_option_find(name);
        assert_int_not_equal(option, OPTION_COUNT);
        assert_int_equal(desc_option_read(option, name, names[i] + length + 1, &desc), EXIT_OK);
        assert_string_equal(desc_option_text(option, &desc, text, sizeof text), names[i] + length + 1);
    }
}

/* y of a layer of the data folder. */
static void *layer_y(const char *name, int64_t key_dim, const char *option, const char *value, size_t *bytes)
{
    char checkpoint[512], x[512];
    struct settings settings;
    struct safetensors file;
    void *y;

    snprintf(checkpoint, sizeof checkpoint, "%s/%s.safetensors", data_folder, name);
    snprintf(x, sizeof x, "%s/%s.run.safetensors", data_folder, name);
    settings = test_layer_settings(name, key_dim, checkpoint, x);
    if (option != NULL) {
        enum option_id number = desc_option_find(option);
        settings.given.has[number] = 1;
        assert_int_equal(desc_option_read(number, option, value, &settings.desc), EXIT_OK);
    }
    assert_int_equal(layer_main(&settings), EXIT_OK);
    assert_int_equal(input_read(settings.output, &file), EXIT_OK);
    *bytes = safetensors_find(&file, "y")->bytes;
    y = malloc(*bytes);
    assert_non_null(y);
    memcpy(y, safetensors_find(&file, "y")->data, *bytes);
    safetensors_free(&file);
    return y;
}

/* Each option changes what a layer computes. */
static void test_layer_options(void **state)
{
    static const struct {
        const char *layer, *option, *value;
    } rows[] = {{"mamba2", "eps", "0.5"},      {"kda", "eps", "0.5"},         {"gla", "eps", "0.5"},
                {"retnet", "eps", "0.5"},      {"lact", "mini_batch", "7"},   {"gated_deltanet", "eps", "0.5"},
                {"lact", "eps", "0.5"},        {"jamba", "eps", "0.5"},       {"falcon_mamba", "eps", "0.5"},
                {"mamba2", "step_min", "0.5"}, {"mamba2", "step_max", "0.1"}, {"mesa_net", "eps", "0.5"}};
    char path[512];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct safetensors numbers;
        size_t bytes, others;
        void *usual, *changed;
        int64_t key_dim;
        snprintf(path, sizeof path, "%s/%s.run.safetensors", data_folder, rows[i].layer);
        assert_int_equal(input_read(path, &numbers), EXIT_OK);
        key_dim = test_key_dim(clattn_layer_find(rows[i].layer), &numbers);
        usual = layer_y(rows[i].layer, key_dim, NULL, NULL, &bytes);
        changed = layer_y(rows[i].layer, key_dim, rows[i].option, rows[i].value, &others);
        assert_int_equal(bytes, others);
        if (memcmp(usual, changed, bytes) == 0)
            fail_msg("layer %s --option %s=%s changes nothing", rows[i].layer, rows[i].option, rows[i].value);
        free(usual);
        free(changed);
        safetensors_free(&numbers);
    }
}

/* ---- Models of other modules, and rules without keys ------------------------------------------------------------- */

/* The data folder's checkpoint of the layer, beside a config with that text */
static void check_model(const char *layer, const char *text, int status)
{
    const char *config_path = test_path("config.json");
    char x[512], from[512];
    struct settings settings;
    struct safetensors file, numbers;
    FILE *config;

    snprintf(from, sizeof from, "%s/%s.safetensors", data_folder, layer);
    snprintf(x, sizeof x, "%s/%s.run.safetensors", data_folder, layer);
    assert_int_equal(input_read(from, &file), EXIT_OK);
    assert_int_equal(input_read(x, &numbers), EXIT_OK);
    test_write_file(test_path("model"), file.tensors, file.count);
    settings = test_layer_settings(layer, test_key_dim(clattn_layer_find(layer), &numbers), test_path("model"), x);
    config = fopen(config_path, "w");
    assert_non_null(config);
    fputs(text, config);
    fclose(config);
    if (layer_main(&settings) != status)
        fail_msg("layer %s beside %s: expected status %d", layer, text, status);
    remove(config_path);
    safetensors_free(&file);
    safetensors_free(&numbers);
}

/* The data folder's checkpoints are refused where they are said to be of a model that computes something else. */
static void test_other_models(void **state)
{
    static const struct {
        const char *layer, *config;
        int status;
    } rows[] = {{"mamba", "{\"model_type\": \"mamba\"}", EXIT_OK},
                {"mamba", "{\"model_type\": \"falcon_h1\"}", EXIT_OK}, /* that of another layer */
                {"mamba", "{\"model_type\": \"falcon_mamba\"}", EXIT_BAD},
                {"mamba", "{\"model_type\": \"x\", \"text_config\": {\"model_type\": \"falcon_mamba\"}}", EXIT_BAD},
                {"mamba", "no JSON", EXIT_OK},
                {"falcon_mamba", "{\"model_type\": \"falcon_mamba\"}", EXIT_OK},
                {"falcon_mamba", "{\"model_type\": \"mamba\"}", EXIT_BAD},
                {"mamba2", "{\"time_step_limit\": [0.0, Infinity], \"note\": \"\\\"NaN\"}", EXIT_OK},
                {"mamba2", "{\"time_step_limit\": [0.0, Infinity], \"model_type\": \"falcon_h1\"}", EXIT_BAD},
                {"mamba2", "{\"time_step_limit\": [0.0, 0.1], \"model_type\": \"bamba\"}", EXIT_OK},
                {"mamba2", "{\"text_config\": {\"time_step_limit\": [0.001, Infinity]}}", EXIT_OK},
                {"mamba2", "{\"time_step_limit\": [0.2, 0.1]}", EXIT_BAD},
                {"mamba2", "{\"time_step_limit\": [0.1]}", EXIT_BAD}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check_model(rows[i].layer, rows[i].config, rows[i].status);
}

/* make-input asks for K where it says something, and nowhere else. */
static void test_shape_without_k(void **state)
{
    static const struct command command = {.name = "make-input", .bit = COMMAND_MAKE_INPUT};

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        struct settings settings = {.command = &command,
                                    .rules = {rule},
                                    .rule_count = 1,
                                    .shapes = {{.seq_len = 3, .heads = 2, .value_dim = 4}},
                                    .shape_count = 1,
                                    .output = test_path("out"),
                                    .clobber = 1};
        int keys = rule_has_keys(rule_get(rule)) || rule == CLATTN_FEATURES;
        assert_int_equal(make_input_main(&settings), keys ? EXIT_BAD : EXIT_OK);
        settings.shapes[0].key_dim = keys ? 4 : 1;
        assert_int_equal(make_input_main(&settings), EXIT_OK);
    }
}

static int open_dirty(void **state)
{
    if (test_device_open(state) != 0)
        return -1;
    if (!test_is_reference()) {
        real_create = test_opencl_table()->CreateBuffer;
        test_opencl_table()->CreateBuffer = create_dirty;
    }
    return 0;
}

static int close_dirty(void **state)
{
    if (!test_is_reference())
        test_opencl_table()->CreateBuffer = real_create;
    return test_device_close(state);
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool),         cmocka_unit_test(test_short_sequence),
        cmocka_unit_test(test_bad_places),   cmocka_unit_test(test_rows_of_two),
        cmocka_unit_test(test_layer_fields), cmocka_unit_test(test_layer_options),
        cmocka_unit_test(test_other_models), cmocka_unit_test(test_shape_without_k),
        cmocka_unit_test(test_old_names),
    };

    if (count < 2)
        return 2;
    data_folder = words[1];
    return cmocka_run_group_tests(tests, open_dirty, close_dirty);
}
