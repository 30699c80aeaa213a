/* Any answer of a store: refused with an error, or what came of it is within the limits and proper text. */
#include "storage/s3_xml.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_listing (const char *text, gsize size)
{
  g_auto (S3Listing) listing = { 0 };
  g_autoptr (GError) error = NULL;
  if (!s3_listing_parse (text, size, &listing, &error))
    {
      g_assert_error (error, AM_ERROR, AM_ERROR_DATA_LOSS);
      return;
    }
  g_assert_cmpuint (listing.objects->len, <=, S3_XML_MAX_KEYS);
  g_assert_cmpuint (listing.folders->len, <=, S3_XML_MAX_KEYS);
  for (guint i = 0; i < listing.objects->len; i++)
    g_assert_true (g_utf8_validate (g_array_index (listing.objects, S3Object, i).key, -1, NULL));
  for (guint i = 0; i < listing.folders->len; i++)
    g_assert_true (g_utf8_validate (g_ptr_array_index (listing.folders, i), -1, NULL));
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  const char *text = (const char *) data;
  g_auto (S3Error) found = { 0 };
  g_autoptr (GError) error = NULL;
  if (s3_error_parse (text, size, &found))
    g_assert_nonnull (found.code);
  check_listing (text, size);
  if (!s3_delete_result_check (text, size, &error))
    g_assert_nonnull (error);
  return 0;
}
