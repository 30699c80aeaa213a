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

static void
check_uploads (const char *text, gsize size)
{
  g_auto (S3Uploads) uploads = { 0 };
  g_autoptr (GError) error = NULL;
  if (!s3_uploads_parse (text, size, &uploads, &error))
    {
      g_assert_error (error, AM_ERROR, AM_ERROR_DATA_LOSS);
      return;
    }
  g_assert_cmpuint (uploads.uploads->len, <=, S3_XML_MAX_KEYS);
  for (guint i = 0; i < uploads.uploads->len; i++)
    g_assert_nonnull (g_array_index (uploads.uploads, S3Upload, i).id);
}

static void
check_parts (const char *text, gsize size)
{
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func ((GDestroyNotify) object_part_free);
  g_autoptr (GError) error = NULL;
  guint next = 0;
  if (!s3_parts_parse (text, size, parts, &next, &error))
    g_assert_error (error, AM_ERROR, AM_ERROR_DATA_LOSS);
  g_assert_cmpuint (parts->len, <=, OBJECT_PARTS_MAX);
  g_assert_cmpuint (next, <=, OBJECT_PARTS_MAX);
  for (guint i = 0; i < parts->len; i++)
    g_assert_nonnull (((ObjectPart *) g_ptr_array_index (parts, i))->etag);
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
  check_uploads (text, size);
  check_parts (text, size);
  g_autofree char *id = s3_xml_value (text, size, "InitiateMultipartUploadResult/UploadId");
  if (id != NULL)
    g_assert_true (g_utf8_validate (id, -1, NULL));
  if (!s3_delete_result_check (text, size, &error))
    g_assert_nonnull (error);
  return 0;
}
