/* Some modules have a layer's tensor names but compute something else. The model_type in the file's metadata or in the
 * config.json beside it tells them apart, and the limits of Mamba-2's steps. */
#include "base/file.h"
#include "base/json.h"
#include "cli/layer.h"
#include "cli/io/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONFIG = 1 << 24 };

static const struct {
    clattn_layer layer;
    const char *model, *difference;
} others[] = {
    {CLATTN_LAYER_MAMBA, "falcon_mamba", "normalises B, C and dt, as layer falcon_mamba does: layer mamba does not"},
    {CLATTN_LAYER_FALCON_MAMBA, "mamba", "does not normalise B, C and dt, as layer falcon_mamba does: use layer mamba"},
    {CLATTN_LAYER_MAMBA2, "falcon_h1", "multiplies its projections by factors of the config: layer mamba2 does not"},
};

/* The name in the folder of a path; to be freed. */
static char *beside(const char *path, const char *name)
{
    size_t folder = strlen(path);
    char *joined;

    while (folder > 0 && strchr("/\\", path[folder - 1]) == NULL)
        folder--;
    joined = malloc(folder + strlen(name) + 1);
    if (joined != NULL) {
        memcpy(joined, path, folder);
        strcpy(joined + folder, name);
    }
    return joined;
}

/* The limits of Mamba-2's steps; 0 and infinity are none. */
static int read_limits(clattn_layer_desc *desc, const char *where, const cJSON *object)
{
    const cJSON *limits = cJSON_GetObjectItemCaseSensitive(object, "time_step_limit"),
                *least = cJSON_GetArrayItem(limits, 0), *most = cJSON_GetArrayItem(limits, 1);

    if (!cJSON_IsArray(limits))
        return EXIT_OK;
    if (!cJSON_IsNumber(least) || !cJSON_IsNumber(most) || !(most->valuedouble > 0) ||
        most->valuedouble < least->valuedouble)
        return bad("%s: time_step_limit is no pair of a lower and an upper limit", where);
    desc->step_min = least->valuedouble > 0 ? least->valuedouble : 0;
    desc->step_max = isinf(most->valuedouble) ? 0 : most->valuedouble;
    return EXIT_OK;
}

static int read_model(clattn_layer_desc *desc, const char *where, const cJSON *object)
{
    const clattn_layer layer = desc->layer;
    const char *model = json_string(object, "model_type");

    for (size_t i = 0; model != NULL && i < sizeof others / sizeof *others; i++)
        if (others[i].layer == layer && strcmp(others[i].model, model) == 0)
            return bad("%s: model_type is %s, whose module %s", where, model, others[i].difference);
    return layer == CLATTN_LAYER_MAMBA2 ? read_limits(desc, where, object) : EXIT_OK;
}

/* Python writes numbers that JSON does not have. */
static void replace_words(char *text)
{
    int in_string = 0;

    for (char *at = text; *at != '\0'; at++)
        if (in_string && *at == '\\' && at[1] != '\0')
            at++;
        else if (*at == '"')
            in_string = !in_string;
        else if (!in_string && strncmp(at, "Infinity", 8) == 0)
            memcpy(at, "1e999   ", 8);
        else if (!in_string && strncmp(at, "NaN", 3) == 0)
            memcpy(at, "0  ", 3);
}

static cJSON *read_config(const char *path)
{
    size_t size;
    char *text = path != NULL ? file_read(path, MAX_CONFIG, &size) : NULL;
    cJSON *object;

    if (text == NULL)
        return NULL;
    replace_words(text);
    object = json_parse(text);
    free(text);
    return object;
}

int layer_read_origin(clattn_layer_desc *desc, const char *path, const struct safetensors *file)
{
    char *config = strcmp(path, "-") != 0 ? beside(path, "config.json") : NULL;
    cJSON *object = read_config(config);
    int status = read_model(desc, path, cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__"));

    if (status == EXIT_OK)
        status = read_model(desc, config, object);
    if (status == EXIT_OK)
        status = read_model(desc, config, cJSON_GetObjectItemCaseSensitive(object, "text_config"));
    cJSON_Delete(object);
    free(config);
    return status;
}
