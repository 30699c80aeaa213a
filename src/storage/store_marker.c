#include "storage/store_marker.h"

#include "base/json.h"

#define FORMAT "ai-models-store"
#define VERSION 1

gboolean
store_marker_check (GBytes *text, const char *name, const char *place, GError **error)
{
  gsize size;
  gconstpointer data = g_bytes_get_data (text, &size);
  g_autoptr (yyjson_doc) doc = json_parse (data, size, STORE_MARKER_LIMIT_BYTES, JSON_STRICT, NULL);
  yyjson_val *root = doc != NULL ? yyjson_doc_get_root (doc) : NULL;
  yyjson_val *version = yyjson_obj_get (root, "version");
  if (g_strcmp0 (json_get_string (root, "format"), FORMAT) != 0 || !yyjson_is_uint (version))
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL, "%s is damaged, or another program's", name);
  if (yyjson_get_uint (version) != VERSION)
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL,
                    "the store in %s has format version %" G_GUINT64_FORMAT ", this program knows version %d: use a "
                    "newer program",
                    place, yyjson_get_uint (version), VERSION);
  return TRUE;
}
