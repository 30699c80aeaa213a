/* Lines "key=value" as the data of a Secret (the first is its expiry): no session, or one that says the same after writing
 * and reading, whatever was done to it. */
#include "cluster/model_upload.h"

#include <string.h>

#define NOW_MS 1796000000000ll

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static KubeObject *
make_secret (char *const *lines)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_val *metadata = yyjson_mut_obj_add_obj (doc, root, "metadata");
  yyjson_mut_val *values = yyjson_mut_obj_add_obj (doc, root, "data");
  yyjson_mut_obj_add_str (doc, metadata, "name", "n");
  yyjson_mut_obj_add_strcpy (doc, metadata_map (doc, metadata, "annotations"), "ai.deckhouse.io/upload-expires-at",
                             lines[0]);
  for (guint i = 1; lines[i] != NULL && i < 30; i++)
    {
      const char *equals = strchr (lines[i], '=');
      if (equals == NULL)
        continue;
      g_autofree char *coded = g_base64_encode ((const guchar *) equals + 1, strlen (equals + 1));
      yyjson_mut_obj_add (values, yyjson_mut_strncpy (doc, lines[i], (gsize) (equals - lines[i])),
                          yyjson_mut_strcpy (doc, coded));
    }
  gsize size = 0;
  g_autofree char *text = json_write (doc, &size);
  return kube_object_parse (text, size, 1 << 20, NULL);
}

static ModelUpload *
reread (const ModelUpload *self, char **out_text)
{
  g_autoptr (yyjson_mut_doc) doc = model_upload_document (self, NULL);
  gsize size = 0;
  *out_text = json_write (doc, &size);
  g_autoptr (KubeObject) secret = kube_object_parse (*out_text, size, 1 << 20, NULL);
  ModelUpload *again = model_upload_parse (secret, NULL);
  g_assert_nonnull (again);
  return again;
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *text = g_strndup ((const char *) data, size);
  g_auto (GStrv) lines = g_strsplit (text, "\n", 0);
  if (lines[0] == NULL)
    return 0;
  g_autoptr (KubeObject) secret = make_secret (lines);
  g_autoptr (ModelUpload) upload = secret != NULL ? model_upload_parse (secret, NULL) : NULL;
  if (upload == NULL)
    return 0;
  g_autofree char *first = NULL, *second = NULL, *third = NULL;
  g_autoptr (ModelUpload) again = reread (upload, &first);
  g_autoptr (ModelUpload) last = reread (again, &second);
  g_assert_cmpstr (first, ==, second);
  ModelUploadState before = model_upload_state (again, NOW_MS);
  model_upload_settle (again, NOW_MS);
  g_assert_cmpint (model_upload_state (again, NOW_MS), ==, before);
  g_assert_false (model_upload_settle (again, NOW_MS));
  g_assert_false (model_upload_admits (again, "no"));
  g_autoptr (ModelUpload) settled = reread (again, &third);
  return 0;
}
