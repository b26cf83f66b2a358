/* The functions of OpenCL, as far as the library calls them: what is enqueued is done at once. */
#define _GNU_SOURCE
#include "threads.h"

#include "answers.h"
#include "found.h"
#include "items.h"
#include "device/opencl.h"
#include "base/text.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 64, ARGUMENT = 32, BASE = 128 /* what OpenCL aligns buffers to: its largest type */ };

struct buffer {
    struct memory memory;
    int references;
    struct buffer *next; /* of those there are */
};

struct program {
    char *source, *log;
    char object[1024], path[1024];
    void *library;
    struct memory local;
    int references;
};

struct kernel {
    struct program *program;
    void (*entry)(void **);
    _Alignas(ARGUMENT) unsigned char values[MOST_ARGUMENTS][ARGUMENT];
    void *arguments[MOST_ARGUMENTS];
};

static int place; /* any address: platform, device, context, queue and events are the only ones of their kind */
static char folder[512];
static const char *edit_from, *edit_to;
static int edited, built;
static enum threads_checks checks;

/* ---- The device -------------------------------------------------------------------------------------------------- */

static cl_int answer_number(cl_ulong number, size_t size, void *value, size_t *needed)
{
    cl_uint small = (cl_uint)number;

    return size == sizeof small ? answer(&small, sizeof small, size, value, needed)
                                : answer(&number, sizeof number, size, value, needed);
}

static cl_int CL_API_CALL get_platforms(cl_uint count, cl_platform_id *platforms, cl_uint *found_platforms)
{
    if (count > 0 && platforms != NULL)
        platforms[0] = (cl_platform_id)(void *)&place;
    if (found_platforms != NULL)
        *found_platforms = 1;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_platform_info(cl_platform_id platform, cl_platform_info what, size_t size, void *value,
                                            size_t *needed)
{
    (void)platform, (void)what;
    return answer_text("work-items one by one", size, value, needed);
}

static cl_int CL_API_CALL get_devices(cl_platform_id platform, cl_device_type type, cl_uint count,
                                      cl_device_id *devices, cl_uint *found_devices)
{
    (void)platform, (void)type;
    if (count > 0 && devices != NULL)
        devices[0] = (cl_device_id)(void *)&place;
    if (found_devices != NULL)
        *found_devices = 1;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info what, size_t size, void *value,
                                          size_t *needed)
{
    const cl_platform_id platform = (cl_platform_id)(void *)&place;

    (void)device;
    switch (what) {
    case CL_DEVICE_PLATFORM: return answer(&platform, sizeof platform, size, value, needed);
    case CL_DEVICE_NAME:
    case CL_DEVICE_VERSION:
    case CL_DRIVER_VERSION:
    case CL_DEVICE_VENDOR: return answer_text("threads", size, value, needed);
    case CL_DEVICE_EXTENSIONS: return answer_text("", size, value, needed);
    case CL_DEVICE_TYPE: return answer_number(CL_DEVICE_TYPE_GPU, size, value, needed);
    case CL_DEVICE_COMPILER_AVAILABLE: return answer_number(1, size, value, needed);
    case CL_DEVICE_MAX_COMPUTE_UNITS: return answer_number(4, size, value, needed);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE: return answer_number(MOST_LANES, size, value, needed);
    case CL_DEVICE_LOCAL_MEM_SIZE: return answer_number(48 << 10, size, value, needed);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE: return answer_number(1 << 30, size, value, needed);
    }
    return CL_INVALID_VALUE;
}

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint count,
                                             const cl_device_id *devices, opencl_notify notify, void *user,
                                             cl_int *error)
{
    (void)properties, (void)count, (void)devices, (void)notify, (void)user;
    if (error != NULL)
        *error = CL_SUCCESS;
    return (cl_context)(void *)&place;
}

static cl_int CL_API_CALL context_nothing(cl_context context)
{
    (void)context;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_context_info(cl_context context, cl_context_info what, size_t size, void *value,
                                           size_t *needed)
{
    const cl_device_id device = (cl_device_id)(void *)&place;

    (void)context;
    return what == CL_CONTEXT_DEVICES ? answer(&device, sizeof device, size, value, needed) : CL_INVALID_VALUE;
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                                 cl_command_queue_properties properties, cl_int *error)
{
    (void)context, (void)device, (void)properties;
    *error = CL_SUCCESS;
    return (cl_command_queue)(void *)&place;
}

static cl_int CL_API_CALL queue_nothing(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_queue_info(cl_command_queue queue, cl_command_queue_info what, size_t size, void *value,
                                         size_t *needed)
{
    const cl_context context = (cl_context)(void *)&place;
    const cl_command_queue_properties properties = 0;

    (void)queue;
    return what == CL_QUEUE_CONTEXT ? answer(&context, sizeof context, size, value, needed)
                                    : answer(&properties, sizeof properties, size, value, needed);
}

/* ---- Buffers ----------------------------------------------------------------------------------------------------- */

static struct buffer *buffers;

static struct buffer *buffer_of(cl_mem memory)
{
    return (struct buffer *)(void *)memory;
}

/* Where the one stands whose handle that is, or NULL */
static struct buffer **find_buffer(cl_mem memory)
{
    struct buffer **at = &buffers;

    while (*at != NULL && *at != buffer_of(memory))
        at = &(*at)->next;
    return at;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    struct buffer *buffer = calloc(1, sizeof *buffer);

    (void)context;
    assert_non_null(buffer);
    *buffer = (struct buffer){.memory = {.base = aligned_alloc(BASE, (size + BASE - 1) / BASE * BASE), .bytes = size},
                              .references = 1,
                              .next = buffers};
    assert_non_null(buffer->memory.base);
    buffers = buffer;
    if (flags & CL_MEM_COPY_HOST_PTR)
        memcpy(buffer->memory.base, host, size);
    assert_true(races_add(&buffer->memory));
    *error = CL_SUCCESS;
    return (cl_mem)(void *)buffer;
}

static cl_int CL_API_CALL retain_buffer(cl_mem memory)
{
    buffer_of(memory)->references++;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_buffer(cl_mem memory)
{
    struct buffer *buffer = buffer_of(memory);

    if (--buffer->references > 0)
        return CL_SUCCESS;
    *find_buffer(memory) = buffer->next;
    races_remove(&buffer->memory);
    free(buffer->memory.base);
    free(buffer);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_buffer_info(cl_mem memory, cl_mem_info what, size_t size, void *value, size_t *needed)
{
    const cl_context context = (cl_context)(void *)&place;

    if (what == CL_MEM_CONTEXT)
        return answer(&context, sizeof context, size, value, needed);
    return what == CL_MEM_SIZE ? answer(&buffer_of(memory)->memory.bytes, sizeof(size_t), size, value, needed)
                               : CL_INVALID_VALUE;
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset,
                                      size_t size, void *to, cl_uint n_wait, const cl_event *wait, cl_event *event)
{
    (void)queue, (void)blocking, (void)n_wait, (void)wait, (void)event;
    memcpy(to, buffer_of(memory)->memory.base + offset, size);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset,
                                       size_t size, const void *from, cl_uint n_wait, const cl_event *wait,
                                       cl_event *event)
{
    (void)queue, (void)blocking, (void)n_wait, (void)wait, (void)event;
    memcpy(buffer_of(memory)->memory.base + offset, from, size);
    return CL_SUCCESS;
}

/* ---- Programs: a shared object each ------------------------------------------------------------------------------ */

void threads_edit(const char *from, const char *to)
{
    edit_from = from;
    edit_to = to;
    edited = 0;
}

int threads_edited(void)
{
    return edited;
}

static int is_space(char c)
{
    return c == ' ' || c == '\n';
}

/* The length of what the text begins with, where that is the pattern; else 0. White space matches any other. */
static size_t match(const char *text, const char *pattern)
{
    const char *at = text;

    while (*pattern != '\0') {
        if (is_space(*pattern) ? !is_space(*at) : *pattern != *at)
            return 0;
        if (!is_space(*pattern)) {
            at++, pattern++;
            continue;
        }
        at += strspn(at, " \n");
        pattern += strspn(pattern, " \n");
    }
    return (size_t)(at - text);
}

static void add_edited(struct text *text, const char *source)
{
    int found = 0;

    while (*source != '\0') {
        size_t length = edit_from != NULL ? match(source, edit_from) : 0;
        text_add(text, length > 0 ? edit_to : source, length > 0 ? strlen(edit_to) : 1);
        source += length > 0 ? length : 1;
        found |= length > 0;
    }
    edited += found;
}

/* An argument by its address: of a type that is so many letters. */
static void add_address(struct text *text, const char *type, size_t size, int *index)
{
    text_format(text, "%s*(%.*s *)arguments[%d]", *index > 0 ? ", " : "", (int)size, type, *index);
    ++*index;
}

/* Parameters up to the bracket that closes them. */
static void add_parameters(struct text *text, const char *at, int *index)
{
    for (at += strspn(at, " "); at[-1] != ')';) {
        const char *end = at + strcspn(at, ",)"), *last;
        for (last = end; last[-1] != ' ' && last[-1] != '*'; last--) /* the parameter's name */
            ;
        add_address(text, at, (size_t)(last - at), index);
        at = end + 1;
    }
}

/* Whether the source says that the kernel has the tensor. */
static int has_tensor(const char *source, const char *name, size_t size)
{
    char line[64];

    snprintf(line, sizeof line, "#define HAS_%.*s 1\n", (int)size, name);
    return strstr(source, line) != NULL;
}

/* Those of a list of tensors, X(type, name), that the kernel has; all of them where they are optional. */
static void add_tensors(struct text *text, const char *source, const char *macro, int optional, int *index)
{
    const char *at = strstr(source, macro), *end = at;

    assert_non_null(at);
    for (end = strchr(at, '\n'); end[-1] == '\\'; end = strchr(end + 1, '\n'))
        ;
    for (at = strstr(at + strlen(macro), "X("); at != NULL && at < end; at = strstr(at, "X(")) {
        const char *type = at + 2, *comma = strchr(type, ','), *name = comma + 2;
        char pointer[64];
        at = strchr(name, ')');
        if (!optional && !has_tensor(source, name, (size_t)(at - name)))
            continue;
        snprintf(pointer, sizeof pointer, "%.*s *", (int)(comma - type), type);
        add_address(text, pointer, strlen(pointer), index);
        add_address(text, "long4", strlen("long4"), index);
    }
}

/* A function that calls the kernel with arguments by their addresses: those that its file lists, or its parameters. */
static void add_entry(struct text *text, const char *source)
{
    static const char begin[] = "\nKERNEL\n", tensors[] = "TENSORS(PARAMETER)", optionals[] = " OPTIONALS(OPTIONAL)";
    const char *name = strstr(source, begin), *at;
    int index = 0;

    assert_non_null(name);
    name += sizeof begin - 1;
    at = strchr(name, '(');
    assert_non_null(at);
    text_format(text,
                "\n__attribute__((no_sanitize(\"kernel-address\"))) void threads_entry(void **arguments)\n{\n    %.*s(",
                (int)(at - name), name);
    at++;
    if (strncmp(at, tensors, sizeof tensors - 1) == 0) {
        at += sizeof tensors - 1;
        add_tensors(text, source, "#define TENSORS(X)", 0, &index);
    }
    if (strncmp(at, optionals, sizeof optionals - 1) == 0) {
        at += sizeof optionals - 1;
        add_tensors(text, source, "#define OPTIONALS(X)", 1, &index);
    }
    add_parameters(text, at, &index);
    text_format(text, ");\n}\n");
}

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count, const char **strings,
                                             const size_t *lengths, cl_int *error)
{
    struct program *program = calloc(1, sizeof *program);
    struct text text = {0};

    (void)context, (void)count, (void)lengths;
    assert_non_null(program);
    text_format(&text, "#include \"builtins.clh\"\n");
    add_edited(&text, strings[0]);
    add_entry(&text, strings[0]);
    program->source = text_take(&text);
    assert_non_null(program->source);
    program->references = 1;
    *error = CL_SUCCESS;
    return (cl_program)(void *)program;
}

/* Where the object lies, and its local arrays: what is zero at first, for it has no other variables */
static int find_local(struct dl_phdr_info *info, size_t size, void *data)
{
    struct program *program = data;

    (void)size;
    if (strcmp(info->dlpi_name, program->object) != 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && part->p_memsz > part->p_filesz) {
            program->local.base = (unsigned char *)(uintptr_t)(info->dlpi_addr + part->p_vaddr + part->p_filesz);
            program->local.bytes = part->p_memsz - part->p_filesz;
        }
    }
    program->local.local = 1;
    return 1;
}

static const void *base_of(const struct kernel *kernel)
{
    union {
        void (*function)(void **);
        void *pointer;
    } entry = {kernel->entry};
    Dl_info info;

    return dladdr(entry.pointer, &info) != 0 ? info.dli_fbase : NULL;
}

static char *read_text(const char *path)
{
    struct text text = {0};
    char line[512];
    FILE *file = fopen(path, "r");

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        text_add(&text, line, strlen(line));
    if (file != NULL)
        fclose(file);
    return text_take(&text);
}

/* What clang adds to kernels: a call at each access, a check at each of more than one number */
static const char *sanitizers(void)
{
    static const char accesses[] = "-mllvm -asan-instrumentation-with-call-threshold=0 -mllvm -asan-stack=0 "
                                   "-mllvm -asan-globals=0 -mllvm -asan-memory-access-callback-prefix=threads_ ";
    static char text[512];

    if (checks == THREADS_ALIGNMENT)
        return "-fsanitize=alignment ";
    snprintf(text, sizeof text, "-fsanitize=kernel-address%s %s", edit_from == NULL ? ",alignment" : "", accesses);
    return text;
}

static int compile(struct program *program)
{
    char command[8192], log[1100];
    int status;

    snprintf(log, sizeof log, "%s.log", program->object);
    snprintf(command, sizeof command,
             "'%s' -x cl -cl-std=CL1.2 -cl-no-stdinc -w -O1 -g1 -fno-builtin -fno-vectorize -fno-slp-vectorize "
             "-ffp-contract=off %s-fPIC -shared -nostartfiles -I '%s' '%s' -o '%s' -lm >'%s' 2>&1",
             CLATTN_TEST_CLANG, sanitizers(), CLATTN_TEST_THREADS, program->path, program->object, log);
    status = system(command);
    program->log = read_text(log);
    unlink(log);
    return status == 0;
}

/* What was compiled, for programs of the same text: mistakes have all kernels of their plan but one in common. A copy, for
 * an object that is loaded twice has its local arrays once. */
struct kept {
    char *source, object[1032];
    struct kept *next;
};
static struct kept *kept;

static int copy(const char *from, const char *to)
{
    char command[4096];

    snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
    return system(command) == 0;
}

static void remove_kept(void)
{
    for (struct kept *next; kept != NULL; kept = next) {
        next = kept->next;
        unlink(kept->object);
        free(kept->source);
        free(kept);
    }
}

static void keep(const struct program *program)
{
    struct kept *entry = malloc(sizeof *entry);

    if (kept == NULL)
        atexit(remove_kept);
    assert_non_null(entry);
    *entry = (struct kept){.source = text_copy(program->source), .next = kept};
    assert_non_null(entry->source);
    snprintf(entry->object, sizeof entry->object, "%s.kept", program->object);
    assert_true(copy(program->object, entry->object));
    kept = entry;
}

static int compile_once(struct program *program)
{
    FILE *file = fopen(program->path, "w"); /* of which reports quote lines, too */

    assert_non_null(file);
    fputs(program->source, file);
    fclose(file);
    for (const struct kept *entry = kept; entry != NULL; entry = entry->next)
        if (strcmp(entry->source, program->source) == 0)
            return copy(entry->object, program->object);
    if (!compile(program))
        return 0;
    keep(program);
    return 1;
}

static cl_int CL_API_CALL build_program(cl_program handle, cl_uint count, const cl_device_id *devices,
                                        const char *options, opencl_built notify, void *user)
{
    struct program *program = (struct program *)(void *)handle;

    (void)count, (void)devices, (void)options, (void)notify, (void)user;
    snprintf(program->path, sizeof program->path, "%s/%ld-%d.cl", folder, (long)getpid(), built);
    snprintf(program->object, sizeof program->object, "%s/%ld-%d.so", folder, (long)getpid(), built);
    built++;
    if (!compile_once(program))
        return CL_BUILD_PROGRAM_FAILURE;
    program->library = dlopen(program->object, RTLD_NOW | RTLD_LOCAL);
    if (program->library == NULL) {
        print_error("%s\n", dlerror());
        return CL_BUILD_PROGRAM_FAILURE;
    }
    dl_iterate_phdr(find_local, program);
    assert_true(races_add(&program->local));
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_build_info(cl_program program, cl_device_id device, cl_program_build_info what,
                                         size_t size, void *value, size_t *needed)
{
    const char *log = ((struct program *)(void *)program)->log;

    (void)device, (void)what;
    return answer_text(log != NULL ? log : "", size, value, needed);
}

static cl_int CL_API_CALL release_program(cl_program handle)
{
    struct program *program = (struct program *)(void *)handle;

    if (--program->references > 0)
        return CL_SUCCESS;
    if (program->library != NULL) {
        races_remove(&program->local);
        dlclose(program->library);
    }
    unlink(program->object);
    unlink(program->path);
    free(program->source);
    free(program->log);
    free(program);
    return CL_SUCCESS;
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

static cl_kernel CL_API_CALL create_kernel(cl_program handle, const char *name, cl_int *error)
{
    struct kernel *kernel = aligned_alloc(ARGUMENT, (sizeof *kernel + ARGUMENT - 1) / ARGUMENT * ARGUMENT);
    union {
        void *pointer;
        void (*function)(void **);
    } entry;

    (void)name;
    assert_non_null(kernel);
    memset(kernel, 0, sizeof *kernel);
    kernel->program = (struct program *)(void *)handle;
    kernel->program->references++;
    entry.pointer = dlsym(kernel->program->library, "threads_entry");
    kernel->entry = entry.function;
    for (int i = 0; i < MOST_ARGUMENTS; i++)
        kernel->arguments[i] = kernel->values[i];
    *error = CL_SUCCESS;
    return (cl_kernel)(void *)kernel;
}

/* What has a pointer's size is a buffer, where there is one of that name. */
static cl_int CL_API_CALL set_argument(cl_kernel handle, cl_uint index, size_t size, const void *value)
{
    struct kernel *kernel = (struct kernel *)(void *)handle;
    cl_mem memory;

    if (index >= MOST_ARGUMENTS || size > ARGUMENT)
        return CL_INVALID_ARG_INDEX;
    memcpy(kernel->values[index], value, size);
    if (size != sizeof memory)
        return CL_SUCCESS;
    memcpy(&memory, value, size);
    if (*find_buffer(memory) != NULL)
        memcpy(kernel->values[index], &buffer_of(memory)->memory.base, sizeof(void *));
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                         size_t size, void *value, size_t *needed)
{
    const size_t most = MOST_LANES;

    (void)kernel, (void)device;
    return what == CL_KERNEL_WORK_GROUP_SIZE ? answer(&most, sizeof most, size, value, needed) : CL_INVALID_VALUE;
}

static cl_int CL_API_CALL release_kernel(cl_kernel handle)
{
    struct kernel *kernel = (struct kernel *)(void *)handle;

    release_program((cl_program)(void *)kernel->program);
    free(kernel);
    return CL_SUCCESS;
}

static void run_groups(struct kernel *kernel, struct group *group)
{
    size_t groups = group->count[0] * group->count[1] * group->count[2];

    for (size_t i = 0; i < groups; i++) {
        group->id[0] = i % group->count[0];
        group->id[1] = i / group->count[0] % group->count[1];
        group->id[2] = i / group->count[0] / group->count[1];
        if (!items_run(group, &kernel->program->local))
            return;
    }
}

static cl_int CL_API_CALL enqueue_kernel(cl_command_queue queue, cl_kernel handle, cl_uint dimensions,
                                         const size_t *first, const size_t *global, const size_t *local, cl_uint n_wait,
                                         const cl_event *wait, cl_event *event)
{
    struct kernel *kernel = (struct kernel *)(void *)handle;
    struct group group = {.entry = kernel->entry,
                          .arguments = kernel->arguments,
                          .lanes = (int)local[0],
                          .id = {0, 0, 0},
                          .count = {1, 1, 1}};
    int before = found_count();

    (void)queue, (void)first, (void)n_wait, (void)wait;
    for (cl_uint i = 0; i < dimensions; i++)
        group.count[i] = global[i] / local[i];
    found_in(kernel->program->object, kernel->program->path, base_of(kernel));
    races_launch();
    run_groups(kernel, &group);
    if (event != NULL)
        *event = (cl_event)(void *)&place;
    return found_count() == before ? CL_SUCCESS : CL_OUT_OF_RESOURCES;
}

static cl_int CL_API_CALL release_event(cl_event event)
{
    (void)event;
    return CL_SUCCESS;
}

void threads_install(const char *in, enum threads_checks what)
{
    struct opencl *cl = test_opencl_table();

    if (cl == NULL)
        fail_msg("there is no OpenCL library whose functions the device can replace");
    snprintf(folder, sizeof folder, "%s", in);
    checks = what;
    *cl = (struct opencl){.GetPlatformIDs = get_platforms,
                          .GetPlatformInfo = get_platform_info,
                          .GetDeviceIDs = get_devices,
                          .GetDeviceInfo = get_device_info,
                          .CreateContext = create_context,
                          .RetainContext = context_nothing,
                          .ReleaseContext = context_nothing,
                          .GetContextInfo = get_context_info,
                          .CreateCommandQueue = create_queue,
                          .ReleaseCommandQueue = queue_nothing,
                          .GetCommandQueueInfo = get_queue_info,
                          .CreateBuffer = create_buffer,
                          .RetainMemObject = retain_buffer,
                          .ReleaseMemObject = release_buffer,
                          .GetMemObjectInfo = get_buffer_info,
                          .CreateProgramWithSource = create_program,
                          .BuildProgram = build_program,
                          .GetProgramBuildInfo = get_build_info,
                          .ReleaseProgram = release_program,
                          .CreateKernel = create_kernel,
                          .SetKernelArg = set_argument,
                          .GetKernelWorkGroupInfo = get_group_info,
                          .ReleaseKernel = release_kernel,
                          .EnqueueNDRangeKernel = enqueue_kernel,
                          .EnqueueReadBuffer = read_buffer,
                          .EnqueueWriteBuffer = write_buffer,
                          .ReleaseEvent = release_event,
                          .Flush = queue_nothing,
                          .Finish = queue_nothing};
}
