#include "oci/referrers.h"

#include <string.h>

#include "base/json.h"
#include "oci/manifest.h"

#define TAG_HEX_CHARS 64
#define EMPTY_INDEX "{\"schemaVersion\":2,\"mediaType\":\"" OCI_INDEX "\",\"manifests\":[]}"

char *
referrers_tag (const Digest *subject)
{
  char hex[2 * DIGEST_MAX_BYTES + 1];
  return g_strdup_printf ("%s-%.*s", digest_algorithm_name (subject->algorithm), TAG_HEX_CHARS,
                          digest_hex (subject, hex));
}

static gboolean
has_entry (const Manifest *index, const Digest *referrer)
{
  for (guint i = 0; i < index->manifests->len; i++)
    if (digest_equal (&((const Descriptor *) g_ptr_array_index (index->manifests, i))->digest, referrer))
      return TRUE;
  return FALSE;
}

static GBytes *
append_entry (GBytes *index, const char *descriptor, GError **error)
{
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (index, &size);
  g_autoptr (yyjson_doc) old = json_parse (data, size, MANIFEST_MAX_BYTES, JSON_STRICT, error);
  g_autoptr (yyjson_doc) entry
    = json_parse (descriptor, strlen (descriptor), MANIFEST_MAX_BYTES, JSON_STRICT, old != NULL ? error : NULL);
  if (old == NULL || entry == NULL)
    return NULL;
  g_autoptr (yyjson_mut_doc) doc = yyjson_doc_mut_copy (old, NULL);
  yyjson_mut_val *list = yyjson_mut_obj_get (yyjson_mut_doc_get_root (doc), "manifests");
  if (!yyjson_mut_arr_append (list, yyjson_val_mut_copy (doc, yyjson_doc_get_root (entry))))
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID", "the index has no list of manifests");
  char *text = json_write (doc, &size);
  GBytes *bytes = g_bytes_new_take (text, size);
  if (size <= MANIFEST_MAX_BYTES)
    return bytes;
  g_bytes_unref (bytes);
  return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, "SIZE_INVALID", "the index of referrers is full");
}

GBytes *
referrers_index_add (GBytes *index, const Digest *referrer, const char *descriptor, gboolean *out_had, GError **error)
{
  g_autoptr (GBytes) start
    = index != NULL ? g_bytes_ref (index) : g_bytes_new_static (EMPTY_INDEX, strlen (EMPTY_INDEX));
  g_autoptr (Manifest) parsed = manifest_parse (start, OCI_INDEX, error);
  if (parsed == NULL)
    return NULL;
  *out_had = has_entry (parsed, referrer);
  return *out_had ? g_steal_pointer (&start) : append_entry (start, descriptor, error);
}
