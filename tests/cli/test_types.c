/* test_types DATA: storage types, one operand at a time and drawn at random: in files that `clattn run` and
 * `clattn layer` read, in clattn_reference and in plans. Whatever the types are, the same numbers give the same results;
 * a mix that no kernel takes is refused. DATA is the folder of checkpoints that test_layers has too. */
#include "command.h"

#include "clattn_layer.h"
#include "cli/io/input.h"
#include "cli/io/words.h"
#include "op/problem.h"
#include "reference/number.h"

#include <stdio.h>
#include <string.h>

enum { DTYPES = 3, MANY_ROWS = OPERAND_COUNT };
static const clattn_dtype dtypes[DTYPES] = {CLATTN_F32, CLATTN_F16, CLATTN_BF16};
static const char *data_folder;

static uint32_t draw_number(uint32_t below)
{
    static uint32_t state = 1;

    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static clattn_dtype draw_type(void)
{
    return dtypes[draw_number(DTYPES)];
}

/* ---- The table: every rule with each of its variants, and types for its inputs -------------------------------- */

/* What an assignment gives each input; outputs keep f32 but for those of class data, which go with `data`. */
struct types {
    char what[96];
    clattn_dtype data;
    clattn_dtype of[OPERAND_COUNT];
};

struct problem_case {
    const char *variant;
    unsigned char known[OPERAND_COUNT]; /* inputs of the variants before: these are not taken alone again */
    clattn_plan_desc desc;              /* completed, all f32 */
    struct operand_row rows[MANY_ROWS];
    int count;
};

/* The variants of a rule one after the other, from 0 on; 0 past the last. */
static int get_case(clattn_rule rule, int variant, struct problem_case *c)
{
    clattn_plan_desc desc = {.rule = rule,
                             .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                             .batch = 2,
                             .seq_len = 6,
                             .heads = 2,
                             .key_dim = 20,
                             .value_dim = 12};

    for (int i = 0; variant > 0 && i < c->count; i++)
        c->known[c->rows[i].id] = 1;
    if (variant == 0)
        memset(c->known, 0, sizeof c->known);
    c->variant = check_variant(rule, variant, &desc);
    if (c->variant == NULL)
        return 0;
    assert_status(clattn_plan_desc_complete(&c->desc, &desc, test_log, NULL), SUCCESS);
    c->count = rule_operands(&c->desc, c->rows);
    return 1;
}

static int is_typed(const struct operand_row *row)
{
    return row->storage <= STORE_STATE && row->numbers != NUMBERS_WRITTEN;
}

/* One of the inputs in each narrow type; then all that are no data, in one type and drawn; then data, too. */
enum { SINGLE = 2 * OPERAND_COUNT, COMMON = 2, DRAWN = 3, NARROW = 4, ASSIGNMENTS = SINGLE + COMMON + DRAWN + NARROW };

static int single_types(const struct problem_case *c, int number, struct types *types)
{
    const struct operand_row *row = &c->rows[number / 2];

    if (number / 2 >= c->count || !is_typed(row) || row->storage == STORE_DATA || c->known[row->id])
        return 0;
    types->of[row->id] = dtypes[1 + number % 2];
    snprintf(types->what, sizeof types->what, "%s is %s", operand_name(row->id), dtype_name(types->of[row->id]));
    return 1;
}

/* 0: there is no such assignment. */
static int get_types(const struct problem_case *c, int number, struct types *types)
{
    memset(types, 0, sizeof *types);
    if (number < SINGLE)
        return single_types(c, number, types);
    number -= SINGLE;
    if (number >= COMMON + DRAWN)
        types->data = dtypes[1 + number % 2];
    for (int i = 0; i < c->count; i++)
        if (is_typed(&c->rows[i]))
            types->of[c->rows[i].id] = c->rows[i].storage == STORE_DATA ? types->data
                                       : number < COMMON                ? dtypes[1 + number]
                                                                        : draw_type();
    snprintf(types->what, sizeof types->what, "data is %s, %s %d", dtype_name(types->data),
             number < COMMON ? "all else of type" : "all else drawn,", number < COMMON ? number + 1 : number);
    return 1;
}

/* ---- Files: `clattn run` ----------------------------------------------------------------------------------------- */

/* Rounds the numbers of a tensor to a type, in f32, and gives them in that type; to be freed. */
static void *narrow(const struct check_tensor *tensor, clattn_dtype dtype, size_t *bytes)
{
    int64_t count = check_count(&tensor->info);
    void *narrowed = malloc((size_t)count * dtype_size(dtype) + 1);

    assert_non_null(narrowed);
    *bytes = (size_t)count * dtype_size(dtype);
    for (int64_t i = 0; i < count; i++) {
        number_store(dtype, narrowed, i, number_load(tensor->info.dtype, tensor->data, i));
        number_store(tensor->info.dtype, tensor->data, i, number_load(dtype, narrowed, i));
    }
    return narrowed;
}

/* The inputs in their types; tensors then have the same numbers in f32. */
static void write_inputs(const char *path, struct check_tensors *tensors, const struct types *types)
{
    struct safetensor list[OPERAND_COUNT];
    void *narrowed[OPERAND_COUNT] = {NULL};
    size_t count = operands_list(tensors, 0, list);

    for (size_t i = 0; i < count; i++)
        for (int id = 1; id < OPERAND_COUNT; id++)
            if (!operand_is_index((clattn_operand_id)id) &&
                strcmp(list[i].name, operand_name((clattn_operand_id)id)) == 0) {
                list[i].data = narrowed[id] = narrow(&tensors->tensor[id], types->of[id], &list[i].bytes);
                list[i].dtype = word_name(file_dtype_words, (int)types->of[id]);
            }
    test_write_file(path, list, count);
    for (int id = 1; id < OPERAND_COUNT; id++)
        free(narrowed[id]);
}

/* A tensor of the file, which holds what is expected. */
static void compare_one(const struct safetensor *from, const struct check_tensor *expected, double bound,
                        const char *what)
{
    struct check_tensor actual = *expected;

    if (from == NULL)
        fail_msg("%s: the output has no %s", what, expected->info.name);
    for (int i = 0; i < DTYPES; i++)
        if (strcmp(from->dtype, word_name(file_dtype_words, (int)dtypes[i])) == 0)
            actual.info.dtype = dtypes[i];
    memcpy(&actual.data, &from->data, sizeof actual.data); /* read only */
    actual.bytes = from->bytes;
    assert_int_equal(from->bytes, (size_t)check_count(&actual.info) * dtype_size(actual.info.dtype));
    test_compare(&actual, expected, bound, what);
}

/* All outputs, and inputs that the call updates, and nothing else. */
static void compare_file(const char *path, const struct check_tensors *expected, double bound, const char *what)
{
    struct safetensors file;
    size_t outputs = 0;

    assert_int_equal(input_read(path, &file), EXIT_OK);
    for (int id = 1; id < OPERAND_COUNT; id++) {
        struct check_tensor one = expected->tensor[id];
        one.data = one.info.output ? one.data : expected->after[id];
        if (one.data == NULL)
            continue;
        compare_one(safetensors_find(&file, operand_name((clattn_operand_id)id)), &one, bound, what);
        outputs++;
    }
    assert_int_equal(outputs, file.count);
    safetensors_free(&file);
}

/* What `clattn run` does between reading and writing: a file that is written waits for the disk. */
static void run_in_memory(const struct problem_case *c, const struct check_tensors *expected, double bound,
                          const char *what)
{
    struct settings settings = test_run_settings(&c->desc, "reference");
    struct target target = {.reference = 1};
    struct operands operands;
    struct safetensors file;
    char text[64];

    assert_int_equal(input_read(settings.input, &file), EXIT_OK);
    if (operands_bind(&operands, &settings, settings.input, &file) != EXIT_OK)
        fail_msg("%s: refused", what);
    assert_status(target_run(&target, &operands.tensors, text, sizeof text), SUCCESS);
    test_compare_all(&operands.tensors, expected, bound, what);
    operands_free(&operands);
    safetensors_free(&file);
}

static void run_command(const struct problem_case *c, const char *device, const struct check_tensors *expected,
                        double bound, const char *what)
{
    struct settings settings = test_run_settings(&c->desc, device);

    if (run_main(&settings) != EXIT_OK)
        fail_msg("%s: failed", what);
    compare_file(settings.output, expected, bound, what);
}

/* The same bits on the reference in f32; rounded, and turned before that, in the others. */
static double bound_on(const struct problem_case *c, clattn_dtype data, const char *device)
{
    if (data == CLATTN_F32 && (device == NULL || strcmp(device, "reference") == 0))
        return 0;
    return check_bound_of(&(clattn_plan_desc){.dtype = data, .muon = c->desc.muon});
}

/* device NULL: the reference, in memory. */
static void check_file(const struct problem_case *c, const struct types *types, const char *device)
{
    const double bound = bound_on(c, types->data, device);
    struct check_tensors tensors, expected;
    char what[256];

    snprintf(what, sizeof what, "run %s, %s, on %s: %s", test_rule_name(c->desc.rule), c->variant,
             device != NULL ? device : "the reference", types->what);
    test_make(&tensors, &c->desc, CHECK_GATES_USUAL, NULL);
    write_inputs(test_path("in"), &tensors, types);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    if (device == NULL)
        run_in_memory(c, &expected, bound, what);
    else
        run_command(c, device, &expected, bound, what);
    check_free(&tensors);
    check_free(&expected);
}

/* Calls check for each of a number of assignments of types to every rule and variant, where get has one. */
static void for_all(int assignments, int (*get)(const struct problem_case *, int, struct types *),
                    void (*check)(const struct problem_case *, const struct types *))
{
    struct problem_case c;
    struct types types;

    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (int variant = 0; get_case(rule, variant, &c); variant++)
            for (int i = 0; i < assignments; i++)
                if (get(&c, i, &types))
                    check(&c, &types);
}

static void check_file_in_memory(const struct problem_case *c, const struct types *types)
{
    check_file(c, types, NULL);
}

/* In memory; and of every rule the first drawn types by the command. */
static void test_files(void **state)
{
    struct problem_case c;
    struct types types;

    (void)state;
    for_all(ASSIGNMENTS, get_types, check_file_in_memory);
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        if (get_case(rule, 0, &c) && get_types(&c, SINGLE + COMMON, &types))
            check_file(&c, &types, "reference");
}

/* Vectors of two types are refused, as no device takes them: never taken for another type. */
static void test_mixed_vectors(void **state)
{
    static const clattn_rule rules[] = {CLATTN_GLA, CLATTN_RWKV7, CLATTN_SOFTMAX_ATTN, CLATTN_LACT};
    struct problem_case c;

    (void)state;
    for (size_t r = 0; r < COUNT(rules); r++) {
        struct check_tensors tensors;
        struct types types = {.what = ""};
        struct settings settings;
        get_case(rules[r], 0, &c);
        types.of[CLATTN_K] = CLATTN_BF16;
        test_make(&tensors, &c.desc, CHECK_GATES_USUAL, NULL);
        write_inputs(test_path("in"), &tensors, &types);
        settings = test_run_settings(&c.desc, "reference");
        assert_int_equal(run_main(&settings), EXIT_BAD);
        check_free(&tensors);
    }
}

/* Of each kind of kernels that loads gates a rule: those of one type, and drawn ones. */
static void test_files_on_device(void **state)
{
    static const clattn_rule rules[] = {CLATTN_GDN2, CLATTN_MLSTM,      CLATTN_PATH_ATTN,
                                        CLATTN_HGRN, CLATTN_SHORT_CONV, CLATTN_LACT};
    struct problem_case c;
    struct types types;

    (void)state;
    for (int r = 0; r < (int)COUNT(rules); r++)
        for (int number = r % COMMON; number <= COMMON; number += COMMON - r % COMMON) {
            assert_true(get_case(rules[r], 0, &c) && get_types(&c, SINGLE + number, &types));
            check_file(&c, &types, test_device_name());
        }
}

/* ---- The C interface --------------------------------------------------------------------------------------------- */

/* A desc's types: of inputs and of outputs, as many as the list has room for. */
static clattn_plan_desc typed_desc(const struct problem_case *c, const struct types *types)
{
    clattn_plan_desc desc = c->desc;
    int most = (int)COUNT(desc.operand_types);

    for (int i = 0; i < c->count && desc.operand_type_count < most; i++)
        if (c->rows[i].storage <= STORE_MATRIX && types->of[c->rows[i].id] != CLATTN_F32)
            desc.operand_types[desc.operand_type_count++] =
                (clattn_operand_type){c->rows[i].id, types->of[c->rows[i].id]};
    return desc;
}

/* Every operand that has a type of its own, outputs included, alone in each; then all drawn. */
static int get_own_types(const struct problem_case *c, int number, struct types *types)
{
    memset(types, 0, sizeof *types);
    if (number < SINGLE) {
        if (number / 2 >= c->count || c->rows[number / 2].storage > STORE_MATRIX || c->known[c->rows[number / 2].id])
            return 0;
        types->of[c->rows[number / 2].id] = dtypes[1 + number % 2];
        snprintf(types->what, sizeof types->what, "%s alone is %s", operand_name(c->rows[number / 2].id),
                 dtype_name(dtypes[1 + number % 2]));
        return 1;
    }
    for (int i = 0; i < c->count; i++)
        types->of[c->rows[i].id] = draw_type();
    snprintf(types->what, sizeof types->what, "drawn, %d", number - SINGLE);
    return 1;
}

static void compare_typed(const struct check_tensors *actual, const struct check_tensors *expected, const char *what)
{
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *tensor = &actual->tensor[id];
        int exact = tensor->info.dtype == CLATTN_F32 && !(actual->desc.flags & CLATTN_WITH_ROPE);
        if (tensor->data != NULL && tensor->info.output)
            test_compare(
                tensor, &expected->tensor[id],
                exact ? 0 : check_bound_of(&(clattn_plan_desc){.dtype = CLATTN_BF16, .muon = actual->desc.muon}), what);
    }
}

static void check_typed(const struct problem_case *c, const struct types *types)
{
    const clattn_plan_desc desc = typed_desc(c, types);
    struct check_tensors tensors, expected;
    struct arguments operands;
    char what[256];

    snprintf(what, sizeof what, "clattn_reference of %s, %s: %s", test_rule_name(desc.rule), c->variant, types->what);
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    assert_status(check_updatable_operands(&operands, &tensors), SUCCESS);
    assert_status(check_compute(&desc, &operands, test_log, NULL), SUCCESS);
    compare_typed(&tensors, &expected, what);
    check_free(&tensors);
    check_free(&expected);
}

static void test_reference(void **state)
{
    (void)state;
    for_all(SINGLE + DRAWN, get_own_types, check_typed);
}

/* Whether vectors, gates and states have one type each. */
static int is_uniform(const clattn_plan_desc *desc, const struct problem_case *c)
{
    clattn_operand_info info, others[STORE_MATRIX + 1] = {{.name = NULL}};
    int uniform = 1;

    for (int i = 0; i < c->count; i++) {
        clattn_operand_info *first = &others[c->rows[i].storage <= STORE_MATRIX ? c->rows[i].storage : 0];
        if (c->rows[i].storage > STORE_MATRIX)
            continue;
        assert_status(clattn_operand_describe(desc, c->rows[i].id, &info), SUCCESS);
        if (first->name == NULL)
            *first = info;
        uniform &= first->dtype == info.dtype;
    }
    return uniform;
}

/* Types that plans do not convert are UNSUPPORTED, whoever asks; all others are taken. */
static void check_plan(const struct problem_case *c, const struct types *types)
{
    const clattn_plan_desc desc = typed_desc(c, types);
    const struct log no_log = {NULL, NULL};
    struct problem problem;
    clattn_plan *plan = NULL;
    clattn_status status;
    int taken;

    assert_status(problem_init(&problem, &desc, &no_log), SUCCESS);
    taken = problem_check_kernels(&problem, &no_log) == CLATTN_SUCCESS;
    assert_true(taken || !is_uniform(&desc, c));
    test_log_clear();
    status = clattn_supports(test_device.context, &desc);
    if (taken && status == CLATTN_UNSUPPORTED && strstr(test_log_text, "kernels take one type") == NULL)
        return; /* for another reason, as f32 or a state in 16 bits may be */
    if (taken != (status == CLATTN_SUCCESS))
        fail_msg("%s, %s: %s: %s\n%s", test_rule_name(desc.rule), c->variant, types->what, clattn_status_text(status),
                 test_log_text);
    if (taken)
        return;
    assert_status(status, UNSUPPORTED);
    assert_logged("kernels take one type");
    assert_status(clattn_plan_create(&plan, test_device.context, &desc), UNSUPPORTED);
    assert_null(plan);
}

static void test_plans(void **state)
{
    (void)state;
    for_all(SINGLE + DRAWN, get_own_types, check_plan);
}

/* ---- Layers: `clattn layer` -------------------------------------------------------------------------------------- */

enum { MOST_TENSORS = 32 };

/* A checkpoint with every tensor in a type of its own, and the same numbers in f32. */
static void write_checkpoints(const struct safetensors *from, const char *typed, const char *wide, int drawn)
{
    struct safetensor lists[2][MOST_TENSORS];
    void *memory[2 * MOST_TENSORS];

    assert_true(from->count <= MOST_TENSORS);
    for (size_t i = 0; i < from->count; i++) {
        const struct safetensor *tensor = &from->tensors[i];
        int is_wide = strcmp(tensor->dtype, "F32") == 0;
        struct check_tensor numbers = {.info = {.dtype = CLATTN_F32, .rank = 1}};
        clattn_dtype dtype = drawn < DTYPES ? dtypes[drawn] : draw_type();
        numbers.info.dims[0] = (int64_t)(tensor->bytes / safetensors_element(tensor->dtype));
        numbers.data = memory[2 * i] = malloc((size_t)numbers.info.dims[0] * sizeof(float));
        for (int64_t n = 0; n < numbers.info.dims[0]; n++)
            number_store(CLATTN_F32, numbers.data, n, number_load(is_wide ? CLATTN_F32 : CLATTN_BF16, tensor->data, n));
        lists[0][i] = lists[1][i] = *tensor;
        lists[0][i].data = memory[2 * i + 1] = narrow(&numbers, dtype, &lists[0][i].bytes);
        lists[0][i].dtype = word_name(file_dtype_words, (int)dtype);
        lists[1][i].data = numbers.data;
        lists[1][i].bytes = (size_t)numbers.info.dims[0] * sizeof(float);
        lists[1][i].dtype = "F32";
    }
    test_write_file(typed, lists[0], from->count);
    test_write_file(wide, lists[1], from->count);
    for (size_t i = 0; i < 2 * from->count; i++)
        free(memory[i]);
}

static void write_x(const struct safetensor *x, const char *path, clattn_dtype dtype)
{
    struct check_tensor numbers = {.info = {.dtype = CLATTN_F32, .rank = x->rank}};
    struct safetensor one = *x;
    void *narrowed;

    memcpy(numbers.info.dims, x->dims, sizeof numbers.info.dims);
    numbers.data = malloc(x->bytes);
    assert_non_null(numbers.data);
    memcpy(numbers.data, x->data, x->bytes);
    one.data = narrowed = narrow(&numbers, dtype, &one.bytes);
    one.dtype = word_name(file_dtype_words, (int)dtype);
    test_write_file(path, &one, 1);
    free(numbers.data);
    free(narrowed);
}

static void run_layer(const char *name, int64_t key_dim, const char *checkpoint, const char *out)
{
    struct settings settings = test_layer_settings(name, key_dim, test_path(checkpoint), test_path("x"));

    settings.output = test_path(out);
    assert_int_equal(layer_main(&settings), EXIT_OK);
}

static void compare_files(const char *actual_path, const char *expected_path, const char *what)
{
    struct safetensors actual, expected;

    assert_int_equal(input_read(actual_path, &actual), EXIT_OK);
    assert_int_equal(input_read(expected_path, &expected), EXIT_OK);
    assert_int_equal(actual.count, expected.count);
    for (size_t i = 0; i < expected.count; i++) {
        const struct safetensor *one = safetensors_find(&actual, expected.tensors[i].name);
        if (one == NULL || strcmp(one->dtype, expected.tensors[i].dtype) != 0 ||
            one->bytes != expected.tensors[i].bytes || memcmp(one->data, expected.tensors[i].data, one->bytes) != 0)
            fail_msg("%s: %s differs from that of the same numbers in f32", what, expected.tensors[i].name);
    }
    safetensors_free(&actual);
    safetensors_free(&expected);
}

static void check_layer(const clattn_layer_info *info)
{
    static const struct {
        clattn_dtype x;
        int weights; /* which of dtypes; DTYPES: each tensor's drawn */
    } runs[] = {{CLATTN_F32, 1}, {CLATTN_F32, 2}, {CLATTN_F16, DTYPES}, {CLATTN_BF16, DTYPES}, {CLATTN_F32, DTYPES}};
    struct safetensors checkpoint, numbers;
    char path[512], what[256];
    int64_t key_dim;

    snprintf(path, sizeof path, "%s/%s.safetensors", data_folder, info->name);
    assert_int_equal(input_read(path, &checkpoint), EXIT_OK);
    snprintf(path, sizeof path, "%s/%s.run.safetensors", data_folder, info->name);
    assert_int_equal(input_read(path, &numbers), EXIT_OK);
    key_dim = test_key_dim(info->layer, &numbers);
    for (size_t i = 0; i < COUNT(runs); i++) {
        const clattn_dtype x = runs[i].x;
        snprintf(what, sizeof what, "layer %s, x %s, weights %s", info->name, dtype_name(x),
                 runs[i].weights < DTYPES ? dtype_name(dtypes[runs[i].weights]) : "drawn");
        write_checkpoints(&checkpoint, test_path("typed"), test_path("wide"), runs[i].weights);
        write_x(safetensors_find(&numbers, "x"), test_path("x"), x);
        run_layer(info->name, key_dim, "typed", "out");
        run_layer(info->name, key_dim, "wide", "expected");
        compare_files(test_path("out"), test_path("expected"), what);
    }
    safetensors_free(&checkpoint);
    safetensors_free(&numbers);
}

static void test_layers(void **state)
{
    clattn_layer_info info;

    (void)state;
    for (int i = 1; clattn_layer_describe((clattn_layer)i, &info) == CLATTN_SUCCESS; i++)
        check_layer(&info);
}

int main(int count, char **words)
{
    const struct CMUnitTest on_host[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_mixed_vectors),
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_layers),
    };
    const struct CMUnitTest on_device[] = {
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_files_on_device),
    };

    if (count < 2)
        return 2;
    data_folder = words[1];
    return test_is_reference() ? cmocka_run_group_tests(on_host, NULL, NULL)
                               : cmocka_run_group_tests(on_device, test_device_open, test_device_close);
}
