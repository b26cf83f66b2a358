/* The safetensors format: a little-endian 64-bit header length, a JSON header, then the tensors' bytes without holes.
 *     {"q": {"dtype": "F32", "shape": [2,10,4,64], "data_offsets": [0, 20480]}, …, "__metadata__": {"…": "…"}} */
#ifndef CLATTN_SRC_CLI_IO_SAFETENSORS_H
#define CLATTN_SRC_CLI_IO_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cJSON;

enum { SAFETENSORS_MAX_RANK = 32, SAFETENSORS_PREFIX = 8, SAFETENSORS_NO_MEMORY = -2 };

/* The limit of the format's reference implementation. */
#define SAFETENSORS_MAX_HEADER 100000000u

struct safetensor {
    const char *name;
    const char *dtype; /* "F32" and others; static */
    int rank;
    int64_t dims[SAFETENSORS_MAX_RANK];
    uint64_t offset;  /* from the start of the data */
    const void *data; /* of any alignment */
    size_t bytes;
};

struct safetensors {
    struct safetensor *tensors; /* in the order of their data */
    size_t count;
    struct cJSON *header; /* owns the names */
    void *memory;         /* owns the data if it was read from a file; else NULL */
    size_t mapped;        /* bytes of the file that memory is; 0: it was allocated */
};

/* Parses a whole file in memory, which must outlive *out. 0, or -1 or SAFETENSORS_NO_MEMORY with one line in error.
 * safetensors_free in all cases. */
int safetensors_parse(const uint8_t *bytes, size_t size, struct safetensors *out, char *error, size_t error_size);
/* Reads a file, a pipe, or standard input for "-". Nothing of the data's size is allocated before the header accounts
 * for every byte. */
int safetensors_read(const char *path, struct safetensors *out, char *error, size_t error_size);
/* The same, but of a file's data only what is looked at is read, where the system can. The file must stay as it is. */
int safetensors_map(const char *path, struct safetensors *out, char *error, size_t error_size);
void safetensors_free(struct safetensors *tensors);

const struct safetensor *safetensors_find(const struct safetensors *tensors, const char *name);

/* Writes tensors[count] and metadata, an object of strings (may be NULL). The widest elements come first, so that all
 * are aligned. 0, or -1 if a write fails or there is no memory. */
int safetensors_write(FILE *file, const struct safetensor *tensors, size_t count, const struct cJSON *metadata);

/* Bytes of an element; 0 for an unknown dtype. */
size_t safetensors_element(const char *dtype);

#endif
