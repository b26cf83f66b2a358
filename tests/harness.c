#include "harness.h"

#include "device/opencl.h"
#include "plan/plan.h"
#include "reference/number.h"
#include "op/rule.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

char test_log_text[4096];
static int log_counts[CLATTN_LOG_INFO + 1];
struct check_device test_device;

void test_log(void *user, clattn_log_level level, const char *message)
{
    size_t used = strlen(test_log_text);

    (void)user;
    log_counts[level]++;
    if (level == CLATTN_LOG_INFO && strstr(message, " compiled in ") != NULL)
        return; /* one a kernel would fill the text */
    snprintf(test_log_text + used, sizeof test_log_text - used, "%s\n", message);
}

void test_ran(int runs)
{
    if (runs == 0)
        fail_msg("no row of the table was run");
}

static const char *filter;

void test_filter(const char *pattern)
{
    filter = pattern;
    cmocka_set_test_filter(pattern);
}

int test_run_group(const char *name, const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup,
                   CMFixtureFunction teardown)
{
    size_t chosen = 0;

    for (size_t i = 0; i < count; i++)
        chosen += filter == NULL || fnmatch(filter, tests[i].name, 0) == 0;
    if (chosen == 0) {
        print_error("%s: no test is chosen%s%s\n", name, filter != NULL ? " by the pattern " : "",
                    filter != NULL ? filter : "");
        return 1;
    }
    return _cmocka_run_group_tests(name, tests, count, setup, teardown);
}

const char *test_folder(void)
{
    const char *folder = getenv("CLATTN_TEST_FOLDER");

    if (folder == NULL)
        fail_msg("CLATTN_TEST_FOLDER names no folder for this test's files");
    return folder;
}

void test_log_clear(void)
{
    test_log_text[0] = '\0';
    memset(log_counts, 0, sizeof log_counts);
}

int test_log_count(clattn_log_level level)
{
    return log_counts[level];
}

void test_assert_status(clattn_status actual, clattn_status expected, const char *expr, const char *file, int line)
{
    if (actual == expected)
        return;
    print_error("%s:%d: %s\n  gave \"%s\", expected \"%s\"\n  log: %s\n", file, line, expr, clattn_status_text(actual),
                clattn_status_text(expected), test_log_text);
    _fail(file, line);
}

void test_assert_logged(const char *part, const char *file, int line)
{
    if (*part != '\0' && strstr(test_log_text, part) != NULL)
        return;
    print_error("%s:%d: \"%s\" is not in the log:\n%s\n", file, line, part, test_log_text);
    _fail(file, line);
}

static const char *device_name(void)
{
    const char *name = getenv("CLATTN_TEST_DEVICE");

    return name != NULL ? name : "Portable Computing Language";
}

int test_is_reference(void)
{
    return strcmp(device_name(), "reference") == 0;
}

static cl_device_id find_device(const char *name)
{
    static clattn_device_info infos[32];
    size_t count = 0;

    clattn_devices(infos, COUNT(infos), &count);
    for (size_t i = 0; i < count && i < COUNT(infos); i++)
        if (strstr(infos[i].platform, name) != NULL || strstr(infos[i].name, name) != NULL)
            return infos[i].device;
    return NULL;
}

/* A platform of that name is there, and has no device: something is broken. Without the platform nothing is. */
static int has_platform(const char *name)
{
    const struct opencl *cl = opencl_get();
    cl_platform_id ids[16];
    cl_uint count = 0;
    int found = 0;

    if (cl == NULL || cl->GetPlatformIDs(COUNT(ids), ids, &count) != CL_SUCCESS)
        return 0;
    for (cl_uint i = 0; i < count && i < COUNT(ids); i++) {
        char text[256] = "";
        cl->GetPlatformInfo(ids[i], CL_PLATFORM_NAME, sizeof text - 1, text, NULL);
        found |= strstr(text, name) != NULL;
    }
    return found;
}

int test_device_open(void **state)
{
    const char *name = device_name();
    cl_device_id device;

    (void)state;
    if (test_is_reference())
        return 0;
    device = find_device(name);
    if (device == NULL) {
        print_error(has_platform(name) ? "the OpenCL platform %s has no device\n" : "no OpenCL device is named %s\n",
                    name);
        return 1;
    }
    test_log_clear();
    if (check_device_open(&test_device, device, test_log, NULL) == CLATTN_SUCCESS) {
        if (test_device.context->device.optimised)
            unsetenv("POCL_EXTRA_BUILD_FLAGS");
        return 0;
    }
    print_error("%s", test_log_text);
    return 1;
}

int test_device_close(void **state)
{
    (void)state;
    check_device_close(&test_device);
    return 0;
}

const char *test_engine = "none";
struct check_device test_engine_device;

int test_engine_open(void **state)
{
    if (test_device_open(state) != 0)
        return 1;
    test_engine_device = test_device;
    return clattn_context_create(&test_engine_device.context, &(clattn_context_desc){.cl = test_device.cl,
                                                                                     .device = test_device.device,
                                                                                     .log = test_log,
                                                                                     .engine = test_engine}) !=
           CLATTN_SUCCESS;
}

int test_engine_close(void **state)
{
    clattn_context_destroy(test_engine_device.context);
    return test_device_close(state);
}

static clattn_status run_reference(struct check_tensors *tensors)
{
    struct arguments operands;

    TRY(check_updatable_operands(&operands, tensors));
    return check_compute(&tensors->desc, &operands, test_log, NULL);
}

void test_run(struct check_tensors *tensors)
{
    test_log_clear();
    if (test_is_reference())
        assert_status(run_reference(tensors), SUCCESS);
    else
        assert_status(check_run(tensors, &test_device, NULL, 0, test_log, NULL), SUCCESS);
}

void test_make(struct check_tensors *tensors, const clattn_plan_desc *desc, enum check_gates gates,
               const int64_t *cu_seqlens)
{
    assert_status(check_make(tensors, desc, 1, gates, cu_seqlens), SUCCESS);
}

void test_compare(const struct check_tensor *actual, const struct check_tensor *expected, double bound,
                  const char *what)
{
    double error = check_tensor_error(actual, expected);
    int same = actual->bytes == expected->bytes && memcmp(actual->data, expected->data, actual->bytes) == 0;

    if (bound > 0 ? error <= bound : same)
        return;
    if (bound > 0)
        fail_msg("%s: %s differs, relative error %g, bound %g", what, actual->info.name, error, bound);
    fail_msg("%s: %s has other bits, relative error %g", what, actual->info.name, error);
}

void test_compare_all(const struct check_tensors *actual, const struct check_tensors *expected, double bound,
                      const char *what)
{
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (expected->tensor[id].info.output && expected->tensor[id].data != NULL)
            test_compare(&actual->tensor[id], &expected->tensor[id], bound, what);
}

cl_mem test_buffer(size_t bytes, const void *data)
{
    const struct opencl *cl = opencl_get();
    cl_int error;
    cl_mem buffer = cl->CreateBuffer(test_device.cl, CL_MEM_READ_WRITE, bytes, NULL, &error);

    assert_int_equal(error, CL_SUCCESS);
    if (data != NULL)
        assert_int_equal(cl->EnqueueWriteBuffer(test_device.queue, buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL),
                         CL_SUCCESS);
    return buffer;
}

struct arguments test_operands(const struct check_tensors *tensors, const clattn_plan *plan)
{
    struct arguments operands = {.seq_len = CLATTN_WHOLE};
    size_t bytes;

    for (int id = 1; id < OPERAND_COUNT; id++)
        if (tensors->tensor[id].data != NULL)
            operands.of[id].buffer = test_buffer(tensors->tensor[id].bytes, tensors->tensor[id].data);
    assert_status(clattn_plan_workspace_size(plan, &bytes), SUCCESS);
    operands.workspace.buffer = test_buffer(bytes + 4, NULL);
    return operands;
}

void test_operands_free(struct arguments *operands)
{
    const struct opencl *cl = opencl_get();

    for (int id = 1; id < OPERAND_COUNT; id++)
        if (operands->of[id].buffer != NULL)
            cl->ReleaseMemObject(operands->of[id].buffer);
    cl->ReleaseMemObject(operands->workspace.buffer);
}

double test_get(const struct check_tensors *tensors, clattn_operand_id id, int64_t i)
{
    return number_load(tensors->tensor[id].info.dtype, tensors->tensor[id].data, i);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* As torch.nn.functional.softplus has it */
static double softplus(double x)
{
    return x > 20 ? x : log(1 + exp(x));
}

/* Mamba-2's step within its time_step_limit, as torch.clamp has it */
static double step_of(const clattn_plan_desc *desc, double x)
{
    const double step = fmax(softplus(x), desc->step_min);

    return desc->step_max > 0 ? fmin(step, desc->step_max) : step;
}

/* As it is; Mamba-2's and Gated DeltaNet's; Kimi Linear's with a lower bound; GLA's log-sigmoid; RWKV-6's */
static double mapped_gate(const clattn_plan_desc *desc, double x, double a_log)
{
    const double made[] = {x, -exp(a_log) * step_of(desc, x), desc->gate_scale * sigmoid(exp(a_log) * x),
                           desc->gate_scale * -softplus(-x), -exp(x)};

    return made[desc->gate_map];
}

double test_get_mapped(const struct check_tensors *tensors, clattn_operand_id id, int64_t i)
{
    const clattn_plan_desc *desc = &tensors->desc;
    const clattn_operand_info *info = &tensors->tensor[id].info;
    int64_t channels = info->rank == 4 ? info->dims[3] : 1;
    double x = test_get(tensors, id, i), a_log = 0;

    if (id == OP(BETA) && desc->beta_map == CLATTN_BETA_SOFTPLUS)
        return step_of(desc,
                       desc->flags & CLATTN_WITH_DT_BIAS ? x + test_get(tensors, OP(DT_BIAS), i % info->dims[2]) : x);
    if (id == OP(BETA) && desc->beta_map != CLATTN_BETA_STRENGTH)
        return desc->beta_map * sigmoid(x);
    if (id != (desc->rule == CLATTN_GATES ? OP(V) : rule_get(desc->rule)->gate) ||
        desc->gate_map == CLATTN_GATE_MAP_LOG)
        return x;
    if (desc->flags & CLATTN_WITH_DT_BIAS)
        x += test_get(tensors, OP(DT_BIAS), i % (info->dims[2] * channels));
    if (desc->flags & CLATTN_WITH_A_LOG)
        a_log = test_get(tensors, OP(A_LOG), i / channels % info->dims[2]);
    return mapped_gate(desc, x, a_log);
}

void test_set(struct check_tensors *tensors, clattn_operand_id id, int64_t i, double value)
{
    number_store(tensors->tensor[id].info.dtype, tensors->tensor[id].data, i, value);
}

void test_set_all(struct check_tensors *tensors, clattn_operand_id id, double value)
{
    int64_t count = check_count(&tensors->tensor[id].info);

    for (int64_t i = 0; i < count; i++)
        test_set(tensors, id, i, value);
}

void test_spread(struct check_tensors *to, clattn_operand_id to_id, const struct check_tensors *from,
                 clattn_operand_id from_id, int64_t repeat)
{
    int64_t count = check_count(&to->tensor[to_id].info);

    assert_int_equal(count, check_count(&from->tensor[from_id].info) * repeat);
    for (int64_t i = 0; i < count; i++)
        test_set(to, to_id, i, test_get(from, from_id, i / repeat));
}

void test_copy(struct check_tensors *to, clattn_operand_id to_id, const struct check_tensors *from,
               clattn_operand_id from_id)
{
    test_spread(to, to_id, from, from_id, 1);
}

void test_copy_tokens(struct check_tensors *to, int64_t to_first, const struct check_tensors *from, int64_t from_first,
                      int64_t count, clattn_operand_id id)
{
    const struct check_tensor *source = &from->tensor[id], *target = &to->tensor[id];
    int64_t batch = source->info.dims[0], to_rows = target->info.dims[1], from_rows = source->info.dims[1];
    size_t row = source->bytes / (size_t)(batch * from_rows);

    for (int64_t b = 0; b < batch; b++)
        memcpy((char *)target->data + (size_t)(b * to_rows + to_first) * row,
               (const char *)source->data + (size_t)(b * from_rows + from_first) * row, (size_t)count * row);
}

static void take_tensor(struct check_tensor *to, const struct check_tensor *from, const char *dims,
                        struct test_slice slice, int64_t steps)
{
    size_t step = dims[0] == 'N' ? from->bytes / (size_t)from->info.dims[0] : 0, skip = step * (size_t)slice.sequence;

    if (dims[0] == 'B') {
        step = from->bytes / (size_t)(from->info.dims[0] * from->info.dims[1]);
        skip = step * (size_t)(slice.batch * from->info.dims[1] + slice.first * (dims[1] == 'S' ? steps : 1));
    }
    memcpy(to->data, (const char *)from->data + skip, to->bytes);
}

void test_take(struct check_tensors *part, const struct check_tensors *whole, struct test_slice slice)
{
    struct operand_row rows[OPERAND_COUNT];
    clattn_plan_desc desc = whole->desc;
    int count;

    desc.batch = 1;
    desc.seq_len = slice.count;
    desc.sequences = 0;
    desc.flags &= ~(CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_INT64);
    assert_status(check_allocate(part, &desc), SUCCESS);
    count = rule_operands(&part->desc, rows);
    for (int i = 0; i < count; i++)
        take_tensor(&part->tensor[rows[i].id], &whole->tensor[rows[i].id], rows[i].dims, slice, desc.steps);
}

int test_has_tokens(const struct operand_row *operand)
{
    return operand->dims[0] == 'B' && operand->id != OP(O);
}

void test_spoil(struct check_tensors *tensors, clattn_operand_id id, int64_t token, double value)
{
    const clattn_operand_info *info = &tensors->tensor[id].info;
    int64_t steps = info->dims[1] / tensors->tensor[OP(O)].info.dims[1];
    int64_t width = check_count(info) / (info->dims[0] * info->dims[1] * info->dims[2]);

    for (int64_t i = 0; i < width; i++)
        test_set(tensors, id, ((token + 1) * steps - 1) * info->dims[2] * width + i, value);
}

void test_assert_spoiled(clattn_status status, clattn_dtype dtype)
{
    if (dtype == CLATTN_F16 && status == CLATTN_DEVICE_ERROR && strstr(test_log_text, "not written") != NULL)
        return;
    assert_status(status, SUCCESS);
}

void test_compare_beyond(const struct check_tensors *spoiled, const struct check_tensors *clean,
                         struct test_reach reach, const char *what)
{
    const int64_t *dims = clean->tensor[OP(O)].info.dims, count = check_count(&clean->tensor[OP(O)].info);
    int reached = 0;

    for (int64_t i = 0; i < count; i++) {
        int64_t head = i / dims[3] % dims[2], token = i / (dims[3] * dims[2]) % dims[1];
        int64_t batch = i / (dims[3] * dims[2] * dims[1]);
        double x = test_get(spoiled, OP(O), i), expected = test_get(clean, OP(O), i);
        int same = memcmp(&x, &expected, sizeof x) == 0;
        if (batch == 0 && head < reach.heads && token >= reach.first && token < reach.end)
            reached |= !same;
        else if (!same || !isfinite(expected))
            fail_msg("%s: o of batch %lld, token %lld, head %lld is %g, not %g", what, (long long)batch,
                     (long long)token, (long long)head, x, expected);
    }
    if (!reached)
        fail_msg("%s: reaches no output at all", what);
}

int test_is_piece(clattn_rule rule)
{
    return rule_get(rule) != NULL && rule_get(rule)->op == OP_PIECE;
}

int test_has_gradients(clattn_rule rule)
{
    clattn_plan_desc desc = {
        .rule = rule, .seq_len = 4, .heads = 2, .key_dim = 4, .value_dim = 4, .pass = CLATTN_PASS_BACKWARD};
    clattn_plan_desc full;

    check_fit(&desc);
    return clattn_plan_desc_complete(&full, &desc, NULL, NULL) == CLATTN_SUCCESS;
}

const char *test_rule_name(clattn_rule rule)
{
    clattn_rule_info info;

    assert_int_equal(clattn_rule_describe(rule, &info), CLATTN_SUCCESS);
    return info.name;
}

int test_words_in_common(const char *rule, const char *other)
{
    const struct rule *a = rule_get(clattn_rule_find(rule)), *b = rule_get(clattn_rule_find(other));

    return (a->decay == b->decay) | (a->erase == b->erase) << 1 | (a->write == b->write) << 2 |
           (a->read == b->read) << 3;
}

struct opencl *test_opencl_table(void)
{
    union {
        const struct opencl *fixed;
        struct opencl *open;
    } pointer = {opencl_get()};
    return pointer.open;
}

void test_tuned_set(struct tuned *tuned, const char *name, int value)
{
    for (int i = 0; tuned->space->parameters[i].name != NULL; i++)
        if (strcmp(tuned->space->parameters[i].name, name) == 0) {
            tuned->values[i] = value;
            return;
        }
    fail_msg("%s has no parameter %s", tuned->space->name, name);
}

int test_kind_applies(const struct test_kind *kind, clattn_rule rule)
{
    return check_mode_applies(rule, kind->mode) &&
           (strcmp(kind->engine, "none") == 0 || (!rule_has_list(rule_get(rule)) && !rule_has_levels(rule_get(rule))));
}

struct check_device test_kind_device(const struct test_kind *kind)
{
    struct check_device device = test_device;

    test_log_clear();
    assert_status(clattn_context_create(&device.context, &(clattn_context_desc){.cl = test_device.cl,
                                                                                .device = test_device.device,
                                                                                .log = test_log,
                                                                                .engine = kind->engine}),
                  SUCCESS);
    return device;
}

clattn_plan *test_kind_plan(const struct test_kind *kind, const struct check_device *device,
                            const clattn_plan_desc *desc)
{
    struct tuned tuned = tuned_default(space_find("matrix_scan"));
    clattn_plan_desc cut = *desc;
    clattn_plan *plan;
    char text[4096], segments[32];

    snprintf(segments, sizeof segments, "segments %d, gathers", kind->segments);
    if (kind->segments > 0) {
        cut.chunk = 16;
        test_tuned_set(&tuned, "scan.block_v", 16);
        test_tuned_set(&tuned, "scan.segments", kind->segments);
    }
    assert_status(plan_create(&plan, device->context, &cut, kind->segments > 0 ? &tuned : NULL), SUCCESS);
    assert_status(clattn_plan_describe(plan, text, sizeof text), SUCCESS);
    if ((strcmp(kind->engine, "none") != 0) != (strstr(text, "scan_matrix") != NULL) ||
        (kind->segments > 0 && strstr(text, segments) == NULL))
        fail_msg("%s: not so:\n%s", kind->name, text);
    return plan;
}
