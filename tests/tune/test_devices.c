/* test_devices FILE…: what `clattn tune --submit` wrote elsewhere. A plan made as for its device, with the parameters of
 * each of its entries, is right here; those of a matrix engine on its emulation. */
#include "harness.h"

#include "base/file.h"
#include "op/problem.h"
#include "plan/plan.h"
#include "tune/device_facts.h"
#include "tune/tuning_layers.h"

#include <stdio.h>
#include <string.h>

static const char *path;

/* The first rule of an entry's group. */
static clattn_plan_desc desc_of(const struct tuning_entry *entry)
{
    clattn_plan_desc desc = {.batch = 2,
                             .seq_len = 75,
                             .heads = 2,
                             .key_dim = entry->key_dim,
                             .value_dim = entry->value_dim,
                             .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE};
    struct problem problem;
    char group[32];

    for (int dtype = CLATTN_F32; dtype <= CLATTN_BF16; dtype++)
        if (strcmp(dtype_name((clattn_dtype)dtype), entry->dtype) == 0)
            desc.dtype = (clattn_dtype)dtype;
    for (desc.rule = CLATTN_RULE_NONE + 1; desc.rule < RULE_COUNT; desc.rule++) {
        clattn_plan_desc fitted = desc;
        check_fit(&fitted);
        if (problem_init(&problem, &fitted, NULL) == CLATTN_SUCCESS &&
            strcmp(tuning_group(&problem, group), entry->group) == 0)
            return fitted;
    }
    fail_msg("%s: no rule is of group %s", path, entry->group);
    return desc;
}

/* "none", or the twin of the engine that the vendor's devices have. */
static const char *engine_of_entry(const struct tuning_entry *entry)
{
    if (!space_find(entry->solver)->engine)
        return "none";
    return strstr(entry->vendor, "NVIDIA") != NULL  ? "nvidia_emulated"
           : strstr(entry->vendor, "Intel") != NULL ? "intel_16_emulated"
                                                    : "amd_cdna_emulated";
}

static void run_entry(const struct tuning_entry *entry)
{
    const clattn_plan_desc desc = desc_of(entry);
    const struct test_kind kind = {.name = entry->solver, .engine = engine_of_entry(entry)};
    struct check_device device = test_kind_device(&kind);
    const struct log log = {test_log, NULL};
    struct check_tensors tensors, expected;
    clattn_plan *plan;
    char what[200];

    snprintf(what, sizeof what, "%s: %s %s %s", path, entry->group, entry->dtype, entry->solver);
    assert_status(device_facts_read(path, &device.context->device, &log), SUCCESS);
    test_log_clear();
    if (plan_create(&plan, device.context, &desc, &entry->tuned) != CLATTN_SUCCESS)
        fail_msg("%s: no plan\n%s", what, test_log_text);
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    assert_status(check_run_plan(&tensors, &device, plan, test_log, NULL), SUCCESS);
    test_compare_all(&tensors, &expected, check_bound(desc.dtype), what);
    check_free(&tensors), check_free(&expected);
    clattn_plan_destroy(plan);
    clattn_context_destroy(device.context);
}

static void test_file(void **state)
{
    struct tuning_table table = {NULL, 0};
    char why[96] = "";
    size_t size;
    char *json;

    path = *state;
    json = file_read(path, TUNING_FILE_LIMIT, &size);
    assert_non_null(json);
    if (tuning_table_parse(&table, json, NULL, why, sizeof why) != 0)
        fail_msg("%s: %s", path, why);
    assert_true(table.count > 0);
    for (size_t i = 0; i < table.count; i++) {
        assert_string_equal(table.entries[i].device, table.entries[0].device);
        run_entry(&table.entries[i]);
    }
    tuning_table_free(&table);
    free(json);
}

int main(int argc, char **argv)
{
    enum { MOST = 256 };
    static struct CMUnitTest tests[MOST];
    int count = 0;

    for (int i = 1; i < argc && count < MOST; i++)
        tests[count++] = (struct CMUnitTest){argv[i], test_file, NULL, NULL, argv[i]};
    if (count == 0) {
        print_error("usage: test_devices FILE…\n");
        return 2;
    }
    return test_run_group("devices", tests, (size_t)count, test_device_open, test_device_close);
}
