/* Where a problem is computed: an OpenCL device, or the reference. */
#ifndef CLATTN_SRC_CLI_DEVICE_TARGET_H
#define CLATTN_SRC_CLI_DEVICE_TARGET_H

#include "check/check.h"
#include "cli/cli.h"

struct target {
    int reference;
    int named;                  /* --device says which it is */
    clattn_device_info info;    /* of the device */
    struct check_device device; /* open unless reference */
    struct sink sink;           /* what the library says; library_error takes it */
    const char *solver;         /* of the last target_run */
    double plan_seconds;        /* of its plan, compiling included */
    double run_seconds;         /* and of its kernels, without copies; or of the reference */
};

/* spec as in --device; NULL: the best device, else, with a warning, the reference. EXIT_OK, or one line and a code.
 * target_close in both cases. */
int target_open(struct target *target, const char *spec);
/* Whether the device's memory holds desc's operands; EXIT_OK, or one line and a code. */
int target_fits(struct target *target, const clattn_plan_desc *desc);
/* The two halves: info is known, and what was found is open. */
int target_find(struct target *target, const char *spec);
int target_use(struct target *target);
/* Whether there is a folder for compiled programs that can be written. */
int target_keeps_programs(void);
/* With -v a line where compiled programs cannot be kept. */
void target_note_cache(const struct target *target, const struct settings *settings);
void target_close(struct target *target);
/* Worker processes that a device is worth; asked: what --jobs says, 0 without it. */
size_t target_jobs(const struct target *target, int64_t asked);
const char *target_name(const struct target *target);

/* Computes the outputs of tensors from its inputs. plan_text receives what did it. */
clattn_status target_run(struct target *target, struct check_tensors *tensors, char *plan_text, size_t text_size);

#endif
