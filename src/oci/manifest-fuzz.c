/* Any bytes as a manifest: refused with a reason, or understood within limits, its descriptors written as they
 * were read; whatever the files of a model found in it are, their paths are safe and distinct. */
#include "base/file.h"
#include "oci/modelpack.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static char *
print (const Descriptor *descriptor)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_doc_set_root (doc, descriptor_write (doc, descriptor));
  return json_write (doc, NULL);
}

static void
check_descriptor (const Descriptor *descriptor)
{
  g_autofree char *text = print (descriptor);
  g_autoptr (yyjson_doc) doc = json_parse (text, strlen (text), 16 << 20, JSON_STRICT, NULL);
  g_assert_nonnull (doc);
  g_autoptr (Descriptor) again = descriptor_parse (yyjson_doc_get_root (doc), NULL);
  g_assert_nonnull (again);
  g_autofree char *text_again = print (again);
  g_assert_cmpstr (text, ==, text_again);
}

static void
check_modelpack (const Manifest *manifest)
{
  g_autoptr (Modelpack) pack = modelpack_read (manifest, NULL);
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; pack != NULL && i < pack->layers->len; i++)
    {
      const ModelpackLayer *layer = &g_array_index (pack->layers, ModelpackLayer, i);
      g_assert_true (layer->path != NULL || layer->codec != MODELPACK_RAW);
      if (layer->path == NULL)
        continue;
      g_assert_true (path_is_safe (layer->path));
      g_assert_true (g_hash_table_add (seen, layer->path));
    }
  g_autofree char *dir = pack == NULL ? NULL : modelpack_model_dir (pack);
  g_assert_true (dir == NULL || *dir == '\0' || path_is_safe (dir));
}

static void
check_manifest (const Manifest *manifest)
{
  g_autoptr (GArray) refs = manifest_refs (manifest);
  g_assert_cmpuint (refs->len, <=, MANIFEST_MAX_DESCRIPTORS + 1);
  for (guint i = 0; i < refs->len; i++)
    check_descriptor (g_array_index (refs, ManifestRef, i).descriptor);
  Digest digest = { 0 };
  g_autofree char *referrer = manifest_referrer_descriptor (manifest, &digest, 1);
  g_assert_nonnull (referrer);
  if (manifest->kind == MANIFEST_INDEX)
    modelpack_choose (manifest, NULL);
  check_modelpack (manifest);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);
  g_autoptr (GError) error = NULL;
  g_autoptr (Manifest) manifest = manifest_parse (bytes, NULL, &error);
  if (manifest != NULL)
    check_manifest (manifest);
  else
    g_assert_nonnull (am_error_reason (error));
  g_auto (ModelpackFacts) facts = { 0 };
  if (modelpack_read_config (bytes, &facts, NULL))
    {
      ModelpackFile file = { .path = "m.gguf", .size_bytes = 1 };
      g_autoptr (GBytes) config = NULL, built = NULL;
      g_assert_true (modelpack_build (&file, 1, &facts, &config, &built, NULL) || size > MANIFEST_MAX_BYTES / 2);
    }
  return 0;
}
