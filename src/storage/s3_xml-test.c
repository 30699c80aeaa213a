#include "storage/s3_xml.h"

#include <string.h>

#define HEAD "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
#define LIST(inner) \
  HEAD "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" inner "</ListBucketResult>"
#define OBJECT(key, size, time)                                                                            \
  "<Contents><Key>" key "</Key><LastModified>" time "</LastModified><ETag>&quot;x&quot;</ETag><Size>" size \
  "</Size><StorageClass>STANDARD</StorageClass></Contents>"
#define TIME "2026-11-30T09:30:00.250Z"

static void
test_error (void)
{
  static const struct {
    const char *text, *code, *message, *region; /* code NULL: no error document */
  } rows[] = {
    { HEAD "<Error><Code>NoSuchKey</Code><Message>It is &lt;gone&gt;</Message><Resource>/b/k</Resource></Error>",
      "NoSuchKey", "It is <gone>", NULL },
    { "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>",
      "AuthorizationHeaderMalformed", NULL, "eu-west-1" },
    { "<s3:Error xmlns:s3=\"x\"><s3:Code>A</s3:Code></s3:Error>", "A", NULL, NULL },
    { "<Error><Code>A</Code>", NULL, NULL, NULL }, /* cut */
    { "<Error><Message>no code</Message></Error>", NULL, NULL, NULL },
    { "<Other><Code>A</Code></Other>", NULL, NULL, NULL },
    { "<html><body>502 Bad Gateway</body></html>", NULL, NULL, NULL },
    { "{\"code\":\"x\"}", NULL, NULL, NULL },
    { "", NULL, NULL, NULL },
    { "<!DOCTYPE x [<!ENTITY a \"b\">]><Error><Code>&a;</Code></Error>", NULL, NULL, NULL },
    { "<Error><Code>&a;</Code></Error>", NULL, NULL, NULL },
    { "<Error><a><b><c><d><e><f><g><h>x</h></g></f></e></d></c></b></a><Code>A</Code></Error>", NULL, NULL, NULL },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (S3Error) found = { 0 };
      gboolean ok = s3_error_parse (rows[i].text, strlen (rows[i].text), &found);
      g_assert_cmpint (ok, ==, rows[i].code != NULL);
      g_assert_cmpstr (found.code, ==, rows[i].code);
      g_assert_cmpstr (found.message, ==, rows[i].message);
      g_assert_cmpstr (found.region, ==, rows[i].region);
    }
}

static void
test_listing (void)
{
  static const char text[] = LIST (
    "<Name>b</Name><Prefix>a/</Prefix><KeyCount>3</KeyCount><MaxKeys>2</MaxKeys><EncodingType>url</EncodingType>" OBJECT (
      "a/b%20c%2Bd+e", "12", TIME)
      OBJECT ("a/%D0%BA", "18446744073709551615",
              "2026-11-30T09:30:00Z") "<CommonPrefixes><Prefix>a/x%3D/</Prefix></CommonPrefixes>"
                                      "<IsTruncated>true</IsTruncated><NextContinuationToken>"
                                      "t/+=</NextContinuationToken>");
  g_auto (S3Listing) listing = { 0 };
  g_autoptr (GError) error = NULL;
  g_assert_true (s3_listing_parse (text, strlen (text), &listing, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (listing.objects->len, ==, 2);
  const S3Object *object = &g_array_index (listing.objects, S3Object, 0);
  g_assert_cmpstr (object->key, ==, "a/b c+d+e");
  g_assert_cmpuint (object->size_bytes, ==, 12);
  g_assert_cmpint (object->modified_ms, ==, 1796031000250);
  object = &g_array_index (listing.objects, S3Object, 1);
  g_assert_cmpstr (object->key, ==, "a/к");
  g_assert_cmpuint (object->size_bytes, ==, G_MAXUINT64);
  g_assert_cmpuint (listing.folders->len, ==, 1);
  g_assert_cmpstr (g_ptr_array_index (listing.folders, 0), ==, "a/x=/");
  g_assert_cmpstr (listing.next_token, ==, "t/+=");
}

static void
test_bad_listings (void)
{
  g_autoptr (GString) many = g_string_new ("<ListBucketResult>");
  for (guint i = 0; i <= S3_XML_MAX_KEYS; i++)
    g_string_append_printf (many, OBJECT ("k%u", "1", TIME), i);
  g_string_append (many, "</ListBucketResult>");
  g_autofree char *blank = g_strnfill (20000, 'x');
  g_autofree char *long_key = g_strdup_printf (LIST (OBJECT ("%s", "1", TIME)), blank);
  g_autofree char *huge = g_strnfill (S3_XML_MAX_BYTES + 1, ' ');
  memcpy (huge, "<ListBucketResult/>", 19);
  const char *const rows[] = {
    "",
    "<ListBucketResult>",
    "<Error><Code>A</Code></Error>",
    "<ListBucketResult/>x",
    LIST (OBJECT ("a/b", "-1", TIME)),
    LIST (OBJECT ("a/b", "", TIME)),
    LIST (OBJECT ("a/b", "1", "yesterday")),
    LIST (OBJECT ("a%zz", "1", TIME)),
    LIST (OBJECT ("a%FF", "1", TIME)),
    LIST (OBJECT ("a%00b", "1", TIME)),
    LIST ("<Contents><Size>1</Size></Contents>"),
    LIST ("<IsTruncated>true</IsTruncated>"),
    "<!DOCTYPE ListBucketResult><ListBucketResult/>",
    many->str,
    long_key,
    huge,
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (S3Listing) listing = { 0 };
      g_autoptr (GError) error = NULL;
      g_assert_false (s3_listing_parse (rows[i], strlen (rows[i]), &listing, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_DATA_LOSS);
    }
}

static void
test_other_answers (void)
{
  static const struct {
    const char *text;
    int code; /* 0: fine */
  } deletes[] = {
    { "<DeleteResult/>", 0 },
    { "<DeleteResult><Deleted><Key>a</Key></Deleted></DeleteResult>", 0 },
    { "<DeleteResult><Error><Key>a</Key><Code>NoSuchKey</Code></Error></DeleteResult>", 0 },
    { "<DeleteResult><Error><Key>a</Key><Code>InternalError</Code></Error></DeleteResult>", AM_ERROR_UNAVAILABLE },
    { "<DeleteResult><Deleted>", AM_ERROR_DATA_LOSS },
    { "<Error><Code>A</Code></Error>", AM_ERROR_DATA_LOSS },
  };
  g_autoptr (GError) error = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (deletes); i++)
    {
      gboolean ok = s3_delete_result_check (deletes[i].text, strlen (deletes[i].text), &error);
      g_assert_cmpint (ok, ==, deletes[i].code == 0);
      if (!ok)
        g_assert_error (error, AM_ERROR, deletes[i].code);
      g_clear_error (&error);
    }
  g_assert_true (s3_xml_is ("<A><B/></A>", 11, "A"));
  g_assert_false (s3_xml_is ("<A><B/>", 7, "A"));
  g_assert_false (s3_xml_is ("<AB><B/></AB>", 13, "A"));
}

#define UPLOADS(inner) "<ListMultipartUploadsResult>" inner "</ListMultipartUploadsResult>"
#define UPLOAD(key, id, time) \
  "<Upload><Key>" key "</Key><UploadId>" id "</UploadId><Initiated>" time "</Initiated></Upload>"

static void
test_uploads (void)
{
  static const char two[] = UPLOADS (UPLOAD ("p/a", "1", TIME) UPLOAD (
    "p/b", "2", TIME) "<NextKeyMarker>p/b</NextKeyMarker>"
                      "<NextUploadIdMarker>2</NextUploadIdMarker><IsTruncated>true</IsTruncated>");
  static const char *const bad[] = {
    "",
    "<ListMultipartUploadsResult>",
    "<Error><Code>A</Code></Error>",
    UPLOADS ("<Upload><Key>a</Key></Upload>"),
    UPLOADS ("<Upload><UploadId>1</UploadId></Upload>"),
    UPLOADS (UPLOAD ("a", "1", "yesterday")),
    UPLOADS ("<IsTruncated>true</IsTruncated>"),
    UPLOADS ("<IsTruncated>true</IsTruncated><NextKeyMarker/>"),
  };
  g_auto (S3Uploads) page = { 0 }, last = { 0 };
  g_autoptr (GError) error = NULL;
  g_assert_true (s3_uploads_parse (two, strlen (two), &page, &error));
  g_assert_cmpuint (page.uploads->len, ==, 2);
  g_assert_cmpstr (g_array_index (page.uploads, S3Upload, 1).key, ==, "p/b");
  g_assert_cmpstr (g_array_index (page.uploads, S3Upload, 1).id, ==, "2");
  g_assert_cmpint (g_array_index (page.uploads, S3Upload, 0).begun_ms, >, 0);
  g_assert_cmpstr (page.next_key, ==, "p/b");
  g_assert_cmpstr (page.next_id, ==, "2");
  static const char none[] = UPLOADS ("<NextKeyMarker>x</NextKeyMarker><IsTruncated>false</IsTruncated>");
  g_assert_true (s3_uploads_parse (none, strlen (none), &last, &error));
  g_assert_cmpuint (last.uploads->len, ==, 0);
  g_assert_null (last.next_key);
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_auto (S3Uploads) uploads = { 0 };
      g_assert_false (s3_uploads_parse (bad[i], strlen (bad[i]), &uploads, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_DATA_LOSS);
      g_clear_error (&error);
    }
}

#define PARTS(inner) "<ListPartsResult>" inner "</ListPartsResult>"
#define PART(number, etag, size) \
  "<Part><PartNumber>" number "</PartNumber><ETag>" etag "</ETag><Size>" size "</Size></Part>"

static void
test_parts (void)
{
  static const char two[] = PARTS ("<Key>k</Key>" PART ("2", "&quot;b&quot;", "7") PART (
    "10000", "c", "0") "<IsTruncated>true</IsTruncated><NextPartNumberMarker>10000</NextPartNumberMarker>");
  static const char none[] = PARTS ("<NextPartNumberMarker>0</NextPartNumberMarker><IsTruncated>false</IsTruncated>");
  static const char *const bad[] = {
    "",
    "<ListPartsResult>",
    "<Error><Code>A</Code></Error>",
    PARTS ("<Part><PartNumber>1</PartNumber><Size>1</Size></Part>"),
    PARTS ("<Part><PartNumber>1</PartNumber><ETag>a</ETag></Part>"),
    PARTS ("<Part><ETag>a</ETag><Size>1</Size></Part>"),
    PARTS (PART ("1", "a", "1") "<Part><ETag>a</ETag><Size>1</Size></Part>"),
    PARTS (PART ("0", "a", "1")),
    PARTS (PART ("10001", "a", "1")),
    PARTS (PART ("1", "a", "-1")),
    PARTS (PART ("1", "a", "1") "<IsTruncated>true</IsTruncated>"),
    PARTS ("<IsTruncated>true</IsTruncated><NextPartNumberMarker>10001</NextPartNumberMarker>"),
    PARTS ("<NextPartNumberMarker>x</NextPartNumberMarker>"),
    PARTS ("<Part><LastModified>x</LastModified></Part>"),
  };
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func ((GDestroyNotify) object_part_free);
  g_autoptr (GError) error = NULL;
  guint next = 77;
  g_assert_true (s3_parts_parse (two, strlen (two), parts, &next, &error));
  g_assert_cmpuint (parts->len, ==, 2);
  g_assert_cmpuint (next, ==, 10000);
  const ObjectPart *first = g_ptr_array_index (parts, 0), *second = g_ptr_array_index (parts, 1);
  g_assert_cmpuint (first->number, ==, 2);
  g_assert_cmpstr (first->etag, ==, "b");
  g_assert_cmpuint (first->size_bytes, ==, 7);
  g_assert_cmpstr (second->etag, ==, "c");
  g_assert_true (s3_parts_parse (none, strlen (none), parts, &next, &error));
  g_assert_cmpuint (parts->len, ==, 2);
  g_assert_cmpuint (next, ==, 0);
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_assert_false (s3_parts_parse (bad[i], strlen (bad[i]), parts, &next, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_DATA_LOSS);
      g_clear_error (&error);
    }
}

static void
test_value (void)
{
  static const char text[] = "<A><B>1&amp;</B><B>2</B></A>";
  g_autofree char *first = s3_xml_value (text, strlen (text), "A/B");
  g_autofree char *none = s3_xml_value (text, strlen (text), "A/C");
  g_autofree char *other = s3_xml_value (text, strlen (text), "C/B");
  g_autofree char *cut = s3_xml_value (text, strlen (text) - 1, "A/B");
  g_assert_cmpstr (first, ==, "1&");
  g_assert_null (none);
  g_assert_null (other);
  g_assert_null (cut);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/s3-xml/error", test_error);
  g_test_add_func ("/s3-xml/listing", test_listing);
  g_test_add_func ("/s3-xml/bad-listings", test_bad_listings);
  g_test_add_func ("/s3-xml/other-answers", test_other_answers);
  g_test_add_func ("/s3-xml/uploads", test_uploads);
  g_test_add_func ("/s3-xml/parts", test_parts);
  g_test_add_func ("/s3-xml/value", test_value);
  return g_test_run ();
}
