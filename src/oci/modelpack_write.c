#include "oci/modelpack_config.h"
#include "oci/path_set.h"

#include <string.h>

#define ANNOTATION_UNTESTED "org.cncf.model.file.mediatype.untested"

typedef struct {
  const ModelpackFile *file;
  ModelpackKind kind;
  gboolean guessed;
} Layer;

static int
layer_order (gconstpointer a, gconstpointer b)
{
  const Layer *left = a;
  const Layer *right = b;
  if (left->kind != right->kind)
    return left->kind < right->kind ? -1 : 1;
  return strcmp (left->file->path, right->file->path);
}

static GArray *
order_layers (const ModelpackFile *files, gsize n_files, GError **error)
{
  g_autoptr (PathSet) paths = path_set_new ();
  g_autoptr (GArray) layers = g_array_sized_new (FALSE, FALSE, sizeof (Layer), (guint) n_files);
  for (gsize i = 0; i < n_files; i++)
    {
      if (!path_set_add (paths, files[i].path, FALSE, error))
        return NULL;
      Layer layer = { .file = &files[i] };
      layer.kind = modelpack_kind_of_path (files[i].path, &layer.guessed);
      g_array_append_val (layers, layer);
    }
  g_array_sort (layers, layer_order);
  return g_steal_pointer (&layers);
}

/* modctl restores mode and time from this; a fixed form keeps the digest a matter of content. */
static char *
fixed_metadata (const ModelpackFile *file)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *object = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, object);
  const char *slash = strrchr (file->path, '/');
  yyjson_mut_obj_add_uint (doc, object, "gid", 0);
  yyjson_mut_obj_add_uint (doc, object, "mode", 0644);
  yyjson_mut_obj_add_str (doc, object, "mtime", "1970-01-01T00:00:00Z");
  yyjson_mut_obj_add_str (doc, object, "name", slash == NULL ? file->path : slash + 1);
  yyjson_mut_obj_add_uint (doc, object, "size", file->size_bytes);
  yyjson_mut_obj_add_uint (doc, object, "typeflag", '0');
  yyjson_mut_obj_add_uint (doc, object, "uid", 0);
  return json_write (doc, NULL);
}

static yyjson_mut_val *
write_layer (yyjson_mut_doc *doc, const Layer *layer)
{
  g_autofree char *type = g_strdup_printf ("application/vnd.cncf.model.%s.v1.raw", modelpack_kind_name (layer->kind));
  g_autofree char *metadata = fixed_metadata (layer->file);
  g_autoptr (Descriptor) descriptor = descriptor_new (type, &layer->file->digest, layer->file->size_bytes);
  if (layer->guessed)
    descriptor_annotate (descriptor, ANNOTATION_UNTESTED, "true");
  descriptor_annotate (descriptor, ANNOTATION_FILE_METADATA, metadata);
  descriptor_annotate (descriptor, ANNOTATION_FILEPATH, layer->file->path);
  descriptor_annotate (descriptor, ANNOTATION_TITLE, layer->file->path);
  return descriptor_write (doc, descriptor);
}

static GBytes *
write_manifest (GArray *layers, GBytes *config)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  Digest digest;
  gsize config_size = 0;
  gconstpointer config_data = g_bytes_get_data (config, &config_size);
  digest_of (DIGEST_SHA256, config_data, config_size, &digest);
  g_autoptr (Descriptor) descriptor = descriptor_new (MODEL_CONFIG, &digest, config_size);
  yyjson_mut_obj_add_str (doc, root, "artifactType", MODEL_ARTIFACT);
  yyjson_mut_obj_add_val (doc, root, "config", descriptor_write (doc, descriptor));
  yyjson_mut_val *array = yyjson_mut_obj_add_arr (doc, root, "layers");
  for (guint i = 0; i < layers->len; i++)
    yyjson_mut_arr_append (array, write_layer (doc, &g_array_index (layers, Layer, i)));
  yyjson_mut_obj_add_str (doc, root, "mediaType", OCI_MANIFEST);
  yyjson_mut_obj_add_uint (doc, root, "schemaVersion", 2);
  gsize size = 0;
  char *text = json_write (doc, &size);
  return g_bytes_new_take (text, size);
}

gboolean
modelpack_build (const ModelpackFile *files, gsize n_files, const ModelpackFacts *facts, GBytes **out_config,
                 GBytes **out_manifest, GError **error)
{
  if (n_files == 0)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "PathInvalid", "a model needs at least one file");
  if (n_files > MANIFEST_MAX_DESCRIPTORS)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "TooManyFiles",
                    "%" G_GSIZE_FORMAT " files are more than one manifest may list (%u)", n_files,
                    MANIFEST_MAX_DESCRIPTORS);
  g_autoptr (GArray) layers = order_layers (files, n_files, error);
  if (layers == NULL)
    return FALSE;
  g_autofree Digest *diff_ids = g_new (Digest, n_files);
  for (gsize i = 0; i < n_files; i++)
    diff_ids[i] = g_array_index (layers, Layer, i).file->digest; /* raw: compressed nowhere, so the same */
  const ModelpackFacts nothing = { 0 };
  g_autoptr (GBytes) config = modelpack_write_config (facts != NULL ? facts : &nothing, diff_ids, n_files);
  g_autoptr (GBytes) manifest = write_manifest (layers, config);
  if (MAX (g_bytes_get_size (manifest), g_bytes_get_size (config)) > MANIFEST_MAX_BYTES)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, "TooManyFiles",
                    "the manifest of %" G_GSIZE_FORMAT " files would be larger than the %u bytes registries take",
                    n_files, MANIFEST_MAX_BYTES);
  *out_config = g_steal_pointer (&config);
  *out_manifest = g_steal_pointer (&manifest);
  return TRUE;
}
