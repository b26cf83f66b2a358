#include "ledger.h"

#include "harness.h"
#include "device/opencl.h"

#include <stdatomic.h>

static struct opencl real;
static atomic_int alive[LEDGER_KINDS];
static int before[LEDGER_KINDS];

/* X(kind, function, parameters, arguments): gives an object, or NULL. */
#define CREATES(X)                                                                                                     \
    X(context, cl_context, CreateContext,                                                                              \
      (const cl_context_properties *properties, cl_uint n, const cl_device_id *devices, opencl_notify notify,          \
       void *user, cl_int *error),                                                                                     \
      (properties, n, devices, notify, user, error))                                                                   \
    X(queue, cl_command_queue, CreateCommandQueue,                                                                     \
      (cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int * error),               \
      (context, device, properties, error))                                                                            \
    X(buffer, cl_mem, CreateBuffer, (cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *error), \
      (context, flags, bytes, host, error))                                                                            \
    X(program, cl_program, CreateProgramWithSource,                                                                    \
      (cl_context context, cl_uint n, const char **text, const size_t *length, cl_int *error),                         \
      (context, n, text, length, error))                                                                               \
    X(program, cl_program, CreateProgramWithBinary,                                                                    \
      (cl_context context, cl_uint n, const cl_device_id *devices, const size_t *length, const unsigned char **bytes,  \
       cl_int *each, cl_int *error),                                                                                   \
      (context, n, devices, length, bytes, each, error))                                                               \
    X(kernel, cl_kernel, CreateKernel, (cl_program program, const char *name, cl_int *error), (program, name, error))

#define CREATE(kind, type, name, parameters, arguments)                                                                \
    static type CL_API_CALL ledger_##name parameters                                                                   \
    {                                                                                                                  \
        type object = real.name arguments;                                                                             \
                                                                                                                       \
        if (object != NULL)                                                                                            \
            atomic_fetch_add(&alive[LEDGER_##kind], 1);                                                                \
        return object;                                                                                                 \
    }
CREATES(CREATE)

/* X(kind, type, function, what a success adds) */
#define COUNTS(X)                                                                                                      \
    X(context, cl_context, RetainContext, 1)                                                                           \
    X(buffer, cl_mem, RetainMemObject, 1)                                                                              \
    X(context, cl_context, ReleaseContext, -1)                                                                         \
    X(queue, cl_command_queue, ReleaseCommandQueue, -1)                                                                \
    X(buffer, cl_mem, ReleaseMemObject, -1)                                                                            \
    X(program, cl_program, ReleaseProgram, -1)                                                                         \
    X(kernel, cl_kernel, ReleaseKernel, -1)                                                                            \
    X(event, cl_event, ReleaseEvent, -1)

#define RECOUNT(kind, type, name, change)                                                                              \
    static cl_int CL_API_CALL ledger_##name(type object)                                                               \
    {                                                                                                                  \
        cl_int error = real.name(object);                                                                              \
                                                                                                                       \
        if (error == CL_SUCCESS)                                                                                       \
            atomic_fetch_add(&alive[LEDGER_##kind], change);                                                           \
        return error;                                                                                                  \
    }
COUNTS(RECOUNT)

/* X(function, parameters, arguments): gives an event where one is wanted. */
#define ENQUEUES(X)                                                                                                    \
    X(EnqueueNDRangeKernel,                                                                                            \
      (cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset, const size_t *global,             \
       const size_t *local, cl_uint n, const cl_event *wait, cl_event *event),                                         \
      (queue, kernel, dims, offset, global, local, n, wait, event))                                                    \
    X(EnqueueReadBuffer,                                                                                               \
      (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t bytes, void *to, cl_uint n,      \
       const cl_event *wait, cl_event *event),                                                                         \
      (queue, buffer, blocking, offset, bytes, to, n, wait, event))                                                    \
    X(EnqueueWriteBuffer,                                                                                              \
      (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t bytes, const void *from,         \
       cl_uint n, const cl_event *wait, cl_event *event),                                                              \
      (queue, buffer, blocking, offset, bytes, from, n, wait, event))                                                  \
    X(EnqueueMarkerWithWaitList, (cl_command_queue queue, cl_uint n, const cl_event *wait, cl_event *event),           \
      (queue, n, wait, event))

#define ENQUEUE(name, parameters, arguments)                                                                           \
    static cl_int CL_API_CALL ledger_##name parameters                                                                 \
    {                                                                                                                  \
        cl_int error = real.name arguments;                                                                            \
                                                                                                                       \
        if (error == CL_SUCCESS && event != NULL)                                                                      \
            atomic_fetch_add(&alive[LEDGER_event], 1);                                                                 \
        return error;                                                                                                  \
    }
ENQUEUES(ENQUEUE)

int ledger_open(void)
{
    struct opencl *cl = test_opencl_table();

    if (cl == NULL)
        return 0;
    if (real.Finish == NULL)
        real = *cl;
#define PUT_CREATE(kind, type, name, parameters, arguments) cl->name = ledger_##name;
#define PUT_COUNT(kind, type, name, change) cl->name = ledger_##name;
#define PUT_ENQUEUE(name, parameters, arguments) cl->name = ledger_##name;
    CREATES(PUT_CREATE)
    COUNTS(PUT_COUNT)
    ENQUEUES(PUT_ENQUEUE)
    return 1;
}

int ledger_alive(enum ledger_kind kind)
{
    return atomic_load(&alive[kind]);
}

int ledger_begin(void **state)
{
    (void)state;
    for (int kind = 0; kind < LEDGER_KINDS; kind++)
        before[kind] = ledger_alive((enum ledger_kind)kind);
    return 0;
}

static int balance(int but)
{
    static const char *const names[] = {"contexts", "queues", "buffers", "programs", "kernels", "events"};
    int failures = 0;

    for (int kind = 0; kind < LEDGER_KINDS; kind++) {
        int now = ledger_alive((enum ledger_kind)kind);
        if (kind == but || now == before[kind])
            continue;
        print_error("the ledger: %d %s alive, %d before\n", now, names[kind], before[kind]);
        failures++;
    }
    return failures;
}

int ledger_check(void **state)
{
    (void)state;
    return balance(LEDGER_KINDS);
}

int ledger_check_plans(void **state)
{
    (void)state;
    return balance(LEDGER_program);
}

int ledger_close(void)
{
    for (int kind = 0; kind < LEDGER_KINDS; kind++)
        before[kind] = 0;
    return balance(LEDGER_KINDS);
}
