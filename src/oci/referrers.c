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

/* A copy of an index that manifest_parse took, for changing its list. */
static yyjson_mut_doc *
open_index (GBytes *index, yyjson_mut_val **out_list, GError **error)
{
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (index, &size);
  g_autoptr (yyjson_doc) old = json_parse (data, size, MANIFEST_MAX_BYTES, JSON_STRICT, error);
  if (old == NULL)
    return NULL;
  yyjson_mut_doc *doc = yyjson_doc_mut_copy (old, NULL);
  *out_list = yyjson_mut_obj_get (yyjson_mut_doc_get_root (doc), "manifests");
  return doc;
}

static GBytes *
write_index (yyjson_mut_doc *doc)
{
  gsize size = 0;
  char *text = json_write (doc, &size);
  return g_bytes_new_take (text, size);
}

static GBytes *
append_entry (GBytes *index, const char *descriptor, GError **error)
{
  yyjson_mut_val *list = NULL;
  g_autoptr (yyjson_mut_doc) doc = open_index (index, &list, error);
  if (doc == NULL)
    return NULL;
  g_autoptr (yyjson_doc) entry = json_parse (descriptor, strlen (descriptor), MANIFEST_MAX_BYTES, JSON_STRICT, error);
  if (entry == NULL)
    return NULL;
  yyjson_mut_arr_append (list, yyjson_val_mut_copy (doc, yyjson_doc_get_root (entry)));
  g_autoptr (GBytes) bytes = write_index (doc);
  if (g_bytes_get_size (bytes) > MANIFEST_MAX_BYTES)
    return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, "SIZE_INVALID", "the index of referrers is full");
  return g_steal_pointer (&bytes);
}

GBytes *
referrers_index_add (GBytes *index, const Digest *referrer, const char *descriptor, gboolean *out_had, GError **error)
{
  g_autoptr (GBytes) start = index != NULL ? g_bytes_ref (index)
                                           : g_bytes_new_static (EMPTY_INDEX, strlen (EMPTY_INDEX));
  g_autoptr (Manifest) parsed = manifest_parse (start, OCI_INDEX, error);
  if (parsed == NULL)
    return NULL;
  *out_had = has_entry (parsed, referrer);
  return *out_had ? g_steal_pointer (&start) : append_entry (start, descriptor, error);
}

GBytes *
referrers_index_remove (GBytes *index, const Digest *referrer, gboolean *out_had, GError **error)
{
  g_autoptr (Manifest) parsed = manifest_parse (index, OCI_INDEX, error);
  yyjson_mut_val *list = NULL;
  if (parsed == NULL)
    return NULL;
  *out_had = has_entry (parsed, referrer);
  if (!*out_had)
    return g_bytes_ref (index);
  g_autoptr (yyjson_mut_doc) doc = open_index (index, &list, error);
  if (doc == NULL)
    return NULL;
  for (guint i = parsed->manifests->len; i > 0; i--)
    if (digest_equal (&((const Descriptor *) g_ptr_array_index (parsed->manifests, i - 1))->digest, referrer))
      yyjson_mut_arr_remove (list, i - 1);
  return write_index (doc);
}
