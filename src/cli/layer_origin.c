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

/* Whether the config has limits of Mamba-2's steps other than 0 and infinity, which the layer does not apply. */
static int limits_steps(const cJSON *object)
{
    const cJSON *limits = cJSON_GetObjectItemCaseSensitive(object, "time_step_limit"),
                *least = cJSON_GetArrayItem(limits, 0), *most = cJSON_GetArrayItem(limits, 1);

    return (cJSON_IsNumber(least) && least->valuedouble > 0) || (cJSON_IsNumber(most) && !isinf(most->valuedouble));
}

static int check_model(clattn_layer layer, const char *where, const cJSON *object)
{
    const char *model = json_string(object, "model_type");

    for (size_t i = 0; model != NULL && i < sizeof others / sizeof *others; i++)
        if (others[i].layer == layer && strcmp(others[i].model, model) == 0)
            return bad("%s: model_type is %s, whose module %s", where, model, others[i].difference);
    if (layer == CLATTN_LAYER_MAMBA2 && limits_steps(object))
        return bad("%s: time_step_limit is not [0, Infinity]: layer mamba2 does not limit its steps", where);
    return EXIT_OK;
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

int layer_check_origin(clattn_layer layer, const char *path, const struct safetensors *file)
{
    char *config = strcmp(path, "-") != 0 ? beside(path, "config.json") : NULL;
    cJSON *object = read_config(config);
    int status = check_model(layer, path, cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__"));

    if (status == EXIT_OK)
        status = check_model(layer, config, object);
    if (status == EXIT_OK)
        status = check_model(layer, config, cJSON_GetObjectItemCaseSensitive(object, "text_config"));
    cJSON_Delete(object);
    free(config);
    return status;
}
