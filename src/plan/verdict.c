/* Verdicts of self-tests. They are stored with the compiled programs, so that each test runs once. */
#include "plan/plan.h"

#include "device/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char passed[] = "passed", failed[] = "failed";

/* The stored verdict: 1 passed, -1 failed, 0 unknown. */
static int recall(struct clattn_context *context, struct hash key)
{
    size_t size = 0;
    char *text = cache_load(&context->cache, key, &size);
    int verdict = 0;

    if (text != NULL && size == sizeof passed)
        verdict = memcmp(text, passed, size) == 0 ? 1 : memcmp(text, failed, size) == 0 ? -1 : 0;
    free(text);
    return verdict;
}

static void remember(struct clattn_context *context, struct hash key, const char *what, int verdict)
{
    char label[CACHE_LABEL];

    snprintf(label, sizeof label, "self-test of %s, %.90s, %.60s", what, context->device.info.name,
             context->device.info.driver);
    cache_store(&context->cache, key, label, verdict > 0 ? passed : failed, sizeof passed);
}

clattn_status self_test(clattn_context *context, struct hash kernels, const char *what,
                        clattn_status (*run)(void *user, int *verdict), void *user)
{
    struct hash key = hash_add(program_device_hash(context), &kernels, sizeof kernels);
    int verdict;

    verdict = context_verdict(context, key);
    if (verdict == 0)
        verdict = recall(context, key);
    if (verdict == 0) {
        clattn_status status = run(user, &verdict);
        if (verdict == 0) /* the run said nothing about the kernels */
            return status == CLATTN_DEVICE_ERROR ? CLATTN_DEVICE_ERROR : CLATTN_SUCCESS;
        remember(context, key, what, verdict);
    }
    context_set_verdict(context, key, verdict);
    return verdict > 0 ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}
