/* cpp_test reference | NAME: clattn.hpp without OpenCL, or on the device whose platform or name NAME is a part of. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <clattn.hpp>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static std::atomic<long> allocations{0};

void *operator new(std::size_t size)
{
    void *memory = std::malloc(size > 0 ? size : 1);

    allocations++;
    if (memory == nullptr)
        throw std::bad_alloc();
    return memory;
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept
{
    allocations++;
    return std::malloc(size > 0 ? size : 1);
}
void operator delete(void *memory) noexcept
{
    std::free(memory);
}
void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            std::fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what, clattn::last_error());         \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

template <class Owner> constexpr bool moves_only()
{
    return std::is_nothrow_move_constructible_v<Owner> && std::is_nothrow_move_assignable_v<Owner> &&
           !std::is_copy_constructible_v<Owner> && !std::is_copy_assignable_v<Owner>;
}
static_assert(moves_only<clattn::context>() && moves_only<clattn::plan>() && moves_only<clattn::event>());
/* A call points at its operands: none of a temporary. */
static_assert(!std::is_constructible_v<clattn::span<const clattn_operand>, std::vector<clattn_operand>> &&
              std::is_constructible_v<clattn::span<const clattn_operand>, std::vector<clattn_operand> &> &&
              std::is_constructible_v<clattn::span<const clattn_operand>, const std::vector<clattn_operand> &>);
static_assert(sizeof(clattn::plan) == sizeof(void *) && sizeof(clattn::event) == sizeof(void *));

/* The status that function throws, its text kept. */
template <class Function> clattn_status thrown(std::string &text, Function function)
{
    try {
        function();
    } catch (const clattn::error &error) {
        text = error.what();
        return error.status();
    }
    return CLATTN_SUCCESS;
}

enum { T = 40, K = 16 };

struct layer {
    std::vector<float> q, k, v, beta, o;
    layer() : q(T * K), k(T * K), v(T * K), beta(T, 0.5f), o(T * K, -1.0f)
    {
        for (int i = 0; i < T * K; i++) {
            auto at = static_cast<std::size_t>(i);
            q[at] = std::cos(static_cast<float>(i));
            k[at] = std::sin(static_cast<float>(i) * 7);
            v[at] = std::sin(static_cast<float>(i) * 3);
        }
    }
    /* Inputs may be const. */
    std::array<clattn_operand, 5> operands() noexcept
    {
        const layer &in = *this;
        return {clattn::on_host(CLATTN_Q, in.q), clattn::on_host(CLATTN_K, in.k), clattn::on_host(CLATTN_V, in.v),
                clattn::on_host(CLATTN_BETA, in.beta), clattn::on_host(CLATTN_O, o)};
    }
};

static clattn_plan_desc delta_rule()
{
    clattn_plan_desc desc{};

    desc.rule = CLATTN_DELTA_RULE;
    desc.flags = CLATTN_QK_L2NORM;
    desc.seq_len = T;
    desc.heads = 1;
    desc.key_dim = desc.value_dim = K;
    return desc;
}

static void test_reference()
{
    float q[3] = {1, 1, 1}, k[3] = {1, 1, 1}, o[3];
    const std::array<float, 3> v = {1, 2, 3};
    clattn_plan_desc desc{};
    long before = allocations;

    desc.rule = CLATTN_LINEAR_ATTN;
    desc.seq_len = 3;
    desc.heads = desc.key_dim = desc.value_dim = 1;
    clattn_operand operands[] = {clattn::on_host(CLATTN_Q, q), clattn::on_host(CLATTN_K, k),
                                 clattn::on_host(CLATTN_V, v), clattn::on_host(CLATTN_O, o)};
    clattn::reference(desc, clattn::make_call(operands));
    CHECK(o[0] == 1 && o[1] == 3 && o[2] == 6);
    CHECK(operands[2].size == sizeof v && operands[2].host == v.data());
    CHECK(clattn::try_reference(desc, clattn::make_call(operands, 2)) == CLATTN_SUCCESS && o[2] == 6);
    CHECK(allocations == before);
    CHECK(clattn::complete(desc).scale == 1);
    CHECK(clattn::describe(desc, CLATTN_Q).rank == 4);
    CHECK(clattn::strided(operands[0], 3, 2, 1).token_stride == 2);
}

/* Every failure both ways, with the library's own words. */
static void test_errors()
{
    clattn_plan_desc desc = delta_rule(), full;
    std::string text;
    layer data;
    auto operands = data.operands();

    desc.seq_len = -1;
    CHECK(thrown(text, [&] { clattn::complete(desc); }) == CLATTN_INVALID_DESC);
    CHECK(text.find("seq_len is -1") != std::string::npos);
    CHECK(clattn::try_complete(full, desc) == CLATTN_INVALID_DESC && text == clattn::last_error());
    desc = delta_rule();
    auto few = clattn::make_call(clattn::span<const clattn_operand>(operands.data(), 4));
    CHECK(thrown(text, [&] { clattn::reference(desc, few); }) == CLATTN_INVALID_OPERAND);
    CHECK(text.find("operand o is missing") != std::string::npos && text == clattn::last_error());
    CHECK(clattn::try_reference(desc, clattn::make_call(operands)) == CLATTN_SUCCESS && *clattn::last_error() == '\0');
    CHECK(thrown(text, [&] { clattn::plan(clattn::context(), desc); }) == CLATTN_INVALID_ARGUMENT);
    CHECK(text.find("the context is empty") != std::string::npos);
    clattn::plan none;
    CHECK(!none && none.workspace_size() == 0 && none.try_run(clattn::make_call(operands)) == CLATTN_INVALID_ARGUMENT);
}

static clattn_device_info find_device(const char *name)
{
    for (const clattn_device_info &info : clattn::devices())
        if (std::strstr(info.name, name) != nullptr || std::strstr(info.platform, name) != nullptr)
            return info;
    std::fprintf(stderr, "no OpenCL device is named %s\n", name);
    std::exit(1);
}

static void count_line(void *user, clattn_log_level, const char *)
{
    ++*static_cast<int *>(user);
}

static double difference(const std::vector<float> &a, const std::vector<float> &b)
{
    double worst = 0;

    for (std::size_t i = 0; i < a.size(); i++)
        worst = std::fmax(worst, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    return worst;
}

static cl_mem buffer_of(cl_context cl, std::vector<float> &from)
{
    cl_int error = CL_SUCCESS;
    cl_mem buffer = clCreateBuffer(cl, CL_MEM_COPY_HOST_PTR, from.size() * sizeof(float), from.data(), &error);

    CHECK(error == CL_SUCCESS);
    return buffer;
}

/* On buffers and a queue of our own, after an event and with one; the owners moved meanwhile. */
static void enqueue(clattn::context &context, clattn::plan &plan, layer &data)
{
    cl_int error = CL_SUCCESS;
    cl_command_queue queue = clCreateCommandQueue(context.cl(), context.device(), 0, &error);
    std::vector<float> *const tensors[] = {&data.q, &data.k, &data.v, &data.beta, &data.o};
    const clattn_operand_id ids[] = {CLATTN_Q, CLATTN_K, CLATTN_V, CLATTN_BETA, CLATTN_O};
    std::array<clattn_operand, 5> operands;
    cl_mem workspace = nullptr;

    CHECK(error == CL_SUCCESS);
    for (std::size_t i = 0; i < operands.size(); i++)
        operands[i] = clattn::on_device(ids[i], buffer_of(context.cl(), *tensors[i]));
    if (plan.workspace_size() > 0)
        workspace = clCreateBuffer(context.cl(), CL_MEM_READ_WRITE, plan.workspace_size(), nullptr, &error);
    CHECK(error == CL_SUCCESS);

    clattn_call call = clattn::make_call(operands, T, workspace);
    clattn::event first, second;
    clattn::plan moved = std::move(plan);
    CHECK(!plan && moved);
    long before = allocations;
    moved.enqueue(queue, call, {}, first);
    const cl_event after[] = {first.get()};
    moved.enqueue(queue, call, after, second);
    CHECK(moved.try_enqueue(queue, call) == CLATTN_SUCCESS);
    CHECK(allocations == before);
    plan = std::move(moved);
    CHECK(first && second.wait() == CL_SUCCESS);
    clattn::event taken = std::move(second);
    CHECK(!second && taken);
    CHECK(clEnqueueReadBuffer(queue, operands[4].buffer, CL_TRUE, 0, data.o.size() * sizeof(float), data.o.data(), 0,
                              nullptr, nullptr) == CL_SUCCESS);

    std::string text;
    call.operand_count = 4;
    clattn::event none;
    CHECK(thrown(text, [&] { plan.enqueue(queue, call, {}, none); }) == CLATTN_INVALID_OPERAND && !none);
    CHECK(text.find("operand o is missing") != std::string::npos);
    for (clattn_operand &operand : operands)
        clReleaseMemObject(operand.buffer);
    if (workspace != nullptr)
        clReleaseMemObject(workspace);
    clReleaseCommandQueue(queue);
}

static void test_device(const char *name)
{
    const clattn_device_info info = find_device(name);
    clattn_context_desc where{};
    layer expected, run, enqueued;
    std::string text;
    int lines = 0;

    auto exact = expected.operands(), here = run.operands();
    clattn::reference(delta_rule(), clattn::make_call(exact));
    where.device = info.device;
    where.log = count_line;
    where.log_user = &lines;
    clattn::context made(where), context;
    context = std::move(made);
    CHECK(!made && context && context.device() == info.device);
    CHECK(context.supports(delta_rule()) == CLATTN_SUCCESS);

    clattn::plan plan(context, delta_rule());
    CHECK(plan.info().desc->seq_len == T && !plan.describe().empty());
    plan.run(clattn::make_call(here));
    CHECK(difference(run.o, expected.o) < 1e-4);
    enqueue(context, plan, enqueued);
    CHECK(difference(enqueued.o, run.o) == 0);

    clattn_plan_desc wrong = delta_rule();
    wrong.chunk = -7;
    lines = 0;
    CHECK(thrown(text, [&] { plan = clattn::plan(context, wrong); }) == CLATTN_INVALID_DESC);
    CHECK(lines == 1 && text.find("chunk is -7") != std::string::npos);
    CHECK(plan && plan.try_create(context, wrong) == CLATTN_INVALID_DESC && !plan);
    CHECK(thrown(text, [&] { context.set_tuning("no JSON"); }) == CLATTN_INVALID_ARGUMENT);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    if (std::strcmp(argv[1], "reference") != 0)
        test_device(argv[1]);
    test_reference();
    test_errors();
    return 0;
}
