/* Where a problem is computed: an OpenCL device, or the reference. */
#ifndef CLATTN_SRC_CLI_DEVICE_TARGET_H
#define CLATTN_SRC_CLI_DEVICE_TARGET_H

#include "check/check.h"
#include "cli/cli.h"
#include "cli/device/ranks.h"

struct target {
    const struct ranks *ranks; /* between which a problem is divided; NULL: it is not */
    void *divided;             /* of these */
    int reference;
    int named;                  /* by --device */
    clattn_device_info info;    /* unset for the reference */
    struct check_device device; /* open unless this is the reference */
    struct sink sink;           /* messages of the library; library_error prints them */
    const char *_Atomic phase;  /* what target_run is at */
    const char *solver;         /* of the last target_run */
    double plan_seconds;        /* of its plan, with compilation */
    double run_seconds;         /* of its kernels without copies, or of the reference */
};

/* spec is the argument of --device. NULL: the best device, or if there is none, with a warning, the reference. EXIT_OK,
 * or one line and a code. target_close in both cases. */
int target_open(struct target *target, const char *spec);
/* A line for each OpenCL platform that has no device, with what the reason usually is. */
void target_note_platforms(void);
/* Checks that the device's memory holds desc's operands. EXIT_OK, or one line and a code. */
int target_fits(struct target *target, const clattn_plan_desc *desc);
/* The two halves of target_open: the first sets info, the second opens the device. */
int target_find(struct target *target, const char *spec);
int target_open_found(struct target *target);
/* target_find and target_open of the settings' device, and of the ranks that they have. */
int target_find_of(struct target *target, const struct settings *settings);
int target_open_of(struct target *target, const struct settings *settings);
/* Whether compiled programs can be written to the cache's folder. */
int target_keeps_programs(void);
/* With -v: prints a line if they cannot. */
void target_note_cache(const struct target *target, const struct settings *settings);
void target_close(struct target *target);
/* How many worker processes suit the device, of those that only check results: one a core, if its memory is enough.
 * asked: the value of --jobs, or 0. */
size_t target_processes(const struct target *target, int64_t asked);
/* The same of those that prepare what is timed. */
size_t target_jobs(const struct target *target, int64_t asked);
const char *target_name(const struct target *target);

/* Computes the outputs of tensors from its inputs. plan_text receives the plan's description. */
clattn_status target_run(struct target *target, struct check_tensors *tensors, char *plan_text, size_t text_size);

#endif
