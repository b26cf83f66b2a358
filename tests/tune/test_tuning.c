/* Measured parameters: the file's text, damaged in every byte; the layers; what makes an entry count; the self-test. */
#include "harness.h"

#include "device/context.h"
#include "base/file.h"
#include "plan/plan.h"
#include "solve/blocks/blocks.h"
#include "tune/tiles.h"
#include "tune/tuning_table.h"
#include "tune/tuning_layers.h"

#include <stdio.h>
#include <string.h>
#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

static const clattn_plan_desc desc = {.rule = CLATTN_GATED_DELTA_RULE,
                                      .seq_len = 20,
                                      .heads = 2,
                                      .key_dim = 16,
                                      .value_dim = 16,
                                      .mode = CLATTN_MODE_CHUNK};

static struct tuning_layers *layers(void)
{
    return test_device.context->tuning;
}

static int forget(void **state)
{
    (void)state;
    for (int i = 0; i < LAYER_COUNT; i++)
        tuning_table_free(&layers()->tables[i]);
    test_device.context->self_test = 1;
    test_log_clear();
    return 0;
}

/* An entry of a solver that fits desc on the device under test. */
static struct tuning_entry solver_entry(const char *solver, int chunk)
{
    struct tuning_entry entry;
    struct problem problem;

    assert_status(problem_init(&problem, &desc, NULL), SUCCESS);
    tuning_key(&entry, test_device.context, &problem, space_find(solver));
    strcpy(entry.tuner, "0.1.0");
    strcpy(entry.date, "2026-11-21");
    entry.seq_len = 20;
    entry.time_ms = 1.5;
    entry.default_ms = 2.25;
    test_tuned_set(&entry.tuned, "chunk", chunk);
    return entry;
}

static struct tuning_entry some_entry(int chunk)
{
    return solver_entry("chunk_scan", chunk);
}

static void put(int layer, const struct tuning_entry *entry)
{
    assert_status(tuning_table_put(&layers()->tables[layer], entry), SUCCESS);
}

/* Makes and runs the plan; its results are right whatever the entries say. */
static const char *run(void)
{
    static char text[2048];
    static struct check_tensors expected;
    struct check_tensors tensors;

    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    if (expected.tensor[CLATTN_O].data == NULL)
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    assert_status(check_run(&tensors, &test_device, text, sizeof text, test_log, NULL), SUCCESS);
    test_compare_all(&tensors, &expected, check_bound(desc.dtype), text);
    check_free(&tensors);
    return text;
}

#define assert_describes(part)                                                                                         \
    do {                                                                                                               \
        const char *text_ = run();                                                                                     \
        if (strstr(text_, part) == NULL)                                                                               \
            fail_msg("\"%s\" is not in the description:\n%s", part, text_);                                            \
    } while (0)

/* ---- The text ---- */

static void test_text(void **state)
{
    struct tuning_table table = {NULL, 0}, again = {NULL, 0};
    struct tuning_entry entry = some_entry(32), other = some_entry(8);
    char *json, *second, why[96];

    (void)state;
    other.heads = 64;
    assert_status(tuning_table_put(&table, &other), SUCCESS);
    assert_status(tuning_table_put(&table, &entry), SUCCESS);
    entry.time_ms = 1.25;
    assert_status(tuning_table_put(&table, &entry), SUCCESS);
    assert_int_equal(table.count, 2);
    json = tuning_table_print(&table);
    assert_int_equal(tuning_table_parse(&again, json, NULL, why, sizeof why), 0);
    second = tuning_table_print(&again);
    assert_string_equal(json, second);
    assert_non_null(strstr(json, "\"chunk\":32"));
    free(json);
    free(second);
    tuning_table_free(&table);
    tuning_table_free(&again);
}

/* The table that is compiled in: every entry is understood, of its solver's format, measured, and better than the default
 * or the default. */
static void test_shipped(void **state)
{
    struct tuning_table table = {NULL, 0};
    char why[96];

    (void)state;
    assert_int_equal(tuning_table_parse(&table, embedded_files[FILE_shipped].text, NULL, why, sizeof why), 0);
    assert_true(table.count > 0);
    for (size_t i = 0; i < table.count; i++) {
        const struct tuning_entry *entry = &table.entries[i];
        assert_int_equal(entry->format, entry->tuned.space->format);
        assert_true((entry->engine[0] != '\0') == entry->tuned.space->engine);
        if (entry->time_ms <= 0 || entry->time_ms > entry->default_ms || entry->error <= 0)
            fail_msg("shipped.json: %s %s %s on %s: %g ms, default %g, error %g", entry->group, entry->dtype,
                     entry->solver, entry->device, entry->time_ms, entry->default_ms, entry->error);
    }
    tuning_table_free(&table);
}

static void test_refused_texts(void **state)
{
    static const struct {
        const char *json, *why;
    } cases[] = {{"", "no JSON"},
                 {"{\"format\": \"x\"", "no JSON"},
                 {"[]", "format"},
                 {"{\"format\": \"other\", \"version\": 1, \"entries\": []}", "format"},
                 {"{\"format\": \"clattn tuning\", \"version\": 7, \"entries\": []}", "version 7"},
                 {"{\"format\": \"clattn tuning\", \"version\": 2}", "entries"},
                 {"{\"format\": \"clattn tuning\", \"version\": 2, \"entries\": [{}, 3]}", "2 entries"}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        test_log_clear();
        assert_status(clattn_context_set_tuning(test_device.context, cases[i].json), INVALID_ARGUMENT);
        assert_logged(cases[i].why);
    }
    assert_status(clattn_context_set_tuning(NULL, "{}"), INVALID_ARGUMENT);
    assert_status(clattn_context_set_tuning(test_device.context, NULL), INVALID_ARGUMENT);
}

/* The device's file with one byte changed, or cut there: as much of it counts as is understood, and results are right.
 */
static void use_damaged(const char *json)
{
    char why[96];

    tuning_table_free(&layers()->tables[LAYER_FILE]);
    tuning_table_parse(&layers()->tables[LAYER_FILE], json, test_device.context->device.info.name, why, sizeof why);
    run();
}

static void test_damaged_text(void **state)
{
    struct tuning_table table = {NULL, 0};
    struct tuning_entry entry = some_entry(8);
    char *json;
    size_t size;

    (void)state;
    test_tuned_set(&entry.tuned, "scan.block_v", 16);
    assert_status(tuning_table_put(&table, &entry), SUCCESS);
    json = tuning_table_print(&table);
    size = strlen(json);
    for (size_t i = 0; i < size; i++) {
        char kept = json[i];
        for (int bit = 0; bit < 7; bit += 3) {
            json[i] = (char)(kept ^ (1 << bit));
            use_damaged(json);
        }
        json[i] = '\0';
        if (i % 8 == 0)
            use_damaged(json);
        json[i] = kept;
    }
    free(json);
    tuning_table_free(&table);
}

/* Processes that write at once lose nothing. */
static void test_writers(void **state)
{
#ifndef _WIN32
    enum { WRITERS = 6, EACH = 5 };
    struct tuning_table table = {NULL, 0};
    char path[512], why[96], *json;
    size_t size;
    int status;

    (void)state;
    snprintf(path, sizeof path, "%s/tuning.json", test_folder());
    remove(path);
    for (int w = 0; w < WRITERS; w++)
        if (fork() == 0) {
            for (int i = 0; i < EACH; i++) {
                struct tuning_entry entry = some_entry(8);
                entry.heads = 1 + w * EACH + i;
                tuning_table_free(&table);
                if (tuning_table_put(&table, &entry) != CLATTN_SUCCESS ||
                    tuning_table_save(&table, path, NULL) != CLATTN_SUCCESS)
                    _exit(1);
            }
            _exit(0);
        }
    for (int w = 0; w < WRITERS; w++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    json = file_read(path, TUNING_FILE_LIMIT, &size);
    assert_non_null(json);
    assert_int_equal(tuning_table_parse(&table, json, NULL, why, sizeof why), 0);
    assert_int_equal(table.count, WRITERS * EACH);
    free(json);
    tuning_table_free(&table);
#else
    (void)state;
#endif
}

/* ---- What counts ---- */

static void test_layers(void **state)
{
    static const int chunks[LAYER_COUNT] = {8, 32, 64};

    (void)state;
    assert_describes("tiles by rule of thumb");
    for (int layer = LAYER_COUNT - 1; layer >= 0; layer--) {
        struct tuning_entry entry = some_entry(chunks[layer]);
        char part[64];
        put(layer, &entry);
        snprintf(part, sizeof part, "chunk %d,", chunks[layer]);
        assert_describes(part);
        if (layer != LAYER_FILE)
            assert_describes(tuning_layer_name(layers(), layer));
    }
}

static void test_ignored(void **state)
{
    struct tuning_entry entry = some_entry(8);

    (void)state;
    entry.format++;
    put(LAYER_FILE, &entry);
    entry = some_entry(8);
    strcpy(entry.engine, "another");
    put(LAYER_FILE, &entry);
    assert_describes("tiles by rule of thumb");
    entry = some_entry(8);
    strcpy(entry.vendor, "another");
    put(LAYER_FILE, &entry);
    entry = some_entry(8);
    entry.key_dim = 32;
    put(LAYER_FILE, &entry);
    entry = some_entry(8);
    strcpy(entry.dtype, "f16");
    put(LAYER_FILE, &entry);
    assert_describes("tiles by rule of thumb");
    entry = some_entry(8);
    strcpy(entry.driver, "another");
    put(LAYER_FILE, &entry);
    assert_describes("chunk 8,");
    test_device.context->self_test = 0;
    assert_describes("tiles by rule of thumb");
}

/* The description of a plan that is not run. */
static const char *planned(const clattn_plan_desc *wanted)
{
    static char text[2048];
    clattn_plan *plan;

    assert_status(clattn_plan_create(&plan, test_device.context, wanted), SUCCESS);
    clattn_plan_describe(plan, text, sizeof text);
    clattn_plan_destroy(plan);
    return text;
}

/* Where groups share tiles (solver chunk_blocks), those of an entry more than two doublings away are not taken. */
static void test_nearest_heads(void **state)
{
    struct tuning_entry near = solver_entry("chunk_blocks", 16), far = some_entry(32);
    int *serial = &test_device.context->device.serial, had = *serial;

    (void)state;
    near.heads = far.heads = 64;
    put(LAYER_FILE, &far);
    put(LAYER_FILE, &near);
    *serial = 0;
    assert_non_null(strstr(planned(&desc), "tiles by rule of thumb"));
    *serial = 1;
    assert_non_null(strstr(planned(&desc), "chunk 32,"));
    near.heads = 16;
    put(LAYER_FILE, &near);
    *serial = 0;
    assert_non_null(strstr(planned(&desc), "tiles by rule of thumb"));
    near.heads = 8;
    put(LAYER_FILE, &near);
    assert_non_null(strstr(planned(&desc), "chunk 16,"));
    *serial = had;
    assert_describes("chunk 32,");
}

/* Tiles that the device cannot have: groups on a CPU, more local memory than there is. */
static void test_impossible(void **state)
{
    struct tuning_entry entry = some_entry(64);
    uint64_t *local = &test_device.context->device.info.local_memory, had = *local;

    (void)state;
    put(LAYER_FILE, &entry);
    *local = 24 << 10;
    assert_describes("tiles by rule of thumb");
    *local = had;
    assert_describes("chunk 64,");
    if (!test_device.context->device.serial)
        return;
    test_tuned_set(&entry.tuned, "scan.group", 64);
    put(LAYER_FILE, &entry);
    assert_describes("tiles by rule of thumb");
}

/* Groups of many work-items on a device that has one, with records that are no multiple of a group: not a float past a
 * record is written. */
static void test_records(void **state)
{
    static const int groups[] = {16, 64, 256};
    int *serial = &test_device.context->device.serial, had = *serial;
    clattn_plan_desc short_desc = desc;
    struct check_tensors tensors, expected;

    (void)state;
    short_desc.seq_len = 45;
    *serial = 0;
    test_make(&tensors, &short_desc, CHECK_GATES_USUAL, NULL);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    for (size_t i = 0; i < COUNT(groups); i++) {
        struct tuned tuned = tuned_default(space_find("chunk_scan"));
        clattn_plan *plan;
        test_tuned_set(&tuned, "chunk", 8);
        test_tuned_set(&tuned, "prepare.group", groups[i]);
        assert_status(plan_create(&plan, test_device.context, &short_desc, &tuned), SUCCESS);
        for (int again = 0; again < 20; again++) {
            assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
            test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), "groups on a serial device");
        }
        clattn_plan_destroy(plan);
    }
    *serial = had;
    check_free(&tensors);
    check_free(&expected);
}

/* Where groups share tiles, no point whose state a lane's registers cannot hold; on a CPU it is one. */
static void test_state_in_registers(void **state)
{
    const int lanes[] = {1, 4, 8, 16};
    clattn_plan_desc token = {.rule = CLATTN_RETENTION, .seq_len = 1, .heads = 2, .key_dim = 256, .value_dim = 64};
    int *serial = &test_device.context->device.serial, had = *serial;
    struct tuned tuned = tuned_default(space_find("recurrent"));
    struct point_tiles tiles;
    struct problem problem;

    (void)state;
    assert_status(problem_init(&problem, &token, NULL), SUCCESS);
    test_tuned_set(&tuned, "vec", 4);
    test_tuned_set(&tuned, "block_v", 16);
    *serial = 0;
    for (size_t i = 0; i < COUNT(lanes); i++) {
        test_tuned_set(&tuned, "lanes_k", lanes[i]);
        assert_int_equal(tuning_point_tiles(test_device.context, &problem, &tuned, &tiles), 256 / lanes[i] * 4 <= 128);
    }
    *serial = 1;
    tuned = tuned_default(space_find("recurrent"));
    test_tuned_set(&tuned, "vec", 16);
    assert_true(tuning_point_tiles(test_device.context, &problem, &tuned, &tiles));
    *serial = had;
}

/* What a parameter of a module comes to in tiles. */
static int value_of(const char *solver, const struct point_tiles *tiles, const char *parameter)
{
    const struct tuned tuned = solver_explicit(solver_find(solver), tiles->numbers);
    int i = 0;

    while (strcmp(tuned.space->parameters[i].name, parameter) != 0)
        i++;
    return tuned.values[i];
}

/* Rows and parts that were found for long sequences are no more than a plan's length has use for. */
static void test_rows_of_length(void **state)
{
    static const struct {
        int64_t tokens, sequences;
        int rows, segments;
    } lengths[] = {{1, 0, 1, 1}, {5, 0, 4, 1}, {17, 0, 16, 2}, {64, 0, 16, 4}, {64, 8, 16, 1}};
    int *serial = &test_device.context->device.serial, had = *serial;
    struct tuned tuned = tuned_default(space_find("recurrent"));
    struct point_tiles tiles;
    struct problem problem;

    (void)state;
    test_tuned_set(&tuned, "rows", 16);
    test_tuned_set(&tuned, "segments", 4);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        const clattn_plan_desc of = {.rule = CLATTN_RETENTION,
                                     .flags = lengths[i].sequences > 0 ? CLATTN_CU_SEQLENS : 0,
                                     .seq_len = lengths[i].tokens,
                                     .sequences = lengths[i].sequences,
                                     .heads = 2,
                                     .key_dim = 16,
                                     .value_dim = 16};
        assert_status(problem_init(&problem, &of, NULL), SUCCESS);
        *serial = 0;
        assert_true(tuning_point_tiles(test_device.context, &problem, &tuned, &tiles));
        *serial = had;
        assert_int_equal(value_of("recurrent", &tiles, "rows"), lengths[i].rows);
        assert_int_equal(value_of("recurrent", &tiles, "segments"), lengths[i].segments);
    }
}

/* The solver of desc in any mode. */
static const char *chosen_solver(void)
{
    clattn_plan_desc any = desc;

    any.mode = CLATTN_MODE_AUTO;
    return strstr(planned(&any), "solver ");
}

static void test_solver_choice(void **state)
{
    const int64_t lengths[] = {-1, desc.seq_len, desc.seq_len + 1};
    struct tuning_entry chunk = some_entry(16), token, matrix;
    struct problem problem;

    (void)state;
    assert_status(problem_init(&problem, &desc, NULL), SUCCESS);
    tuning_key(&token, test_device.context, &problem, space_find("recurrent"));
    put(LAYER_FILE, &token); /* from 0 on, but the other's lengths are not known */
    assert_non_null(strstr(chosen_solver(), "solver chunk_scan"));
    chunk.from_rows = 15;
    for (token.from_rows = 10; token.from_rows <= 30; token.from_rows += 10) {
        put(LAYER_FILE, &chunk);
        put(LAYER_FILE, &token);
        assert_non_null(strstr(chosen_solver(), token.from_rows == 20 ? "solver recurrent" : "solver chunk_scan"));
    }
    token.from_rows = 20;
    put(LAYER_FILE, &token);
    tuning_key(&matrix, test_device.context, &problem, space_find("matrix_scan"));
    strcpy(matrix.engine, "another");
    for (size_t i = 0; i < COUNT(lengths); i++) { /* on an engine that is not here */
        matrix.from_rows = lengths[i];
        put(LAYER_FILE, &matrix);
        assert_non_null(strstr(chosen_solver(), lengths[i] == desc.seq_len ? "solver chunk_scan" : "solver recurrent"));
    }
    matrix.from_rows = desc.seq_len; /* by a layer behind the file, which decides */
    put(LAYER_SHIPPED, &matrix);
    assert_non_null(strstr(chosen_solver(), "solver recurrent"));
}

/* Of heads more than two doublings away nothing is known of lengths either: by rule of thumb the recurrence. */
static void test_far_solver_choice(void **state)
{
    static const char *const solvers[] = {"chunk_blocks", "chunk_scan", "recurrent"};
    int *serial = &test_device.context->device.serial, had = *serial;
    struct problem problem;

    (void)state;
    assert_status(problem_init(&problem, &desc, NULL), SUCCESS);
    *serial = 0;
    for (int64_t heads = 8; heads <= 16; heads *= 2) {
        forget(NULL);
        for (size_t i = 0; i < COUNT(solvers); i++) {
            struct tuning_entry entry;
            tuning_key(&entry, test_device.context, &problem, space_find(solvers[i]));
            entry.heads = heads;
            entry.from_rows = i == 0 ? 0 : 1000;
            put(LAYER_FILE, &entry);
        }
        assert_non_null(strstr(chosen_solver(), heads == 8 ? "solver chunk_blocks" : "solver recurrent"));
    }
    *serial = had;
}

static clattn_plan_desc group_desc(clattn_rule of)
{
    return (clattn_plan_desc){
        .rule = of, .seq_len = 1, .heads = 1, .key_dim = rule_has_keys(rule_get(of)) ? 16 : 1, .value_dim = 16};
}

/* Groups have names of their own. */
static void test_group_names(void **state)
{
    char names[RULE_COUNT][32];

    (void)state;
    for (int r = CLATTN_RULE_NONE + 1; r < RULE_COUNT; r++) {
        const clattn_plan_desc any = group_desc((clattn_rule)r);
        struct problem problem;
        assert_status(problem_init(&problem, &any, NULL), SUCCESS);
        tuning_group(&problem, names[r]);
        for (int other = CLATTN_RULE_NONE + 1; other < r; other++) {
            const clattn_plan_desc before = group_desc((clattn_rule)other);
            struct problem with;
            assert_status(problem_init(&with, &before, NULL), SUCCESS);
            if (!strcmp(names[r], names[other]) && tuning_representative(&problem) != tuning_representative(&with))
                fail_msg("two groups are named %s", names[r]);
        }
    }
}

/* Any rule's key can be asked for in any solver's space: the words of all kernels hold for the tiles of a key. */
static void test_all_keys(void **state)
{
    (void)state;
    for (int r = CLATTN_RULE_NONE + 1; r < RULE_COUNT; r++) {
        const clattn_plan_desc any = group_desc((clattn_rule)r);
        struct problem problem;
        assert_status(problem_init(&problem, &any, NULL), SUCCESS);
        for (int i = 0; space_at(i) != NULL; i++) {
            struct tuning_entry entry;
            tuning_key(&entry, test_device.context, &problem, space_at(i));
            assert_string_equal(entry.solver, space_at(i)->name);
        }
    }
}

/* Where anything was measured, every solver's words are asked for: those on floats of an engine that has none, too. */
static void test_engine_without_floats(void **state)
{
    static const clattn_rule rules[] = {CLATTN_GATED_DELTA_RULE, CLATTN_SOFTMAX_ATTN};
    const struct tuning_entry entry = some_entry(16);
    const struct engine *usual = test_device.context->engine;

    (void)state;
    put(LAYER_FILE, &entry);
    test_device.context->engine = engine_get("intel_8_emulated");
    for (size_t i = 0; i < COUNT(rules); i++) {
        clattn_plan_desc other = desc;
        clattn_plan *plan;
        other.rule = rules[i];
        assert_status(clattn_plan_create(&plan, test_device.context, &other), SUCCESS);
        clattn_plan_destroy(plan);
    }
    test_device.context->engine = usual;
}

/* ---- The self-test ---- */

static cl_program(CL_API_CALL *real_source)(cl_context, cl_uint, const char **, const size_t *, cl_int *);

static cl_int(CL_API_CALL *real_build)(cl_program, cl_uint, const cl_device_id *, const char *,
                                       void(CL_CALLBACK *)(cl_program, void *), void *);

static int built;

/* With chunks of 32 every decay is another one. */
static cl_program CL_API_CALL spoil_source(cl_context context, cl_uint n, const char **text, const size_t *length,
                                           cl_int *error)
{
    const char *spoiled[2] = {"#define exp2 exp\n", text[0]};

    built++;
    if (strstr(text[0], "#define CHUNK 32\n") == NULL)
        return real_source(context, n, text, length, error);
    return real_source(context, 2, spoiled, NULL, error);
}

/* The library's own table: not const where it is defined. */
static struct opencl *table_of_functions(void)
{
    union {
        const struct opencl *fixed;
        struct opencl *open;
    } pointer = {opencl_get()};
    return pointer.open;
}

static char options_noted[128];

static cl_int CL_API_CALL note_options(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
                                       void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    (void)program, (void)n, (void)devices, (void)notify, (void)user;
    snprintf(options_noted, sizeof options_noted, "%s", options);
    return CL_BUILD_PROGRAM_FAILURE;
}

/* The kernel of chunk_blocks or matrix_blocks for a problem, with tiles by heuristic, and how many groups are to share a
 * compute unit's registers. */
static struct kernel_step step_of_blocks(const struct engine *engine, const struct problem *problem,
                                         enum blocks_part part, int *residents)
{
    const struct device_facts facts = {.device = &test_device.context->device, .engine = engine, .most_group = 256};
    const struct solver *solver = solver_find(engine != NULL ? "matrix_blocks" : "chunk_blocks");
    struct blocks_kernel kernel = {.part = part, .problem = problem, .engine = engine};
    struct blocks_tiles tiles;

    assert_status(solver_tiles(solver, &facts, problem, NULL, &tiles), SUCCESS);
    kernel.chunk = tiles.chunk;
    kernel.stretch = tiles.stretch;
    kernel.segments = tiles.segments;
    kernel.tiles = tiles.of[PASS_OUTPUTS][part];
    *residents = kernel.tiles.residents;
    return blocks_step(&kernel);
}

/* Where a compiler can be told, a lane's registers are few enough for the groups that are wanted of a compute unit: no
 * emulation can, and where a rule's kernel is not named nothing is bound. */
static void test_residents(void **state)
{
    static const struct {
        const char *engine;
        enum blocks_part part;
        clattn_rule rule;
        int64_t dim;
        int registers, residents;
    } rows[] = {
        {"nvidia", BLOCKS_OUTPUTS, CLATTN_SIMPLE_GLA, 128, 128, 2},
        {"nvidia", BLOCKS_PREPARE, CLATTN_GLA, 128, 128, 4},
        {"nvidia", BLOCKS_PREPARE, CLATTN_KDA, 128, 168, 3},
        {"nvidia", BLOCKS_PREPARE, CLATTN_RWKV7, 128, 0, 1},
        {"nvidia", BLOCKS_STATES, CLATTN_GLA, 128, 0, 1},
        {"nvidia", BLOCKS_OUTPUTS, CLATTN_SIMPLE_GLA, 16, 0, 2}, /* so few lanes that they may have all there are */
        {"nvidia_emulated", BLOCKS_OUTPUTS, CLATTN_SIMPLE_GLA, 128, 0, 2},
    };
    struct opencl *cl = table_of_functions();

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        clattn_plan_desc asked = {.rule = rows[i].rule, .seq_len = 4096, .heads = 64};
        struct problem problem;
        struct kernel_step step;
        struct kernel kernel;
        char wanted[32];
        int residents;
        asked.key_dim = asked.value_dim = rows[i].dim;
        assert_status(problem_init(&problem, &asked, NULL), SUCCESS);
        step = step_of_blocks(engine_get(rows[i].engine), &problem, rows[i].part, &residents);
        assert_int_equal(residents, rows[i].residents);
        assert_int_equal(step.registers, rows[i].registers);
        snprintf(wanted, sizeof wanted, "-cl-nv-maxrregcount=%d", step.registers);
        real_build = cl->BuildProgram;
        cl->BuildProgram = note_options;
        assert_status(kernel_create(test_device.context, &test_device.context->log, &step, &kernel, NULL),
                      BUILD_FAILED);
        cl->BuildProgram = real_build;
        if ((strstr(options_noted, wanted) != NULL) != (step.registers > 0))
            fail_msg("options are \"%s\"", options_noted);
    }
}

/* run() in a context that knows nothing yet but the entry and the cache. */
static const char *run_afresh(const struct tuning_entry *entry, const char *cache_dir)
{
    const clattn_context_desc fresh = {
        .cl = test_device.cl, .device = test_device.device, .log = test_log, .cache_dir = cache_dir};
    clattn_context *usual = test_device.context;
    const char *text;

    test_log_clear();
    built = 0;
    assert_status(clattn_context_create(&test_device.context, &fresh), SUCCESS);
    test_device.context->self_test = 1;
    put(LAYER_APPLICATION, entry);
    real_source = table_of_functions()->CreateProgramWithSource;
    table_of_functions()->CreateProgramWithSource = spoil_source;
    text = run();
    table_of_functions()->CreateProgramWithSource = real_source;
    clattn_context_destroy(test_device.context);
    test_device.context = usual;
    return text;
}

static void test_self_test(void **state)
{
    const struct tuning_entry wrong = some_entry(32), right = some_entry(8);
    char cache_dir[512];

    (void)state;
    snprintf(cache_dir, sizeof cache_dir, "%s/self_test", test_folder());
    cache_clear(cache_dir);
    assert_non_null(strstr(run_afresh(&right, ""), "the application"));
    for (int again = 0; again < 2; again++) {
        assert_non_null(strstr(run_afresh(&wrong, cache_dir), "rule of thumb"));
        assert_logged("wrong results");
        assert_int_equal(built, again == 0 ? 4 : 0); /* programs and verdict are kept */
    }
}

/* Results out of the type's range are the caller's affair, not a fault of the kernels. */
static void test_large_scale(void **state)
{
    clattn_plan_desc large = desc;
    clattn_plan *plan;

    (void)state;
    large.dtype = CLATTN_F16;
    large.scale = 1e30;
    assert_status(clattn_plan_create(&plan, test_device.context, &large), SUCCESS);
    assert_int_equal(strlen(test_log_text), 0);
    clattn_plan_destroy(plan);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_text, forget),
        cmocka_unit_test_setup(test_shipped, forget),
        cmocka_unit_test_setup(test_refused_texts, forget),
        cmocka_unit_test_setup(test_damaged_text, forget),
        cmocka_unit_test_setup(test_writers, forget),
        cmocka_unit_test_setup(test_layers, forget),
        cmocka_unit_test_setup(test_ignored, forget),
        cmocka_unit_test_setup(test_nearest_heads, forget),
        cmocka_unit_test_setup(test_impossible, forget),
        cmocka_unit_test_setup(test_state_in_registers, forget),
        cmocka_unit_test_setup(test_rows_of_length, forget),
        cmocka_unit_test_setup(test_residents, forget),
        cmocka_unit_test_setup(test_solver_choice, forget),
        cmocka_unit_test_setup(test_far_solver_choice, forget),
        cmocka_unit_test_setup(test_self_test, forget),
        cmocka_unit_test_setup(test_records, forget),
        cmocka_unit_test_setup(test_large_scale, forget),
        cmocka_unit_test_setup(test_engine_without_floats, forget),
        cmocka_unit_test(test_group_names),
        cmocka_unit_test(test_all_keys),
    };

    if (argc > 1)
        test_filter(argv[1]);
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
