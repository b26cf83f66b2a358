#define _GNU_SOURCE
#include "kernel.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kernel_init(struct kernel *kernel, const struct code *code, const struct object *object,
                const struct kernel_code *about)
{
    *kernel = (struct kernel){.code = code, .object = object, .about = about};
    kernel->arguments = calloc(1, about->kernarg_bytes + 1);
    kernel->local_bytes = calloc(MOST_ARGUMENTS, sizeof *kernel->local_bytes);
    kernel->is_set = calloc(MOST_ARGUMENTS, 1);
    return kernel->arguments != NULL && kernel->local_bytes != NULL && kernel->is_set != NULL;
}

void kernel_clear(struct kernel *kernel)
{
    free(kernel->arguments);
    free(kernel->local_bytes);
    free(kernel->is_set);
}

int kernel_argument_count(const struct kernel *kernel)
{
    int count = 0;

    while (count < kernel->about->argument_count && kernel->about->arguments[count].kind != ARGUMENT_HIDDEN)
        count++;
    return count;
}

int kernel_is_complete(const struct kernel *kernel)
{
    return memchr(kernel->is_set, 0, (size_t)kernel_argument_count(kernel)) == NULL ||
           kernel_argument_count(kernel) == 0;
}

/* ---- Arguments of a launch --------------------------------------------------------------------------------------- */

/* Local memory that arguments ask for lies behind the kernel's own, each aligned for the largest type. */
static uint32_t place_local(const struct kernel *kernel, unsigned char *arguments)
{
    enum { LARGEST = 128 };
    uint32_t end = kernel->about->group_bytes;

    for (int i = 0; i < kernel_argument_count(kernel); i++) {
        if (kernel->about->arguments[i].kind != ARGUMENT_LOCAL)
            continue;
        end = (end + LARGEST - 1) / LARGEST * LARGEST;
        if (arguments != NULL)
            memcpy(arguments + kernel->about->arguments[i].offset, &end, sizeof end);
        end += kernel->local_bytes[i];
    }
    return end;
}

uint32_t kernel_group_bytes(const struct kernel *kernel)
{
    return place_local(kernel, NULL);
}

/* A hidden argument "hidden_…_x" and its two neighbours. */
static int is_axis(const char *kind, const char *begin, int *axis)
{
    const size_t length = strlen(begin);

    if (strncmp(kind, begin, length) != 0 || kind[length] < 'x' || kind[length] > 'z' || kind[length + 1] != '\0')
        return 0;
    *axis = kind[length] - 'x';
    return 1;
}

static uint64_t hidden_value(const char *kind, const struct range *range, uint32_t dynamic_bytes)
{
    int axis;

    if (is_axis(kind, "hidden_block_count_", &axis))
        return range->groups[axis];
    if (is_axis(kind, "hidden_group_size_", &axis))
        return range->local[axis];
    if (is_axis(kind, "hidden_global_offset_", &axis))
        return range->first[axis];
    if (strcmp(kind, "hidden_grid_dims") == 0)
        return range->dimensions;
    return strcmp(kind, "hidden_dynamic_lds_size") == 0 ? dynamic_bytes : 0;
}

/* The hidden arguments of code object 5. libclc knows those of an older version: the dimensions in one word, the global
 * offset in the next three. Both begin at the same place, and libclc reads sizes from the dispatch packet, so its words
 * are written over the newer ones. */
static void put_hidden(const struct kernel *kernel, const struct range *range, unsigned char *arguments,
                       uint32_t group_bytes)
{
    const struct kernel_code *about = kernel->about;
    const uint32_t words[4] = {range->dimensions, range->first[0], range->first[1], range->first[2]};
    const int first = kernel_argument_count(kernel);

    for (int i = first; i < about->argument_count; i++) {
        const struct argument *argument = &about->arguments[i];
        const uint64_t value = hidden_value(argument->value_kind, range, group_bytes - about->group_bytes);
        memcpy(arguments + argument->offset, &value, argument->size < sizeof value ? argument->size : sizeof value);
    }
    if (first < about->argument_count && about->arguments[first].offset + sizeof words <= about->kernarg_bytes)
        memcpy(arguments + about->arguments[first].offset, words, sizeof words);
}

/* The packet of a dispatch, as HSA lays it out. */
struct packet {
    uint16_t header, setup, local[3], reserved;
    uint32_t global[3], private_bytes, group_bytes;
    uint64_t object, arguments, reserved_too, signal;
};

static struct packet packet_of(const struct kernel *kernel, const struct range *range, const void *arguments,
                               uint32_t group_bytes)
{
    struct packet packet = {.setup = (uint16_t)range->dimensions,
                            .private_bytes = kernel->about->private_bytes,
                            .group_bytes = group_bytes,
                            .arguments = (uint64_t)(uintptr_t)arguments};

    for (int axis = 0; axis < 3; axis++) {
        packet.local[axis] = (uint16_t)range->local[axis];
        packet.global[axis] = range->groups[axis] * range->local[axis];
    }
    return packet;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

/* An access beyond a buffer ends the launch. */
static sigjmp_buf beyond;
static void *volatile bad_address;
static const char *volatile line; /* of the access */

static void on_fault(int signal, siginfo_t *about, void *context)
{
    (void)signal, (void)context;
    bad_address = about->si_addr;
    siglongjmp(beyond, 1);
}

static int run_guarded(const struct launch *launch, char *error, size_t size)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER}, before[2];
    volatile int status = -1;

    sigaction(SIGSEGV, &action, &before[0]);
    sigaction(SIGBUS, &action, &before[1]);
    if (sigsetjmp(beyond, 1) == 0)
        status = launch_run(launch, error, size);
    else
        snprintf(error, size, "access to %p, which is in no buffer: %s", bad_address, line != NULL ? line : "");
    sigaction(SIGSEGV, &before[0], NULL);
    sigaction(SIGBUS, &before[1], NULL);
    return status;
}

static int run_locked(const struct launch *launch, char *error, size_t size)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int status;

    pthread_mutex_lock(&mutex);
    status = run_guarded(launch, error, size);
    pthread_mutex_unlock(&mutex);
    return status;
}

static int run_with(const struct kernel *kernel, const struct range *range, unsigned char *arguments)
{
    const struct kernel_code *about = kernel->about;
    const uint32_t group_bytes = place_local(kernel, arguments);
    const struct packet packet = packet_of(kernel, range, arguments, group_bytes);
    struct launch launch = {.code = kernel->code,
                            .image = kernel->object->image,
                            .entry = about->entry,
                            .rsrc1 = about->rsrc1,
                            .rsrc2 = about->rsrc2,
                            .properties = about->properties,
                            .group_bytes = group_bytes,
                            .private_bytes = about->private_bytes,
                            .kernarg = arguments,
                            .packet = &packet,
                            .dimensions = range->dimensions,
                            .reverse = getenv("CLATTN_AMD_REVERSE") != NULL,
                            .line = &line};
    char error[512] = "";

    memcpy(launch.groups, range->groups, sizeof launch.groups);
    memcpy(launch.local, range->local, sizeof launch.local);
    put_hidden(kernel, range, arguments, group_bytes);
    if (run_locked(&launch, error, sizeof error) == 0)
        return 0;
    fprintf(stderr, "amd: kernel %s: %s\n", about->name, error);
    return -1;
}

int kernel_run(const struct kernel *kernel, const struct range *range)
{
    const size_t bytes = (kernel->about->kernarg_bytes + 63) / 64 * 64 + 64;
    unsigned char *arguments = aligned_alloc(64, bytes);
    int status = -1;

    if (arguments == NULL)
        return status;
    memset(arguments, 0, bytes);
    memcpy(arguments, kernel->arguments, kernel->about->kernarg_bytes);
    status = run_with(kernel, range, arguments);
    free(arguments);
    return status;
}
