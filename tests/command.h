/* What tests of the command's code share: files in the test's folder, and the settings of a run. */
#ifndef CLATTN_TESTS_COMMAND_H
#define CLATTN_TESTS_COMMAND_H

#include "harness.h"

#include "cli/cli.h"
#include "cli/operands.h"
#include "cli/target.h"

/* A path in the test's folder, good until four more were asked for. */
const char *test_path(const char *name);
/* A safetensors file without metadata. */
void test_write_file(const char *path, const struct safetensor *list, size_t count);
/* As `clattn run RULE -i in -o out --device DEVICE` has them, with the options of desc; in and out lie in the test's
 * folder. */
struct settings test_run_settings(const clattn_plan_desc *desc, const char *device);
/* The device under test, as --device names it. */
const char *test_device_name(void);

#endif
