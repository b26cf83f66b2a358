/* The public interface on a device: every documented refusal with its words, one plan for many lengths, queues, events,
 * threads; and that each test releases what it made. */
#include "harness.h"

#include "device/opencl.h"
#include "ledger.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

static const clattn_plan_desc usual = {.rule = CLATTN_GATED_DELTA_RULE,
                                       .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                                       .batch = 3,
                                       .seq_len = 80,
                                       .heads = 2,
                                       .key_dim = 16,
                                       .value_dim = 12,
                                       .mode = CLATTN_MODE_CHUNK};

static clattn_plan *make_plan(const clattn_plan_desc *desc)
{
    clattn_plan *plan;

    test_log_clear();
    assert_status(clattn_plan_create(&plan, test_device.context, desc), SUCCESS);
    assert_non_null(plan);
    return plan;
}

static void read_output(struct check_tensors *tensors, const struct arguments *operands, cl_command_queue queue,
                        cl_uint n_wait, const cl_event *wait)
{
    assert_int_equal(opencl_get()->EnqueueReadBuffer(queue, operands->of[CLATTN_O].buffer, CL_TRUE, 0,
                                                     tensors->tensor[OP(O)].bytes, tensors->tensor[OP(O)].data, n_wait,
                                                     wait, NULL),
                     CL_SUCCESS);
}

static void assert_right(struct check_tensors *tensors)
{
    struct check_tensors expected;

    assert_status(check_reference(&expected, tensors, test_log, NULL), SUCCESS);
    test_compare(&tensors->tensor[OP(O)], &expected.tensor[OP(O)], check_bound(tensors->desc.dtype), "o");
    check_free(&expected);
}

/* ---- Refusals -----------------------------------------------------------------------------------------------------
 */

static void test_null(void **state)
{
    clattn_context *context = (clattn_context *)&context;
    clattn_plan *plan = (clattn_plan *)&plan;
    size_t size;
    char text[8];

    (void)state;
    clattn_context_destroy(NULL);
    clattn_plan_destroy(NULL);
    assert_status(clattn_context_create(NULL, NULL), INVALID_ARGUMENT);
    assert_status(clattn_context_get(NULL, NULL, NULL), INVALID_ARGUMENT);
    assert_status(clattn_context_get(test_device.context, NULL, NULL), SUCCESS);
    assert_status(clattn_devices(NULL, 0, NULL), INVALID_ARGUMENT);
    assert_status(clattn_devices(NULL, 1, &size), INVALID_ARGUMENT);
    assert_status(clattn_plan_create(NULL, test_device.context, &usual), INVALID_ARGUMENT);
    assert_status(clattn_plan_create(&plan, NULL, &usual), INVALID_ARGUMENT);
    assert_null(plan);
    plan = (clattn_plan *)&plan;
    assert_status(clattn_plan_create(&plan, test_device.context, NULL), INVALID_ARGUMENT);
    assert_null(plan);
    assert_status(clattn_plan_workspace_size(NULL, &size), INVALID_ARGUMENT);
    assert_status(clattn_plan_describe(NULL, text, sizeof text), INVALID_ARGUMENT);
    assert_status(check_enqueue(NULL, test_device.queue, &(struct arguments){.batch = 0}, 0, NULL, NULL),
                  INVALID_ARGUMENT);
    (void)context;
}

static void test_bad_plan(void **state)
{
    clattn_plan_desc desc = usual;
    clattn_plan *plan = (clattn_plan *)&plan;

    (void)state;
    desc.key_dim = 1300;
    test_log_clear();
    assert_status(clattn_plan_create(&plan, test_device.context, &desc), INVALID_DESC);
    assert_null(plan);
    assert_logged("key_dim is 1300");
}

static void test_describe(void **state)
{
    clattn_plan *plan = make_plan(&usual);
    char whole[4096], part[16];

    (void)state;
    assert_status(clattn_plan_describe(plan, whole, sizeof whole), SUCCESS);
    assert_non_null(strstr(whole, "gated_delta_rule"));
    assert_true(strlen(whole) > sizeof part && strlen(whole) < sizeof whole - 1);
    memset(part, 'x', sizeof part);
    assert_status(clattn_plan_describe(plan, part, 10), SUCCESS);
    assert_int_equal(strlen(part), 9);
    assert_memory_equal(part, whole, 6);
    assert_string_equal(part + 6, "...");
    assert_int_equal(part[10], 'x');
    assert_status(clattn_plan_describe(plan, NULL, 10), INVALID_ARGUMENT);
    assert_status(clattn_plan_workspace_size(plan, NULL), INVALID_ARGUMENT);
    clattn_plan_destroy(plan);
}

/* One field of good operands set wrong. */
static const struct bad_call {
    size_t offset;
    int64_t value; /* of a 64-bit field; a NULL buffer where 0 */
    clattn_status status;
    const char *first, *second;
} bad_calls[] = {
#define BAD(field, value, status, first, second)                                                                       \
    {                                                                                                                  \
        offsetof(struct arguments, field), value, CLATTN_##status, first, second                                       \
    }
    BAD(of[OP(Q)].buffer, 0, INVALID_OPERAND, "operand q", "missing"),
    BAD(of[OP(O)].buffer, 0, INVALID_OPERAND, "operand o", "missing"),
    BAD(of[OP(BETA)].buffer, 0, INVALID_OPERAND, "operand beta", "missing"),
    BAD(of[OP(STATE_IN)].buffer, 0, INVALID_OPERAND, "operand initial_state", "missing"),
    BAD(of[OP(STATE_OUT)].buffer, 0, INVALID_OPERAND, "operand final_state", "missing"),
    BAD(of[OP(K)].offset, 4, INVALID_OPERAND, "k needs 7680 elements of 4 bytes", "7679"),
    BAD(of[OP(K)].offset, (int64_t)1 << 40, INVALID_OPERAND, "k", "1099511627776"),
    BAD(of[OP(V)].offset, 2, INVALID_OPERAND, "v: offset 2", "4"),
    BAD(of[OP(G)].token_stride, 7, INVALID_OPERAND, "g needs", "its memory holds 480"),
    BAD(of[OP(G)].token_stride, -2, INVALID_OPERAND, "g: its token stride is -2", "elements"),
    BAD(batch, 4, INVALID_OPERAND, "batch is 4", "3"),
    BAD(batch, -1, INVALID_OPERAND, "batch is -1", "3"),
    BAD(seq_len, -2, INVALID_OPERAND, "seq_len is -2", "-1 for it"),
    BAD(seq_len, 81, INVALID_OPERAND, "seq_len is 81", "80"),
    BAD(sequences, 1, INVALID_OPERAND, "sequences is 1", "0"),
    BAD(workspace.buffer, 0, INVALID_WORKSPACE, "workspace is missing", "bytes"),
    BAD(workspace.offset, 8, INVALID_WORKSPACE, "offset 8", "no multiple of 16"),
    BAD(workspace.offset, 16, INVALID_WORKSPACE, "workspace has", "offset 16"),
    BAD(workspace.offset, (int64_t)1 << 40, INVALID_WORKSPACE, "workspace has", "1099511627776"),
#undef BAD
};

static void test_bad_calls(void **state)
{
    clattn_plan *plan = make_plan(&usual);
    struct check_tensors tensors;
    struct arguments good, operands;
    cl_event event;

    (void)state;
    test_make(&tensors, &usual, CHECK_GATES_USUAL, NULL);
    good = test_operands(&tensors, plan);
    for (size_t i = 0; i < COUNT(bad_calls); i++) {
        operands = good;
        memcpy((char *)&operands + bad_calls[i].offset, &bad_calls[i].value, sizeof bad_calls[i].value);
        test_log_clear();
        event = (cl_event)&event;
        test_assert_status(check_enqueue(plan, test_device.queue, &operands, 0, NULL, &event), bad_calls[i].status,
                           bad_calls[i].first, __FILE__, __LINE__);
        assert_null(event);
        assert_logged(bad_calls[i].first);
        assert_logged(bad_calls[i].second);
    }
    assert_status(check_enqueue(plan, NULL, &good, 0, NULL, NULL), INVALID_ARGUMENT);
    assert_logged("queue");
    assert_status(clattn_enqueue(plan, test_device.queue, NULL, 0, NULL, NULL), INVALID_ARGUMENT);
    assert_logged("call is NULL");
    assert_status(check_enqueue(plan, test_device.queue, &good, 1, NULL, NULL), INVALID_ARGUMENT);
    assert_logged("wait");
    assert_status(check_enqueue(plan, test_device.queue, &good, 0, NULL, NULL), SUCCESS);
    read_output(&tensors, &good, test_device.queue, 0, NULL);
    assert_right(&tensors);
    test_operands_free(&good);
    check_free(&tensors);
    clattn_plan_destroy(plan);
}

static void test_foreign_queue(void **state)
{
    clattn_plan *plan = make_plan(&usual);
    struct check_device other;
    struct check_tensors tensors;
    struct arguments operands;

    (void)state;
    assert_status(check_device_open(&other, test_device.device, test_log, NULL), SUCCESS);
    test_make(&tensors, &usual, CHECK_GATES_USUAL, NULL);
    operands = test_operands(&tensors, plan);
    assert_status(check_enqueue(plan, other.queue, &operands, 0, NULL, NULL), INVALID_ARGUMENT);
    assert_logged("context");
    test_operands_free(&operands);
    check_free(&tensors);
    check_device_close(&other);
    clattn_plan_destroy(plan);
}

/* ---- Contexts and devices -----------------------------------------------------------------------------------------
 */

static void test_devices(void **state)
{
    clattn_device_info all[32], first;
    size_t count = 0, again = 0;

    (void)state;
    assert_status(clattn_devices(NULL, 0, &count), SUCCESS);
    assert_in_range(count, 1, 32);
    assert_status(clattn_devices(all, COUNT(all), &again), SUCCESS);
    assert_int_equal(again, count);
    assert_status(clattn_devices(&first, 1, &again), SUCCESS);
    assert_int_equal(again, count);
    assert_ptr_equal(first.device, all[0].device);
    assert_true(first.compute_units > 0 && first.global_memory > 0 && first.max_work_group > 0 &&
                strlen(first.name) > 0);
}

static void test_own_cl_context(void **state)
{
    clattn_context *context;
    cl_context cl;
    cl_device_id device;

    (void)state;
    assert_status(clattn_context_create(&context, &(clattn_context_desc){.cl = test_device.cl}), SUCCESS);
    assert_status(clattn_context_get(context, &cl, &device), SUCCESS);
    assert_ptr_equal(cl, test_device.cl);
    assert_ptr_equal(device, test_device.device);
    clattn_context_destroy(context);
    assert_status(clattn_context_create(&context, NULL), SUCCESS);
    clattn_context_destroy(context);
}

static void test_foreign_device(void **state)
{
    clattn_device_info all[32];
    clattn_context *context = (clattn_context *)&context;
    size_t count = 0;

    (void)state;
    assert_status(clattn_devices(all, COUNT(all), &count), SUCCESS);
    for (size_t i = 0; i < count && i < COUNT(all); i++) {
        if (all[i].device == test_device.device)
            continue;
        test_log_clear();
        assert_status(
            clattn_context_create(
                &context, &(clattn_context_desc){.cl = test_device.cl, .device = all[i].device, .log = test_log}),
            INVALID_ARGUMENT);
        assert_null(context);
        return;
    }
    skip();
}

/* ---- Lengths, queues, threads -------------------------------------------------------------------------------------
 */

static void test_lengths(void **state)
{
    static const int64_t lengths[][2] = {{3, 80}, {1, 1}, {2, 63}, {3, 17}, {1, 80}};
    clattn_plan *plan = make_plan(&usual);

    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        clattn_plan_desc desc = usual;
        struct check_tensors tensors, expected;
        desc.batch = lengths[i][0];
        desc.seq_len = lengths[i][1];
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
        test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), "a shorter call");
        check_free(&tensors);
        check_free(&expected);
    }
    clattn_plan_destroy(plan);
}

/* 0 tokens: the states are handed through, and nothing else is touched, whatever a plan's maximum is. */
static void test_empty_call(void **state)
{
    clattn_plan_desc desc = usual;

    (void)state;
    for (int mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++) {
        struct check_tensors tensors;
        struct arguments operands, host;
        clattn_plan *plan;
        cl_event done = NULL;
        float *before, *after;
        size_t bytes;
        desc.mode = (clattn_mode)mode;
        plan = make_plan(&desc);
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        operands = test_operands(&tensors, plan);
        check_operands(&host, &tensors);
        operands.seq_len = host.seq_len = 0;
        opencl_get()->ReleaseMemObject(operands.of[CLATTN_Q].buffer);
        operands.of[CLATTN_Q].buffer = NULL; /* it would have no elements */
        host.of[CLATTN_Q].host = NULL;
        bytes = tensors.tensor[OP(STATE_OUT)].bytes;
        before = tensors.tensor[OP(STATE_IN)].data;
        after = malloc(bytes);
        assert_status(check_enqueue(plan, test_device.queue, &operands, 0, NULL, &done), SUCCESS);
        assert_int_equal(opencl_get()->EnqueueReadBuffer(test_device.queue, operands.of[CLATTN_STATE_OUT].buffer,
                                                         CL_TRUE, 0, bytes, after, 1, &done, NULL),
                         CL_SUCCESS);
        assert_memory_equal(after, before, bytes);
        read_output(&tensors, &operands, test_device.queue, 0, NULL);
        for (int64_t i = 0; i < check_count(&tensors.tensor[OP(O)].info); i++)
            assert_true(isnan(((float *)tensors.tensor[OP(O)].data)[i])); /* as check_make left it */
        assert_status(check_compute(&desc, &host, test_log, NULL), SUCCESS);
        assert_memory_equal(tensors.tensor[OP(STATE_OUT)].data, before, bytes);
        opencl_get()->ReleaseEvent(done);
        free(after);
        test_operands_free(&operands);
        check_free(&tensors);
        clattn_plan_destroy(plan);
    }
}

/* The plan must wait for what fills its inputs on another queue, and its event must cover its outputs; the plan is gone
 * before the work is done. */
static void check_queue(cl_command_queue_properties properties)
{
    const struct opencl *cl = opencl_get();
    clattn_plan *plan = make_plan(&usual);
    struct check_tensors tensors;
    struct arguments operands;
    cl_int error;
    cl_command_queue queue = cl->CreateCommandQueue(test_device.cl, test_device.device, properties, &error);
    cl_event filled[2], done;

    assert_int_equal(error, CL_SUCCESS);
    test_make(&tensors, &usual, CHECK_GATES_USUAL, NULL);
    operands = test_operands(&tensors, plan);
    for (int i = 0; i < 2; i++) {
        clattn_operand_id id = i == 0 ? OP(Q) : OP(V);
        size_t bytes = tensors.tensor[id].bytes;
        cl_mem buffer = operands.of[id].buffer;
        void *zeros = calloc(1, bytes);
        assert_int_equal(cl->EnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, bytes, zeros, 0, NULL, NULL), CL_SUCCESS);
        assert_int_equal(cl->EnqueueWriteBuffer(test_device.queue, buffer, CL_FALSE, 0, bytes, tensors.tensor[id].data,
                                                0, NULL, &filled[i]),
                         CL_SUCCESS);
        assert_int_equal(cl->Flush(test_device.queue), CL_SUCCESS);
        free(zeros);
    }
    assert_status(check_enqueue(plan, queue, &operands, 2, filled, &done), SUCCESS);
    clattn_plan_destroy(plan);
    assert_int_equal(cl->Flush(queue), CL_SUCCESS);
    read_output(&tensors, &operands, test_device.queue, 1, &done);
    assert_right(&tensors);
    cl->ReleaseEvent(filled[0]);
    cl->ReleaseEvent(filled[1]);
    cl->ReleaseEvent(done);
    cl->Finish(queue);
    cl->ReleaseCommandQueue(queue);
    test_operands_free(&operands);
    check_free(&tensors);
}

static void test_queues(void **state)
{
    (void)state;
    check_queue(0);
    check_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
}

enum { THREADS = 4, REPEATS = 5 };

struct worker {
    clattn_plan *plan;
    struct check_device device; /* with a queue of its own */
    struct check_tensors tensors;
    clattn_status status;
};

static void *work(void *user)
{
    struct worker *worker = user;

    for (int i = 0; i < REPEATS && worker->status == CLATTN_SUCCESS; i++)
        worker->status = check_run_plan(&worker->tensors, &worker->device, worker->plan, NULL, NULL);
    return NULL;
}

static void test_threads(void **state)
{
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    clattn_plan *plan = make_plan(&usual);
    cl_int error;

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        clattn_plan_desc desc = usual;
        desc.seq_len -= i * 7;
        workers[i] = (struct worker){.plan = plan, .device = test_device};
        workers[i].device.queue = opencl_get()->CreateCommandQueue(test_device.cl, test_device.device, 0, &error);
        assert_int_equal(error, CL_SUCCESS);
        assert_status(check_make(&workers[i].tensors, &desc, (uint64_t)i, CHECK_GATES_USUAL, NULL), SUCCESS);
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_status(workers[i].status, SUCCESS);
        assert_right(&workers[i].tensors);
        check_free(&workers[i].tensors);
        opencl_get()->ReleaseCommandQueue(workers[i].device.queue);
    }
    clattn_plan_destroy(plan);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ledger_begin, ledger_check_plans)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_null),          TEST(test_bad_plan), TEST(test_describe),       TEST(test_bad_calls),
        TEST(test_foreign_queue), TEST(test_devices),  TEST(test_own_cl_context), TEST(test_foreign_device),
        TEST(test_lengths),       TEST(test_queues),   TEST(test_threads),        TEST(test_empty_call),
    };

    ledger_open();
    return cmocka_run_group_tests(tests, test_device_open, test_device_close) + ledger_close();
}
