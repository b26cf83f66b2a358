/* clattn plot: the attention matrix of a file, drawn. */
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/picture.h"
#include "cli/words.h"

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

static int is_plain(const char *text)
{
    return text != NULL && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(text);
}

static int draw(const struct settings *settings, const struct safetensors *file, const struct safetensor *attn)
{
    const struct output output = output_of(settings, settings->output != NULL ? settings->output : "-");
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__");
    const char *rule = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, "rule"));
    float *data = malloc(attn->bytes);
    const struct picture picture = {data,          attn->dims[0] * attn->dims[1],      attn->dims[2], attn->dims[3],
                                    attn->dims[1], is_plain(rule) ? rule : "attention"};
    int status;

    if (data == NULL)
        return failed("no memory for the matrix");
    memcpy(data, attn->data, attn->bytes); /* it may lie unaligned */
    status = output_check(&output);
    if (status == EXIT_OK)
        status = output_write_by(&output, picture_write, &picture);
    free(data);
    return status;
}

int plot_main(struct settings *settings)
{
    struct safetensors file;
    int status = input_read(settings->files[0], &file);
    const struct safetensor *attn = status == EXIT_OK ? find_matrix(input_name(settings->files[0]), &file) : NULL;

    if (status == EXIT_OK)
        status = attn != NULL ? draw(settings, &file, attn) : EXIT_BAD;
    safetensors_free(&file);
    return status;
}
