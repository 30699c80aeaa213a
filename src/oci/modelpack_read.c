#include "oci/modelpack.h"
#include "oci/path_set.h"

#include <string.h>

#define LEGACY_FILEPATH "org.cnai.model.filepath"
#define ORAS_UNPACK "io.deis.oras.content.unpack"
/* So many media types are named in a message. */
#define MAX_SHOWN 8

/* Families of layer types whose names say what is inside. */
static const struct {
  const char *prefix;
  ModelpackForm form;
} families[] = {
  { "application/vnd.cncf.model.", MODELPACK_FORM_CNCF },
  { "application/vnd.cnai.model.", MODELPACK_FORM_LEGACY },
};

static const struct {
  const char *name; /* between the family's prefix and ".v1." */
  ModelpackKind kind;
} bases[] = {
  { "weight.config.v1.", MODELPACK_WEIGHT_CONFIG },
  { "weight.v1.", MODELPACK_WEIGHT },
  { "code.v1.", MODELPACK_CODE },
  { "doc.v1.", MODELPACK_DOC },
  { "dataset.v1.", MODELPACK_DATASET },
};

static const struct {
  const char *name;
  ModelpackCodec codec;
} codecs[] = {
  { "raw", MODELPACK_RAW },           { "tar", MODELPACK_TAR },  { "tar+gzip", MODELPACK_TAR_GZIP },
  { "tar+zstd", MODELPACK_TAR_ZSTD }, { "gguf", MODELPACK_RAW }, /* Docker Model Runner's dialect */
  { "safetensors", MODELPACK_RAW },
};

static const struct {
  const char *media_type;
  ModelpackKind kind;
  ModelpackCodec codec;
} docker_types[] = {
  { "application/vnd.docker.ai.gguf.v3", MODELPACK_WEIGHT, MODELPACK_RAW },
  { "application/vnd.docker.ai.safetensors", MODELPACK_WEIGHT, MODELPACK_RAW },
  { "application/vnd.docker.ai.dduf", MODELPACK_WEIGHT, MODELPACK_RAW },
  { "application/vnd.docker.ai.mmproj", MODELPACK_WEIGHT, MODELPACK_RAW },
  { "application/vnd.docker.ai.license", MODELPACK_DOC, MODELPACK_RAW },
  { "application/vnd.docker.ai.chat.template.jinja", MODELPACK_WEIGHT_CONFIG, MODELPACK_RAW },
  { "application/vnd.docker.ai.model.file", MODELPACK_WEIGHT_CONFIG, MODELPACK_RAW },
  { "application/vnd.docker.ai.vllm.config.tar", MODELPACK_WEIGHT_CONFIG, MODELPACK_TAR },
  { "application/vnd.docker.ai.dir.tar", MODELPACK_WEIGHT_CONFIG, MODELPACK_TAR },
};

/* What one layer's type and annotations say, before its path is checked. */
typedef struct {
  ModelpackForm form;
  ModelpackKind kind;
  ModelpackCodec codec;
  gboolean is_wanted;
  gboolean needs_path;
} Verdict;

static Verdict
judge_family (const char *rest, ModelpackForm form)
{
  Verdict verdict = { .form = form };
  for (guint i = 0; i < G_N_ELEMENTS (bases); i++)
    if (g_str_has_prefix (rest, bases[i].name))
      for (guint j = 0; j < G_N_ELEMENTS (codecs); j++)
        if (strcmp (rest + strlen (bases[i].name), codecs[j].name) == 0)
          {
            verdict.kind = bases[i].kind;
            verdict.codec = codecs[j].codec;
            verdict.is_wanted = TRUE;
            verdict.needs_path = verdict.codec == MODELPACK_RAW;
          }
  return verdict;
}

/* `path` is the layer's own, or NULL. */
static Verdict
judge (const Descriptor *layer, const char *path)
{
  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    if (g_str_has_prefix (layer->media_type, families[i].prefix))
      return judge_family (layer->media_type + strlen (families[i].prefix), families[i].form);
  for (guint i = 0; i < G_N_ELEMENTS (docker_types); i++)
    if (strcmp (layer->media_type, docker_types[i].media_type) == 0)
      return (Verdict){ .form = MODELPACK_FORM_DOCKER,
                        .kind = docker_types[i].kind,
                        .codec = docker_types[i].codec,
                        .is_wanted = path != NULL };
  gboolean is_packed = g_strcmp0 (descriptor_annotation (layer, ORAS_UNPACK), "true") == 0;
  return (Verdict){ .form = MODELPACK_FORM_FILES,
                    .kind = MODELPACK_OTHER,
                    .codec = is_packed ? MODELPACK_TAR_GZIP : MODELPACK_RAW,
                    .is_wanted = path != NULL && strcmp (layer->media_type, OCI_EMPTY) != 0 };
}

static const char *
layer_path (const Descriptor *layer)
{
  static const char *const keys[] = { ANNOTATION_FILEPATH, LEGACY_FILEPATH, ANNOTATION_TITLE };
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      const char *value = descriptor_annotation (layer, keys[i]);
      if (value != NULL)
        return value;
    }
  return NULL;
}

static void
layer_clear (gpointer layer)
{
  g_free (((ModelpackLayer *) layer)->path);
}

void
modelpack_free (Modelpack *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->layers);
  g_free (self);
}

static gboolean
take_layer (Modelpack *self, PathSet *paths, const Descriptor *descriptor, GError **error)
{
  const char *path = layer_path (descriptor);
  Verdict verdict = judge (descriptor, path);
  if (!verdict.is_wanted)
    return TRUE;
  char digest[DIGEST_STRING_SIZE];
  if (verdict.needs_path && path == NULL)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "ManifestInvalid",
                    "the layer %s of type %s has no annotation %s, so its file has no name",
                    digest_format (&descriptor->digest, digest), descriptor->media_type, ANNOTATION_FILEPATH);
  if (path != NULL && !path_set_add (paths, path, verdict.codec != MODELPACK_RAW, error))
    {
      g_prefix_error (error, "layer %s: ", digest_format (&descriptor->digest, digest));
      return FALSE;
    }
  ModelpackLayer layer = { g_strdup (path), descriptor, verdict.kind, verdict.codec };
  if (layer.kind == MODELPACK_OTHER && path != NULL && layer.codec == MODELPACK_RAW)
    layer.kind = modelpack_kind_of_path (path, NULL);
  g_array_append_val (self->layers, layer);
  self->form = MIN (self->form, verdict.form);
  return TRUE;
}

static gboolean
fail_not_a_model (const Manifest *manifest, GError **error)
{
  g_autoptr (GString) seen = g_string_new (NULL);
  for (guint i = 0; i < manifest->layers->len && i < MAX_SHOWN; i++)
    {
      const Descriptor *layer = g_ptr_array_index (manifest->layers, i);
      g_string_append_printf (seen, "%s%s", i > 0 ? ", " : "", layer->media_type);
    }
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "NotAModel",
                  "the artifact (%s) has no file of a model: its layers are %s",
                  manifest->artifact_type != NULL ? manifest->artifact_type : manifest->config->media_type,
                  seen->len > 0 ? seen->str : "none");
}

Modelpack *
modelpack_read (const Manifest *manifest, GError **error)
{
  if (manifest->kind != MANIFEST_IMAGE)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, "ManifestInvalid",
                         "an index is no model itself; choose one of its manifests");
  g_autoptr (PathSet) paths = path_set_new ();
  g_autoptr (Modelpack) self = g_new0 (Modelpack, 1);
  self->form = MODELPACK_FORM_FILES;
  self->layers = g_array_new (FALSE, FALSE, sizeof (ModelpackLayer));
  g_array_set_clear_func (self->layers, layer_clear);
  for (guint i = 0; i < manifest->layers->len; i++)
    if (!take_layer (self, paths, g_ptr_array_index (manifest->layers, i), error))
      return NULL;
  if (self->layers->len > 0)
    return g_steal_pointer (&self);
  fail_not_a_model (manifest, error);
  return NULL;
}

/* Keeps of `dir` the leading folders that `other` has too. */
static void
shorten_to_common (char *dir, const char *other)
{
  gsize common = 0;
  for (gsize i = 0;; i++)
    {
      gboolean dir_ends = dir[i] == '\0' || dir[i] == '/';
      gboolean other_ends = other[i] == '\0' || other[i] == '/';
      if (dir_ends && other_ends)
        common = i;
      if (dir[i] == '\0' || dir[i] != other[i])
        break;
    }
  dir[common] = '\0';
}

/* "a/b" for the file a/b/c and for the folder a/b, whichever the layer holds: a tar may carry one file (modctl)
 * or a folder, and only its name tells. */
static char *
layer_folder (const ModelpackLayer *layer)
{
  gboolean guessed = FALSE;
  modelpack_kind_of_path (layer->path, &guessed);
  const char *slash = strrchr (layer->path, '/');
  if (layer->codec != MODELPACK_RAW && guessed)
    return g_strdup (layer->path);
  return g_strndup (layer->path, slash == NULL ? 0 : (gsize) (slash - layer->path));
}

char *
modelpack_model_dir (const Modelpack *self)
{
  g_autofree char *dir = NULL;
  for (guint i = 0; i < self->layers->len; i++)
    {
      const ModelpackLayer *layer = &g_array_index (self->layers, ModelpackLayer, i);
      if (layer->path == NULL || (layer->kind != MODELPACK_WEIGHT && layer->kind != MODELPACK_WEIGHT_CONFIG))
        continue;
      g_autofree char *folder = layer_folder (layer);
      if (dir == NULL)
        dir = g_steal_pointer (&folder);
      else
        shorten_to_common (dir, folder);
    }
  return dir != NULL ? g_steal_pointer (&dir) : g_strdup ("");
}

static gboolean
is_model_entry (const Descriptor *entry)
{
  return g_strcmp0 (entry->artifact_type, MODEL_ARTIFACT) == 0
         || (entry->artifact_type != NULL && g_str_has_prefix (entry->artifact_type, "application/vnd.cnai.model."));
}

static const Descriptor *
fail_ambiguous (const Manifest *index, GError **error)
{
  g_autoptr (GString) choices = g_string_new (NULL);
  for (guint i = 0; i < index->manifests->len && i < MAX_SHOWN; i++)
    {
      const Descriptor *entry = g_ptr_array_index (index->manifests, i);
      char digest[DIGEST_STRING_SIZE];
      g_string_append_printf (choices, "%s%s (%s%s%s%s)", i > 0 ? ", " : "", digest_format (&entry->digest, digest),
                              entry->artifact_type != NULL ? entry->artifact_type : entry->media_type,
                              entry->os != NULL ? " " : "", entry->os != NULL ? entry->os : "",
                              entry->architecture != NULL ? entry->architecture : "");
    }
  return am_fail_null (error, AM_ERROR_FAILED_PRECONDITION, "Ambiguous",
                       "the reference names an index of %u manifests and it is not clear which one is the model; "
                       "give one by digest: %s%s",
                       index->manifests->len, choices->len > 0 ? choices->str : "there is none",
                       index->manifests->len > MAX_SHOWN ? ", ..." : "");
}

const Descriptor *
modelpack_choose (const Manifest *index, GError **error)
{
  const Descriptor *model = NULL;
  guint n_models = 0;
  for (guint i = 0; i < index->manifests->len; i++)
    if (is_model_entry (g_ptr_array_index (index->manifests, i)))
      {
        model = g_ptr_array_index (index->manifests, i);
        n_models++;
      }
  if (n_models == 1)
    return model;
  if (n_models == 0 && index->manifests->len == 1)
    return g_ptr_array_index (index->manifests, 0);
  return fail_ambiguous (index, error);
}
