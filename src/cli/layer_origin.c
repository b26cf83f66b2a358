/* Some modules have a layer's tensor names but compute something else. The model_type in the file's metadata or in the
 * config.json beside it tells them apart. */
#include "base/file.h"
#include "base/json.h"
#include "cli/layer.h"
#include "cli/io/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CONFIG = 1 << 24 };

static const struct {
    clattn_layer layer;
    const char *model, *difference;
} others[] = {
    {CLATTN_LAYER_MAMBA, "falcon_mamba", "normalises B, C and dt"},
    {CLATTN_LAYER_MAMBA2, "falcon_h1", "multiplies its projections by factors of the config"},
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

static int check_model(clattn_layer layer, const char *where, const cJSON *object)
{
    const char *model = json_string(object, "model_type");
    clattn_layer_info info;

    for (size_t i = 0; model != NULL && i < sizeof others / sizeof *others; i++)
        if (others[i].layer == layer && strcmp(others[i].model, model) == 0) {
            clattn_layer_describe(layer, &info);
            return bad("%s: model_type is %s, whose module %s: layer %s does not", where, model, others[i].difference,
                       info.name);
        }
    return EXIT_OK;
}

int layer_check_origin(clattn_layer layer, const char *path, const struct safetensors *file)
{
    char *config = strcmp(path, "-") != 0 ? beside(path, "config.json") : NULL, *text;
    cJSON *object;
    size_t size;
    int status = check_model(layer, path, cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__"));

    text = config != NULL ? file_read(config, MAX_CONFIG, &size) : NULL;
    object = text != NULL ? json_parse(text) : NULL;
    if (status == EXIT_OK)
        status = check_model(layer, config, object);
    if (status == EXIT_OK)
        status = check_model(layer, config, cJSON_GetObjectItemCaseSensitive(object, "text_config"));
    cJSON_Delete(object);
    free(text);
    free(config);
    return status;
}
