/* How a plan's launches reach a queue, as functions in place of OpenCL's see it: who waits for whom, what is
 * released, and one thread at a time between a kernel's arguments and its launch. No property of the device is
 * needed. */
#include "harness.h"

#include "ledger.h"
#include "device/opencl.h"
#include "plan/plan.h"
#include "solve/gemm/gemm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* Three launches: prepare, and a scan each for the normalizer and for o */
static const clattn_plan_desc desc = {.rule = CLATTN_LINEAR_ATTN,
                                      .flags = CLATTN_NORMALIZE,
                                      .seq_len = 20,
                                      .heads = 2,
                                      .key_dim = 8,
                                      .value_dim = 8,
                                      .mode = CLATTN_MODE_CHUNK};

enum { MOST = 24 };

/* What the library is told of the queue, and what it did with it */
static struct {
    struct opencl real;
    int out_of_order;
    int launches, fail_at; /* -1: never */
    cl_uint n_wait[MOST];
    cl_event waits[MOST][2], events[MOST]; /* events: NULL where none was wanted */
} fake;

static cl_int CL_API_CALL fake_queue_info(cl_command_queue queue, cl_command_queue_info name, size_t size, void *value,
                                          size_t *whole)
{
    cl_int error = fake.real.GetCommandQueueInfo(queue, name, size, value, whole);

    if (name == CL_QUEUE_PROPERTIES && value != NULL)
        *(cl_command_queue_properties *)value = fake.out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0;
    return error;
}

static cl_int CL_API_CALL fake_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                      const size_t *global, const size_t *local, cl_uint n, const cl_event *wait,
                                      cl_event *event)
{
    int at = fake.launches++;
    cl_int error;

    if (at == fake.fail_at)
        return CL_OUT_OF_RESOURCES;
    if (at >= MOST)
        return CL_INVALID_VALUE;
    fake.n_wait[at] = n;
    for (cl_uint i = 0; i < n && i < 2; i++)
        fake.waits[at][i] = wait[i];
    error = fake.real.EnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, n, wait, event);
    if (event != NULL)
        fake.events[at] = *event;
    return error;
}

static int open_device(void **state)
{
    ledger_open();
    return test_device_open(state);
}

static int put_fakes(void **state)
{
    memset(&fake, 0, sizeof fake);
    fake.fail_at = -1;
    fake.real = *test_opencl_table();
    return ledger_begin(state);
}

static int take_fakes(void **state)
{
    *test_opencl_table() = fake.real;
    return ledger_check_plans(state);
}

/* ---- A plan with its operands ------------------------------------------------------------------------------------ */

struct call {
    clattn_plan *plan;
    int launches;
    struct arguments operands;
};

static void call_open_on(struct call *call, clattn_plan *plan)
{
    struct check_tensors tensors;

    call->plan = plan;
    call->launches = (int)plan_launches(plan);
    assert_in_range(call->launches, 3, MOST);
    assert_status(check_allocate(&tensors, &plan->problem.desc), SUCCESS);
    call->operands = test_operands(&tensors, call->plan);
    check_free(&tensors);
}

static void call_open(struct call *call)
{
    clattn_plan *plan;

    test_log_clear();
    assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
    call_open_on(call, plan);
}

static void call_close(struct call *call)
{
    assert_int_equal(opencl_get()->Finish(test_device.queue), CL_SUCCESS);
    test_operands_free(&call->operands);
    clattn_plan_destroy(call->plan);
}

/* ---- Matrix products among the steps -----------------------------------------------------------------------------
 */

/* A rule of its own, over stretches r of rows: S = Q_r K^T, G = S S^T, O_r = G V_r / 2, and in all but the last stretch
 * O_r += G V_r. Q, K, V and O are operands, S and G lie side by side for all heads: a launch each. */
enum { ROWS = 16, TOKENS = 40, HEADS = 2, BATCH = 2, KEYS = 12, VALUES = 7 };

static const struct product_matrix no_matrix = {.tensor = IR_NONE, .tokens = IR_NONE};

/* The rows of an operand from the turn's first on; IR_NONE: all. */
static struct product_matrix operand_of(struct builder *b, clattn_operand_id id, ir_expression tokens)
{
    return (struct product_matrix){.tensor = build_operand(b, id), .tokens = tokens};
}

static struct product_matrix scratch_of(struct builder *b, int64_t row)
{
    const int tensor = build_scratch(b, "products", b->problem->desc.dtype, BATCH * HEADS * ROWS * row + 3);

    return (struct product_matrix){tensor, IR_NONE, 3, row, ROWS * row, HEADS * ROWS * row};
}

static void add_product(struct builder *b, uint32_t flags, double factor, const ir_expression sizes[3],
                        const struct product_matrix *of, ir_expression condition)
{
    build_product_if(b,
                     &(struct product){.dtype = b->problem->desc.dtype,
                                       .flags = flags,
                                       .alpha = factor,
                                       .beta = condition != IR_NONE,
                                       .m = sizes[0],
                                       .n = sizes[1],
                                       .k = sizes[2],
                                       .batch = HEADS,
                                       .of = {of[0], of[1], no_matrix, of[2]}},
                     condition);
}

static clattn_status add_products(struct builder *b, const struct problem *problem, const void *shape)
{
    const ir_expression first = ir_loop_value(b->ir, IR_LOOP_FIRST, 0), rows = ir_loop_value(b->ir, IR_LOOP_ROWS, 0);
    const ir_expression keys = build_length(b, IR_KEYS), tokens = build_length(b, IR_TOKENS);
    const ir_expression width = build_constant(b, KEYS), columns = build_constant(b, VALUES);
    const ir_expression not_last =
        build_binary(b, IR_LESS, build_binary(b, IR_ADD, first, build_constant(b, ROWS)), tokens);
    const struct product_matrix q = operand_of(b, CLATTN_Q, first), k = operand_of(b, CLATTN_K, IR_NONE);
    const struct product_matrix v = operand_of(b, CLATTN_V, first), o = operand_of(b, CLATTN_O, first);
    const struct product_matrix s = scratch_of(b, TOKENS + 2), g = scratch_of(b, ROWS);
    const ir_expression of_scores[3] = {rows, keys, width}, of_squares[3] = {rows, rows, keys};
    const ir_expression of_outputs[3] = {rows, columns, rows};

    (void)problem, (void)shape;
    add_product(b, CLATTN_GEMM_TRANS_B, 1, of_scores, (const struct product_matrix[]){q, k, s}, IR_NONE);
    add_product(b, CLATTN_GEMM_TRANS_B, 1, of_squares, (const struct product_matrix[]){s, s, g}, IR_NONE);
    add_product(b, 0, 0.5, of_outputs, (const struct product_matrix[]){g, v, o}, IR_NONE);
    add_product(b, 0, 1, of_outputs, (const struct product_matrix[]){g, v, o}, not_last);
    build_loop(b, 0, tokens, ROWS);
    return CLATTN_SUCCESS;
}

static int always_applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts, (void)problem;
    return 1;
}

static clattn_status no_tiles(const struct solver *solver, const struct device_facts *facts,
                              const struct problem *problem, void *tiles)
{
    (void)solver, (void)facts, (void)problem;
    *(int *)tiles = 0;
    return CLATTN_SUCCESS;
}

static clattn_status no_shape(const struct solver *solver, const struct device_facts *facts,
                              const struct problem *problem, const void *tiles, void *shape)
{
    (void)solver, (void)facts, (void)problem, (void)tiles;
    *(int *)shape = 0;
    return CLATTN_SUCCESS;
}

static clattn_plan *products_plan(clattn_dtype dtype)
{
    static const struct parameter parameters[] = {PARAMETERS_END};
    static const struct solver products = {.space = {.name = "products", .parameters = parameters},
                                           .mode = CLATTN_MODE_CHUNK,
                                           .tiles_size = sizeof(int),
                                           .shape_size = sizeof(int),
                                           .applies = always_applies,
                                           .choose_tiles = no_tiles,
                                           .derive_shape = no_shape,
                                           .recipe = add_products};
    const clattn_plan_desc problem = {.rule = CLATTN_LINEAR_ATTN,
                                      .dtype = dtype,
                                      .batch = BATCH,
                                      .seq_len = TOKENS,
                                      .heads = HEADS,
                                      .key_dim = KEYS,
                                      .value_dim = VALUES};
    clattn_plan *plan;

    test_log_clear();
    assert_status(plan_open(&plan, test_device.context, &problem, sizeof problem), SUCCESS);
    assert_status(plan_bind(plan, &products, NULL, NULL, 64), SUCCESS);
    return plan;
}

static void call_open_products(struct call *call)
{
    call_open_on(call, products_plan(CLATTN_F32));
    assert_int_equal(call->launches, 3 * 3 + 2);
}

/* o of a row: factor sum_j (sum_t (q_i.k_t) (q_j.k_t)) v_j over the rows j of its stretch */
static double product_of(const struct check_tensors *x, int64_t head, int64_t i, int64_t c)
{
    int64_t b = head / HEADS, h = head % HEADS, first = i / ROWS * ROWS, tokens = x->desc.seq_len;
    double sum = 0;

#define AT(id, t, n, width) test_get(x, id, ((b * tokens + (t)) * HEADS + h) * (width) + (n))
    for (int64_t j = first; j < first + ROWS && j < tokens; j++)
        for (int64_t t = 0; t < tokens; t++) {
            double left = 0, right = 0;
            for (int64_t n = 0; n < KEYS; n++) {
                left += AT(CLATTN_Q, i, n, KEYS) * AT(CLATTN_K, t, n, KEYS);
                right += AT(CLATTN_Q, j, n, KEYS) * AT(CLATTN_K, t, n, KEYS);
            }
            sum += left * right * AT(CLATTN_V, j, c, VALUES);
        }
    return sum * (first + ROWS < tokens ? 1.5 : 0.5);
#undef AT
}

static void check_numbers(clattn_plan *plan)
{
    const clattn_plan_desc *of = &plan->problem.desc;
    struct check_tensors tensors, expected;

    test_make(&tensors, of, CHECK_GATES_USUAL, NULL);
    assert_status(check_allocate(&expected, of), SUCCESS);
    for (int64_t i = 0; i < check_count(&expected.tensor[CLATTN_O].info); i++) {
        int64_t row = i / VALUES, h = row % HEADS, t = row / HEADS % of->seq_len, b = row / HEADS / of->seq_len;
        test_set(&expected, CLATTN_O, i, product_of(&tensors, b * HEADS + h, t, i % VALUES));
    }
    assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
    test_compare(&tensors.tensor[CLATTN_O], &expected.tensor[CLATTN_O], of->dtype == CLATTN_F32 ? 1e-5 : 1e-2,
                 dtype_name(of->dtype));
    check_free(&tensors);
    check_free(&expected);
}

/* Sizes that vary are never for a provider that is made for its own: not gemv, for all its few columns. */
static void check_products(clattn_dtype dtype)
{
    clattn_plan *plan = products_plan(dtype), *like;
    clattn_plan_desc shorter = plan->problem.desc;
    char text[2048];

    assert_status(clattn_plan_describe(plan, text, sizeof text), SUCCESS);
    assert_non_null(strstr(text, "gemm       16 x 40 x 12 of a head, by plain"));
    assert_null(strstr(text, "gemv"));
    check_numbers(plan);
    shorter.seq_len = 19;
    shorter.batch = 1;
    assert_status(plan_create_sharing(&like, &shorter, plan), SUCCESS);
    assert_memory_equal(&like->bound.built.products[0]->choice, &plan->bound.built.products[0]->choice,
                        sizeof(struct gemm_choice));
    check_numbers(like);
    clattn_plan_destroy(like);
    check_numbers(plan); /* its products are still its own */
    clattn_plan_destroy(plan);
}

static void test_products(void **state)
{
    (void)state;
    check_products(CLATTN_F32);
    check_products(CLATTN_BF16);
}

/* ---- Waits and events -------------------------------------------------------------------------------------------- */

static void make_markers(cl_event markers[2])
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(opencl_get()->EnqueueMarkerWithWaitList(test_device.queue, 0, NULL, &markers[i]), CL_SUCCESS);
}

/* The first launch waits for the caller's events and nothing else does; the last gives the caller's event, if one is
 * wanted. On a queue out of order each waits for the one before, by an event that no other launch gave. */
static void check_chain(void (*open)(struct call *call), int out_of_order, int wants_event)
{
    struct opencl *cl = test_opencl_table();
    struct call call;
    cl_event markers[2], done = NULL;
    int last;

    open(&call);
    make_markers(markers);
    fake.out_of_order = out_of_order;
    fake.launches = 0;
    memset(fake.events, 0, sizeof fake.events);
    cl->GetCommandQueueInfo = fake_queue_info;
    cl->EnqueueNDRangeKernel = fake_launch;
    assert_status(check_enqueue(call.plan, test_device.queue, &call.operands, 2, markers, wants_event ? &done : NULL),
                  SUCCESS);
    last = call.launches - 1;
    assert_int_equal(fake.launches, last + 1);
    assert_int_equal(fake.n_wait[0], 2);
    assert_memory_equal(fake.waits[0], markers, sizeof markers);
    for (int i = 1; i <= last; i++) {
        assert_int_equal(fake.n_wait[i], out_of_order);
        if (out_of_order)
            assert_ptr_equal(fake.waits[i][0], fake.events[i - 1]);
        assert_int_equal(fake.events[i - 1] != NULL, out_of_order);
    }
    assert_ptr_equal(fake.events[last], done);
    assert_int_equal(done != NULL, wants_event);
    *cl = fake.real;
    assert_int_equal(cl->Finish(test_device.queue), CL_SUCCESS);
    for (int i = 0; i < 2; i++)
        cl->ReleaseEvent(markers[i]);
    if (done != NULL)
        cl->ReleaseEvent(done);
    call_close(&call);
}

static void test_out_of_order(void **state)
{
    (void)state;
    check_chain(call_open, 1, 1);
    check_chain(call_open, 1, 0);
    check_chain(call_open_products, 1, 1);
    check_chain(call_open_products, 1, 0);
}

static void test_in_order(void **state)
{
    (void)state;
    check_chain(call_open, 0, 1);
    check_chain(call_open, 0, 0);
    check_chain(call_open_products, 0, 1);
}

/* Whichever launch fails: the caller has no event, and no event of the others is left. */
static void check_failed_launch(void (*open)(struct call *call))
{
    struct opencl *cl = test_opencl_table();
    struct call call;

    open(&call);
    cl->GetCommandQueueInfo = fake_queue_info;
    cl->EnqueueNDRangeKernel = fake_launch;
    fake.out_of_order = 1;
    for (fake.fail_at = 0; fake.fail_at < call.launches; fake.fail_at++) {
        cl_event done = (cl_event)&done;
        fake.launches = 0;
        assert_status(check_enqueue(call.plan, test_device.queue, &call.operands, 0, NULL, &done), DEVICE_ERROR);
        assert_int_equal(fake.launches, fake.fail_at + 1);
        assert_null(done);
        assert_int_equal(ledger_alive(LEDGER_event), 0);
    }
    *cl = fake.real;
    call_close(&call);
}

static void test_failed_launch(void **state)
{
    (void)state;
    check_failed_launch(call_open);
    check_failed_launch(call_open_products);
}

/* ---- Two threads with one plan ----------------------------------------------------------------------------------- */

enum { BOUND_MS = 10000, WINDOW_MS = 200 };

/* Between its first argument and its last launch the first thread stands still: until the other has asked all that
 * it asks before it needs the plan, and then a while. */
static struct {
    pthread_t first;
    clattn_status (*enqueue)(const void *user);
    const void *user;
    int launches;         /* of a call */
    int sizes;            /* of buffers that a call asks for */
    atomic_int asked;     /* by the other thread */
    atomic_int held, met; /* the first is between its launches; the other came in */
    atomic_int waited;
} meeting;

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static cl_int CL_API_CALL meet_size(cl_mem buffer, cl_mem_info name, size_t size, void *value, size_t *whole)
{
    if (pthread_equal(pthread_self(), meeting.first))
        meeting.sizes++;
    else
        atomic_fetch_add(&meeting.asked, 1);
    return fake.real.GetMemObjectInfo(buffer, name, size, value, whole);
}

static cl_int CL_API_CALL meet_argument(cl_kernel kernel, cl_uint index, size_t bytes, const void *value)
{
    int first = pthread_equal(pthread_self(), meeting.first);

    if (!first && meeting.held)
        meeting.met = 1;
    if (first && !meeting.waited) {
        meeting.waited = 1;
        meeting.held = 1;
        for (int ms = 0; ms < BOUND_MS && meeting.asked < meeting.sizes; ms++)
            sleep_ms(1);
        for (int ms = 0; ms < WINDOW_MS && !meeting.met; ms++)
            sleep_ms(1);
    }
    return fake.real.SetKernelArg(kernel, index, bytes, value);
}

static cl_int CL_API_CALL meet_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                      const size_t *global, const size_t *local, cl_uint n, const cl_event *wait,
                                      cl_event *event)
{
    int first = pthread_equal(pthread_self(), meeting.first);

    fake.launches += first;
    if (fake.launches == meeting.launches)
        meeting.held = 0;
    return fake.real.EnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, n, wait, event);
}

/* Begins when the first thread is between its launches. */
static void *other_call(void *status)
{
    for (int ms = 0; ms < BOUND_MS && !meeting.held; ms++)
        sleep_ms(1);
    *(clattn_status *)status = meeting.enqueue(meeting.user);
    return NULL;
}

static void check_one_at_a_time(clattn_status (*enqueue)(const void *user), const void *user, int launches)
{
    struct opencl *cl = test_opencl_table();
    clattn_status status;
    pthread_t other;

    memset(&meeting, 0, sizeof meeting);
    meeting.first = pthread_self();
    meeting.enqueue = enqueue;
    meeting.user = user;
    meeting.launches = launches;
    fake.launches = 0;
    cl->GetMemObjectInfo = meet_size;
    cl->SetKernelArg = meet_argument;
    cl->EnqueueNDRangeKernel = meet_launch;
    assert_int_equal(pthread_create(&other, NULL, other_call, &status), 0);
    assert_status(enqueue(user), SUCCESS);
    assert_int_equal(pthread_join(other, NULL), 0);
    *cl = fake.real;
    assert_status(status, SUCCESS);
    assert_int_equal(fake.launches, launches);
    assert_true(meeting.sizes > 0);
    assert_int_equal(meeting.asked, meeting.sizes); /* it was there in time */
    assert_false(meeting.met);
}

static clattn_status enqueue_call(const void *user)
{
    const struct call *call = user;

    return check_enqueue(call->plan, test_device.queue, &call->operands, 0, NULL, NULL);
}

static void test_one_at_a_time(void **state)
{
    struct call call;

    (void)state;
    call_open(&call);
    check_one_at_a_time(enqueue_call, &call, call.launches);
    call_close(&call);
}

struct gemm_of_two {
    clattn_gemm_plan *plan;
    clattn_gemm_call call;
};

static clattn_status enqueue_gemm(const void *user)
{
    const struct gemm_of_two *gemm = user;

    return clattn_gemm_enqueue(gemm->plan, test_device.queue, &gemm->call, 0, NULL, NULL);
}

static void test_gemm_one_at_a_time(void **state)
{
    enum { SIDE = 16 };
    const clattn_gemm_desc side = {.m = SIDE, .n = SIDE, .k = SIDE, .provider = "plain"};
    cl_mem buffers[3];
    struct gemm_of_two gemm;

    (void)state;
    for (size_t i = 0; i < COUNT(buffers); i++)
        buffers[i] = test_buffer(SIDE * SIDE * sizeof(float), NULL);
    gemm.call = (clattn_gemm_call){.a = buffers[0], .b = buffers[1], .d = buffers[2]};
    test_log_clear();
    assert_status(clattn_gemm_plan_create(&gemm.plan, test_device.context, &side), SUCCESS);
    check_one_at_a_time(enqueue_gemm, &gemm, 1);
    assert_int_equal(opencl_get()->Finish(test_device.queue), CL_SUCCESS);
    clattn_gemm_plan_destroy(gemm.plan);
    for (size_t i = 0; i < COUNT(buffers); i++)
        opencl_get()->ReleaseMemObject(buffers[i]);
}

/* ---- Arguments that a kernel has already --------------------------------------------------------------------------
 */

static struct {
    int buffers, others, nulls, fail_at; /* fail_at: the one of the others; -1: never */
} arguments;

static cl_int count_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    arguments.nulls += size == sizeof(cl_mem) && *(const cl_mem *)value == NULL;
    if (size == sizeof(cl_mem) && *(const cl_mem *)value != NULL)
        arguments.buffers++;
    else if (arguments.others++ == arguments.fail_at)
        return CL_OUT_OF_RESOURCES;
    return fake.real.SetKernelArg(kernel, index, size, value);
}

/* Enqueues and says how many views, numbers and NULLs were set; every buffer is set at every call. */
static int others_set(struct call *call, int fail_at, clattn_status expected)
{
    static int all;

    arguments.buffers = arguments.others = 0;
    arguments.fail_at = fail_at;
    test_assert_status(check_enqueue(call->plan, test_device.queue, &call->operands, 0, NULL, NULL), expected, "a call",
                       __FILE__, __LINE__);
    if (all == 0)
        all = arguments.buffers;
    if (expected == CLATTN_SUCCESS)
        assert_int_equal(arguments.buffers, all);
    return arguments.others;
}

static void test_arguments(void **state)
{
    struct call call;
    int all, shorter;

    (void)state;
    call_open(&call);
    test_opencl_table()->SetKernelArg = count_argument;
    all = others_set(&call, -1, CLATTN_SUCCESS);
    assert_true(all > 10);
    assert_int_equal(arguments.nulls, 4); /* the states of two scans: what nothing ever stands for is no argument */
    assert_int_equal(others_set(&call, -1, CLATTN_SUCCESS), 0);
    call.operands.seq_len = 10; /* a number, and the strides of what has tokens within a batch of one */
    shorter = others_set(&call, -1, CLATTN_SUCCESS);
    assert_in_range(shorter, 3, all - 1);
    call.operands.seq_len = 11;
    assert_int_equal(others_set(&call, 1, CLATTN_DEVICE_ERROR), 2);
    assert_int_equal(others_set(&call, -1, CLATTN_SUCCESS), shorter - 1); /* what failed, and what came after */
    assert_int_equal(others_set(&call, -1, CLATTN_SUCCESS), 0);
    test_opencl_table()->SetKernelArg = fake.real.SetKernelArg;
    call_close(&call);
}

/* A driver that refuses NULL for a buffer gets one that it has, and nobody hears of it. */
static int refused;

static cl_int refuse_null(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    if (size == sizeof(cl_mem) && *(const cl_mem *)value == NULL) {
        refused++;
        return CL_INVALID_ARG_VALUE;
    }
    return fake.real.SetKernelArg(kernel, index, size, value);
}

static void test_no_null(void **state)
{
    struct check_tensors tensors, expected;
    clattn_plan *plan;

    (void)state;
    test_log_clear();
    assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
    test_make(&expected, &desc, CHECK_GATES_USUAL, NULL);
    assert_status(check_run_plan(&expected, &test_device, plan, test_log, NULL), SUCCESS);
    clattn_plan_destroy(plan);
    assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    test_opencl_table()->SetKernelArg = refuse_null;
    assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
    test_opencl_table()->SetKernelArg = fake.real.SetKernelArg;
    assert_true(refused > 0);
    assert_string_equal(test_log_text, "");
    test_compare_all(&tensors, &expected, 0, "without NULL");
    check_free(&tensors);
    check_free(&expected);
    clattn_plan_destroy(plan);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, put_fakes, take_fakes)
    const struct CMUnitTest tests[] = {TEST(test_out_of_order), TEST(test_in_order),      TEST(test_failed_launch),
                                       TEST(test_products),     TEST(test_one_at_a_time), TEST(test_gemm_one_at_a_time),
                                       TEST(test_arguments),    TEST(test_no_null)};

    return cmocka_run_group_tests(tests, open_device, test_device_close) + ledger_close();
}
