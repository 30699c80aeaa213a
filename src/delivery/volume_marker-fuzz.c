/* Any bytes as a marker: refused, or one that says the same when it is written. */
#include "delivery/volume_marker.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_auto (VolumeMarker) marker = { 0 }, again = { 0 };
  gsize written = 0;
  if (!volume_marker_parse (data, size, &marker, NULL))
    return 0;
  g_autofree char *text = volume_marker_format (&marker, &written);
  if (written > VOLUME_MARKER_MAX_BYTES) /* escapes are longer than what they stand for */
    return 0;
  g_assert_true (volume_marker_parse (text, written, &again, NULL));
  g_assert_cmpstr (marker.digest, ==, again.digest);
  g_assert_cmpstr (marker.model_path, ==, again.model_path);
  g_assert_cmpstr (marker.media_type, ==, again.media_type);
  g_assert_cmpuint (marker.size_bytes, ==, again.size_bytes);
  return 0;
}
