#include "delivery/volume_marker.h"

#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"

static const JsonField fields[] = {
  JSON_FIELD (VolumeMarker, version, "version", JSON_STRING, TRUE),
  JSON_FIELD (VolumeMarker, digest, "digest", JSON_STRING, TRUE),
  JSON_FIELD (VolumeMarker, media_type, "mediaType", JSON_STRING, FALSE),
  JSON_FIELD (VolumeMarker, model_path, "modelPath", JSON_STRING, TRUE),
  JSON_FIELD (VolumeMarker, ready_at, "readyAt", JSON_STRING, FALSE),
  JSON_FIELD (VolumeMarker, size_bytes, "sizeBytes", JSON_UINT64, FALSE),
  JSON_FIELD (VolumeMarker, n_files, "files", JSON_UINT64, FALSE),
};

char *
volume_marker_format (const VolumeMarker *self, gsize *out_size)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  json_unbind (doc, root, fields, G_N_ELEMENTS (fields), self);
  return json_write (doc, out_size);
}

void
volume_marker_clear (VolumeMarker *self)
{
  json_clear (fields, G_N_ELEMENTS (fields), self);
  memset (self, 0, sizeof *self);
}

gboolean
volume_marker_parse (gconstpointer text, gsize size, VolumeMarker *out_marker, GError **error)
{
  Digest digest;
  g_auto (VolumeMarker) marker = { 0 };
  g_autoptr (yyjson_doc) doc = json_parse (text, size, VOLUME_MARKER_MAX_BYTES, JSON_STRICT, error);
  if (doc == NULL || !json_bind (yyjson_doc_get_root (doc), fields, G_N_ELEMENTS (fields), &marker, error)
      || !digest_parse (marker.digest, &digest, error))
    return FALSE;
  if (strcmp (marker.version, "v1") != 0 || !path_is_safe (marker.model_path))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "a marker of another kind");
  *out_marker = marker;
  marker = (VolumeMarker){ 0 };
  return TRUE;
}
