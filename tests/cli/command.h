/* What tests of the command's code share: files in the test's folder, and the settings of a run. */
#ifndef CLATTN_TESTS_COMMAND_H
#define CLATTN_TESTS_COMMAND_H

#include "harness.h"

#include "clattn_layer.h"
#include "cli/cli.h"
#include "cli/io/operands.h"
#include "cli/device/target.h"

/* A path in the test's folder, good until four more were asked for. */
const char *test_path(const char *name);
/* A safetensors file without metadata. */
void test_write_file(const char *path, const struct safetensor *list, size_t count);
/* As `clattn run RULE -i in -o out --device DEVICE` has them, with the options of desc; in and out lie in the test's
 * folder. */
struct settings test_run_settings(const clattn_plan_desc *desc, const char *device);
/* As `clattn layer NAME -i CHECKPOINT -x X -o out --shape K=KEY_DIM --device reference` has them. */
struct settings test_layer_settings(const char *name, int64_t key_dim, const char *checkpoint, const char *x);
/* K, which the shapes of weights may leave open, and a state in the file has; else 0. */
int64_t test_key_dim(clattn_layer layer, const struct safetensors *numbers);
/* The device under test, as --device names it. */
const char *test_device_name(void);

#endif
