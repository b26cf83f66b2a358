/* clattn plot: writes the attention matrix of a file as comma-separated values or as a picture. */
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/out/heat_map.h"
#include "cli/io/input.h"
#include "cli/io/output.h"
#include "cli/io/words.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 4 }; /* [B,H,T,columns] */

static const struct safetensor *find_matrix(const char *path, const struct safetensors *file)
{
    const struct safetensor *attn = safetensors_find(file, "attn");
    char text[128];

    if (attn == NULL)
        bad("%s: has no tensor 'attn': `clattn run --attn` writes it", path);
    else if (strcmp(attn->dtype, "F32") != 0 || attn->rank != RANK || attn->bytes == 0)
        bad("%s: tensor 'attn' is %s %s, expected F32 [B,H,T,T], none of them 0", path, attn->dtype,
            dims_name(attn->rank, attn->dims, text, sizeof text));
    else
        return attn;
    return NULL;
}

/* Whether the text can be a title in XML. A file's metadata may contain anything. */
static int is_plain(const char *text)
{
    return text != NULL && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(text);
}

/* One line per element. */
static int write_csv(FILE *file, const void *user)
{
    const struct heat_map *map = user;

    fputs("batch,head,query,key,value\n", file);
    for (int64_t i = 0; i < map->count * map->rows * map->columns && !ferror(file); i++) {
        int64_t matrix = i / map->columns / map->rows;
        text_print(file, "%lld,%lld,%lld,%lld,%.9g\n", (long long)(matrix / map->heads),
                   (long long)(matrix % map->heads), (long long)(i / map->columns % map->rows),
                   (long long)(i % map->columns), (double)map->data[i]);
    }
    return ferror(file) ? -1 : 0;
}

static int ends_in(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

/* The name of the output decides the format. */
static int write_plot(const struct settings *settings, const struct heat_map *map)
{
    const struct output output = output_of(settings, settings->output);

    if (output.path == NULL || strcmp(output.path, "-") == 0)
        return output_write_by(&(struct output){.path = "-"}, write_csv, map);
    if (output_check(&output) != EXIT_OK)
        return EXIT_BAD;
    return output_write_by(&output, ends_in(output.path, ".svg") ? heat_map_write : write_csv, map);
}

static int plot_matrix(const struct settings *settings, const struct safetensors *file, const struct safetensor *attn)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__");
    const char *rule = json_string(metadata, "rule");
    float *aligned = malloc(attn->bytes);
    const struct heat_map map = {.data = aligned,
                                 .count = attn->dims[0] * attn->dims[1],
                                 .rows = attn->dims[2],
                                 .columns = attn->dims[3],
                                 .heads = attn->dims[1],
                                 .title = is_plain(rule) ? rule : "attention"};
    int status;

    if (aligned == NULL)
        return failed("no memory for the matrix");
    memcpy(aligned, attn->data, attn->bytes);
    status = write_plot(settings, &map);
    free(aligned);
    return status;
}

int plot_main(struct settings *settings)
{
    struct safetensors file;
    int status = input_read(settings->files[0], &file);
    const struct safetensor *attn = status == EXIT_OK ? find_matrix(input_name(settings->files[0]), &file) : NULL;

    if (status == EXIT_OK)
        status = attn != NULL ? plot_matrix(settings, &file, attn) : EXIT_BAD;
    safetensors_free(&file);
    return status;
}
