/* Solvers that are modules, without a device: what their kernels are called with is bound, and no kernel's text depends
 * on lengths but through tiles. */
#include "harness.h"

#include "op/options.h"
#include "plan/gemm.h"
#include "solve/solve.h"
#include "tune/space.h"

#include <string.h>

/* ---- Devices and problems -----------------------------------------------------------------------------------------
 */

static struct device serial_device(void)
{
    struct device device = {.serial = 1};

    device.info.compute_units = 8;
    device.info.max_work_group = 4096;
    device.info.local_memory = 256 << 10;
    return device;
}

static struct device gpu_device(void)
{
    struct device device = {.registers = 0};

    device.info.compute_units = 60;
    device.info.max_work_group = 1024;
    device.info.local_memory = 48 << 10;
    device.info.gpu = 1;
    return device;
}

struct place_of_test {
    struct device device;
    struct device_facts facts;
};

enum { PLACES = 4 };

/* A CPU, a GPU, and GPUs with matrix engines, of which the last has teams. */
static void set_place(struct place_of_test *place, int number)
{
    static const char *const engines[PLACES] = {NULL, NULL, "amd_cdna", "nvidia"};

    place->device = number == 0 ? serial_device() : gpu_device();
    place->facts = (struct device_facts){.device = &place->device,
                                         .engine = engines[number] != NULL ? engine_get(engines[number]) : NULL,
                                         .most_group = 256};
}

enum { SUMMARY = -1 }; /* in place of a variant's number */

/* The rule's variant of a type, of that many tokens; 0: there is none. */
static int make_problem(clattn_rule rule, int variant, clattn_dtype dtype, int64_t tokens, struct problem *problem)
{
    clattn_plan_desc desc = {.rule = rule,
                             .dtype = dtype,
                             .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                             .batch = 2,
                             .seq_len = tokens,
                             .heads = 4,
                             .key_dim = rule_get(rule)->decay == DECAY_PRODUCT ? 16 : 64,
                             .value_dim = 64};

    if (variant == SUMMARY)
        desc.flags = CLATTN_SUMMARY;
    else if (check_variant(rule, variant, &desc) == NULL)
        return 0;
    if (!(rule_flags(rule_get(rule)) & CLATTN_FINAL_STATE))
        desc.flags &= ~(uint64_t)(CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE);
    if (rule_has_levels(rule_get(rule))) /* whose default follows from the length */
        desc.levels = 16;
    check_fit(&desc);
    return problem_init(problem, &desc, NULL) == CLATTN_SUCCESS;
}

/* ---- Recipes ------------------------------------------------------------------------------------------------------
 */

struct made {
    struct ir_recipe ir;
    struct built built;
};

static clattn_status make(struct made *made, const struct solver *solver, const struct device_facts *facts,
                          const struct problem *problem, const struct built *like)
{
    clattn_context context = {.device = *facts->device, .engine = facts->engine};
    const struct log log = {test_log, NULL};
    const struct planner planner = {&context, &log, planner_choose_untried};
    struct builder builder;

    memset(made, 0, sizeof *made);
    builder = (struct builder){
        .ir = &made->ir, .built = &made->built, .like = like, .problem = problem, .facts = facts, .planner = &planner};
    return build_recipe(&builder, solver, NULL);
}

static void drop(struct made *made)
{
    ir_close(&made->ir);
    built_free(&made->built);
}

/* ---- What kernels are called with ---------------------------------------------------------------------------------
 */

enum { MOST_KERNEL_PARAMETERS = 64 };
static unsigned char was_bound[FILE_COUNT][MOST_KERNEL_PARAMETERS], was_built[FILE_COUNT];

/* Tensors that the step's arguments have. */
static void note_step(const struct made *made, int number)
{
    const struct kernel_step *step = &made->built.steps[number];
    const struct kernel_signature *signature;
    int argument = made->ir.steps[number].first_argument;

    if (made->ir.steps[number].foreign != NULL)
        return;
    signature = &kernel_signatures[step->file];
    assert_true(signature->count <= MOST_KERNEL_PARAMETERS);
    was_built[step->file] = 1;
    for (int i = 0; i < signature->count; i++) {
        if (step->absent >> i & 1)
            continue;
        was_bound[step->file][i] |=
            made->ir.arguments[argument].kind != IR_TENSOR || made->ir.arguments[argument].tensor != IR_NONE;
        argument++;
    }
    assert_int_equal(argument - made->ir.steps[number].first_argument, made->ir.steps[number].argument_count);
}

/* Parameters that only a caller's choice of operands or the backward pass gives, none of the variants below. */
static int is_optional(const char *name)
{
    static const char *const names[] = {"cu", "slots", "accepted", "snapshots", "cu_kv", "lens", "erased"};

    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

/* Whether every solver can be tried, with each problem. */
static int for_all_problems(int (*try)(const struct solver *solver, const struct device_facts *facts, clattn_rule rule,
                                       int variant, clattn_dtype dtype))
{
    int runs = 0;

    for (int number = 0; number < PLACES; number++) {
        struct place_of_test place;
        set_place(&place, number);
        for (int s = 0; solver_list[s] != NULL; s++)
            for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
                for (int variant = SUMMARY, more = 1; more; variant++) {
                    clattn_plan_desc desc = {.rule = rule};
                    more = variant == SUMMARY || check_variant(rule, variant, &desc) != NULL;
                    if (more)
                        runs += try(solver_list[s], &place.facts, rule, variant, CLATTN_F32) +
                                try(solver_list[s], &place.facts, rule, variant, CLATTN_BF16);
                }
    }
    return runs;
}

static int note_length(const struct solver *solver, const struct device_facts *facts, clattn_rule rule, int variant,
                       clattn_dtype dtype, int64_t length)
{
    struct problem problem;
    struct made made;
    int is_made = 0;

    if (!make_problem(rule, variant, dtype, length, &problem))
        return 0;
    if (make(&made, solver, facts, &problem, NULL) == CLATTN_SUCCESS) {
        is_made = 1;
        for (int i = 0; i < made.built.step_count; i++)
            note_step(&made, i);
    }
    drop(&made);
    return is_made;
}

/* One token, too, where a kernel may then do more: what normalises its output. */
static int note(const struct solver *solver, const struct device_facts *facts, clattn_rule rule, int variant,
                clattn_dtype dtype)
{
    const int is_made = note_length(solver, facts, rule, variant, dtype, 5000);

    if (rule_takes(rule_get(rule), OPTION_norm))
        note_length(solver, facts, rule, variant, dtype, 1);
    return is_made;
}

/* A parameter that no recipe ever binds has a name that nothing has. */
static void test_bound(void **state)
{
    int unbound = 0;

    (void)state;
    test_ran(for_all_problems(note));
    for (int file = 0; file < FILE_COUNT; file++)
        for (int i = 0; was_built[file] && i < kernel_signatures[file].count; i++) {
            const char *name = kernel_signatures[file].parameters[i].name;
            if (was_bound[file][i] || is_optional(name))
                continue;
            print_error("%s: nothing binds %s\n", embedded_files[file].path, name);
            unbound++;
        }
    assert_int_equal(unbound, 0);
}

/* ---- Lengths ------------------------------------------------------------------------------------------------------
 */

static void assert_same_texts(const struct made *a, const struct made *b, const char *solver)
{
    assert_int_equal(a->built.step_count, b->built.step_count);
    for (int i = 0; i < a->built.step_count; i++) {
        char *x, *y;
        if (a->ir.steps[i].foreign != NULL)
            continue;
        x = kernel_source(&a->built.steps[i]);
        y = kernel_source(&b->built.steps[i]);
        if (strcmp(x, y) != 0)
            print_error("%s: kernel %s\n", solver, a->built.steps[i].name);
        assert_string_equal(x, y);
        free(x);
        free(y);
    }
}

/* The solver's tiles for many tokens, with which the self-test runs a few. */
static int compare_lengths(const struct solver *solver, const struct device_facts *facts, clattn_rule rule, int variant,
                           clattn_dtype dtype)
{
    struct problem many, few;
    struct made a, b;
    int is_made;

    if (!make_problem(rule, variant, dtype, 2000, &many) || !make_problem(rule, variant, dtype, 67, &few) ||
        (many.desc.flags & CLATTN_WITH_ATTN)) /* its columns are the tokens */
        return 0;
    is_made = make(&a, solver, facts, &many, NULL) == CLATTN_SUCCESS;
    if (is_made) {
        assert_status(make(&b, solver, facts, &few, &a.built), SUCCESS);
        assert_same_texts(&a, &b, solver->space.name);
        drop(&b);
    }
    drop(&a);
    return is_made;
}

static void test_lengths(void **state)
{
    (void)state;
    test_ran(for_all_problems(compare_lengths));
}

/* ---- Points -------------------------------------------------------------------------------------------------------
 */

/* The tiles of the point that tiles come to. */
static clattn_status tiles_again(const struct solver *solver, const struct device_facts *facts,
                                 const struct problem *problem, const int *tiles, int *again)
{
    const struct tuned tuned = solver_explicit(solver, tiles);

    assert_ptr_equal(tuned.space, &solver->space);
    return solver_tiles(solver, facts, problem, &tuned, again);
}

/* A point that was corrected is not corrected again. */
static int correct_twice(const struct solver *solver, const struct device_facts *facts, clattn_rule rule, int variant,
                         clattn_dtype dtype)
{
    int *first = calloc(1, solver->tiles_size), *second = calloc(1, solver->tiles_size), fits = 0;
    struct problem problem;

    if (make_problem(rule, variant, dtype, 500, &problem) &&
        solver_tiles(solver, facts, &problem, NULL, first) == CLATTN_SUCCESS &&
        tiles_again(solver, facts, &problem, first, second) == CLATTN_SUCCESS) {
        fits = 1;
        assert_status(tiles_again(solver, facts, &problem, second, first), SUCCESS);
        assert_memory_equal(first, second, solver->tiles_size);
    }
    free(first);
    free(second);
    return fits;
}

static void test_points(void **state)
{
    (void)state;
    test_ran(for_all_problems(correct_twice));
}

/* ---- Shapes -------------------------------------------------------------------------------------------------------
 */

static const struct solver *counted;
static int derived;

static clattn_status count_shape(const struct solver *solver, const struct device_facts *facts,
                                 const struct problem *problem, const void *tiles, void *shape)
{
    (void)solver;
    derived++;
    return counted->derive_shape(counted, facts, problem, tiles, shape);
}

/* A recipe of given tiles derives the solver's shape once. */
static int derive_once(const struct solver *solver, const struct device_facts *facts, clattn_rule rule, int variant,
                       clattn_dtype dtype)
{
    struct solver counting = *solver;
    int *tiles = calloc(1, solver->tiles_size);
    struct problem problem;
    struct made made = {.built = {.step_count = 0}};
    struct builder builder = {.ir = &made.ir, .built = &made.built, .problem = &problem, .facts = facts};
    int is_made = 0;

    counted = solver;
    derived = 0;
    counting.derive_shape = count_shape;
    if (make_problem(rule, variant, dtype, 500, &problem) &&
        solver_tiles(solver, facts, &problem, NULL, tiles) == CLATTN_SUCCESS &&
        build_recipe(&builder, &counting, tiles) == CLATTN_SUCCESS) {
        is_made = 1;
        assert_int_equal(derived, 1);
    }
    drop(&made);
    free(tiles);
    return is_made;
}

static void test_shapes(void **state)
{
    (void)state;
    test_ran(for_all_problems(derive_once));
}

/* ---- The list -----------------------------------------------------------------------------------------------------
 */

static void test_list(void **state)
{
    (void)state;
    for (int i = 0; solver_list[i] != NULL; i++) {
        const struct solver *solver = solver_list[i];
        assert_ptr_equal(solver_find(solver->space.name), solver);
        assert_true(solver->tiles_size % sizeof(int) == 0 && solver->space.format >= 1);
        for (int j = 0; solver->space.parameters[j].name != NULL; j++)
            assert_true(j < MAX_PARAMETERS && solver->space.parameters[j].field + sizeof(int) <= solver->tiles_size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound), cmocka_unit_test(test_lengths),
                                       cmocka_unit_test(test_points), cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_list)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
