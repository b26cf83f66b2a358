/* What a fuzz target gives, to libFuzzer or to the replay driver. */
#ifndef CLATTN_TESTS_FUZZ_FUZZ_H
#define CLATTN_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
