#include "device/opencl.h"

#include "base/system.h"

#include <string.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
static const char *const sonames[] = {"OpenCL.dll"};
typedef INIT_ONCE once;
#define ONCE INIT_ONCE_STATIC_INIT
#else
#include <pthread.h>
#ifdef __APPLE__
static const char *const sonames[] = {"/System/Library/Frameworks/OpenCL.framework/OpenCL"};
#else
static const char *const sonames[] = {"libOpenCL.so.1", "libOpenCL.so", "/system/vendor/lib64/libOpenCL.so",
                                      "/vendor/lib64/libOpenCL.so"};
#endif
typedef pthread_once_t once;
#define ONCE PTHREAD_ONCE_INIT
#endif

static struct opencl table;
static int loaded;

static void load(void)
{
    void *library = NULL, *symbol;

    for (size_t i = 0; i < sizeof sonames / sizeof *sonames && library == NULL; i++)
        library = library_open(sonames[i]);
    if (library == NULL)
        return;
#define OPENCL_LOAD(result, name, parameters)                                                                          \
    symbol = library_symbol(library, "cl" #name);                                                                      \
    if (symbol == NULL)                                                                                                \
        return;                                                                                                        \
    memcpy(&table.name, &symbol, sizeof symbol);
    OPENCL_FUNCTIONS(OPENCL_LOAD)
#undef OPENCL_LOAD
    loaded = 1;
}

#ifdef _WIN32
static BOOL CALLBACK load_once(INIT_ONCE *state, void *unused, void **context)
{
    (void)state, (void)unused, (void)context;
    load();
    return TRUE;
}
#endif

const struct opencl *opencl_get(void)
{
    static once state = ONCE;

#ifdef _WIN32
    InitOnceExecuteOnce(&state, load_once, NULL, NULL);
#else
    pthread_once(&state, load);
#endif
    return loaded ? &table : NULL;
}

const char *opencl_error_name(cl_int error)
{
    static const struct {
        cl_int error;
        const char *name;
    } names[] = {
/* clang-format off */
#define ERROR_NAME(name) {name, #name}
        ERROR_NAME(CL_DEVICE_NOT_FOUND),           ERROR_NAME(CL_DEVICE_NOT_AVAILABLE),
        ERROR_NAME(CL_COMPILER_NOT_AVAILABLE),     ERROR_NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
        ERROR_NAME(CL_OUT_OF_RESOURCES),           ERROR_NAME(CL_OUT_OF_HOST_MEMORY),
        ERROR_NAME(CL_BUILD_PROGRAM_FAILURE),      ERROR_NAME(CL_MAP_FAILURE),
        ERROR_NAME(CL_INVALID_VALUE),              ERROR_NAME(CL_INVALID_DEVICE),
        ERROR_NAME(CL_INVALID_CONTEXT),            ERROR_NAME(CL_INVALID_COMMAND_QUEUE),
        ERROR_NAME(CL_INVALID_MEM_OBJECT),         ERROR_NAME(CL_INVALID_BINARY),
        ERROR_NAME(CL_INVALID_BUILD_OPTIONS),      ERROR_NAME(CL_INVALID_PROGRAM),
        ERROR_NAME(CL_INVALID_PROGRAM_EXECUTABLE), ERROR_NAME(CL_INVALID_KERNEL_NAME),
        ERROR_NAME(CL_INVALID_KERNEL),             ERROR_NAME(CL_INVALID_ARG_INDEX),
        ERROR_NAME(CL_INVALID_ARG_VALUE),          ERROR_NAME(CL_INVALID_ARG_SIZE),
        ERROR_NAME(CL_INVALID_KERNEL_ARGS),        ERROR_NAME(CL_INVALID_WORK_DIMENSION),
        ERROR_NAME(CL_INVALID_WORK_GROUP_SIZE),    ERROR_NAME(CL_INVALID_WORK_ITEM_SIZE),
        ERROR_NAME(CL_INVALID_GLOBAL_OFFSET),      ERROR_NAME(CL_INVALID_EVENT_WAIT_LIST),
        ERROR_NAME(CL_INVALID_EVENT),              ERROR_NAME(CL_INVALID_OPERATION),
        ERROR_NAME(CL_INVALID_BUFFER_SIZE),        ERROR_NAME(CL_INVALID_GLOBAL_WORK_SIZE),
        ERROR_NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
        ERROR_NAME(CL_INVALID_PLATFORM),           ERROR_NAME(CL_INVALID_QUEUE_PROPERTIES),
#undef ERROR_NAME
        /* clang-format on */
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error)
            return names[i].name;
    return "an unnamed OpenCL error";
}

clattn_status opencl_status(const struct log *log, const char *call, cl_int error)
{
    int memory =
        error == CL_OUT_OF_HOST_MEMORY || error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_INVALID_BUFFER_SIZE;

    log_line(log, CLATTN_LOG_ERROR, "%s (%d) from %s", opencl_error_name(error), (int)error, call);
    return memory ? CLATTN_OUT_OF_MEMORY : CLATTN_DEVICE_ERROR;
}
