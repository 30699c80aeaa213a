/* What the adapter makes of odd answers; the port's contract is in object_store-test.c. */
#include "storage/object_store_s3.h"

#include <string.h>

#include "net/net_fixture.h"
#include "storage/object_parts.h"
#include "storage/object_store_s3_private.h"
#include "storage/s3_multipart.h"
#include "storage/storage_fixture.h"

#define CLOSE "Connection: close\r\n"
#define PART(range, size, body) \
  "HTTP/1.1 206 Partial Content\r\nContent-Range: " range "\r\nContent-Length: " size "\r\n" CLOSE "\r\n" body
#define WHOLE(size, body) "HTTP/1.1 200 OK\r\nContent-Length: " size "\r\n" CLOSE "\r\n" body
#define STATUS(line) "HTTP/1.1 " line "\r\nContent-Length: 0\r\n" CLOSE "\r\n"
#define LIST(inner) "HTTP/1.1 200 OK\r\n" CLOSE "\r\n<ListBucketResult>" inner "</ListBucketResult>"
#define KEY(key) \
  "<Contents><Key>" key "</Key><LastModified>2026-11-30T09:30:00Z</LastModified><Size>1</Size></Contents>"
#define MORE(token) "<IsTruncated>true</IsTruncated><NextContinuationToken>" token "</NextContinuationToken>"

static ObjectStore *
store_for (RawServer *server, const S3Profile *profile)
{
  g_autofree char *endpoint = g_strdup_printf ("http://127.0.0.1:%u", raw_server_port (server));
  g_autoptr (GError) error = NULL;
  S3Config config = { .endpoint = endpoint,
                      .region = (char *) "here",
                      .bucket = (char *) "bucket",
                      .prefix = (char *) "p/",
                      .path_style = TRUE,
                      .access_key_id = (char *) "key",
                      .secret_access_key = (char *) "secret" };
  S3Client *client = s3_client_new (&config, &error);
  g_assert_no_error (error);
  return s3_store_new (client, profile);
}

static void
test_reads (void)
{
  static const struct {
    const char *const answers[3];
    const char *content; /* NULL: fails */
    int code;
    guint n_requests;
  } rows[] = {
    { { PART ("bytes 0-3/4", "4", "abcd") }, "abcd", 0, 1 },
    { { WHOLE ("4", "abcd") }, "abcd", 0, 1 },
    { { WHOLE ("0", "") }, "", 0, 1 },
    { { STATUS ("416 No"),
        "HTTP/1.1 200 OK\r\nLast-Modified: Mon, 30 Nov 2026 09:32:41 GMT\r\nContent-Length: 0\r\n" CLOSE "\r\n" },
      "",
      0,
      2 },
    { { PART ("bytes 0-9/10", "10", "abcd"), PART ("bytes 0-3/4", "4", "abcd") }, "abcd", 0, 2 }, /* cut */
    { { STATUS ("503 No"), PART ("bytes 0-3/4", "4", "abcd") }, "abcd", 0, 2 },
    { { PART ("bytes 1-3/4", "3", "bcd") }, NULL, AM_ERROR_DATA_LOSS, 1 },
    { { PART ("bytes 0-1/4", "2", "ab") }, NULL, AM_ERROR_DATA_LOSS, 1 },
    { { PART ("bytes 0-3/*", "4", "abcd") }, NULL, AM_ERROR_DATA_LOSS, 1 },
    { { PART ("bytes 3-0/4", "4", "abcd") }, NULL, AM_ERROR_DATA_LOSS, 1 },
    { { PART ("nonsense", "4", "abcd") }, NULL, AM_ERROR_DATA_LOSS, 1 },
    { { PART ("bytes 0-3/4", "8", "abcdefgh") }, NULL, AM_ERROR_DATA_LOSS, 1 },
    { { PART ("bytes 0-7/8", "4", "abcd") }, NULL, AM_ERROR_UNAVAILABLE, 1 },
    { { WHOLE ("99999999", "abcd") }, NULL, AM_ERROR_DATA_LOSS, 1 },
    { { "HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\n" CLOSE "\r\nabcd" }, NULL, AM_ERROR_DATA_LOSS, 1 },
    { { "HTTP/1.1 200 OK\r\n" CLOSE "\r\nabcd" }, NULL, AM_ERROR_DATA_LOSS, 1 },
    { { STATUS ("404 No") }, NULL, AM_ERROR_NOT_FOUND, 1 },
  };
  static const S3Profile profile = { 0 };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (RawScript) script = { 0 };
      g_autoptr (ObjectStore) store = store_for (raw_script_start (&script, rows[i].answers), &profile);
      g_autoptr (GError) error = NULL;
      g_test_message ("row %" G_GSIZE_FORMAT, i);
      g_autoptr (GBytes) bytes = object_store_get (NULL, store, "t/x", 100, &error);
      g_assert_cmpuint (raw_server_n_connections (script.server), ==, rows[i].n_requests);
      g_assert_nonnull (strstr (raw_script_request (&script, 0), "range: bytes=0-"));
      if (rows[i].content != NULL)
        {
          g_assert_no_error (error);
          g_assert_cmpmem (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), rows[i].content,
                           strlen (rows[i].content));
        }
      else
        fixture_assert_error (&error, (AmErrorCode) rows[i].code, NULL);
    }
}

/* The rest of an object is asked for under the condition that it is still the same. */
static void
test_replaced (void)
{
  static const char *const answers[] = {
    "HTTP/1.1 206 Part\r\nETag: \"one\"\r\nContent-Range: bytes 0-3/8\r\nContent-Length: 4\r\n" CLOSE "\r\nabcd",
    PART ("bytes 4-7/8", "4", "efgh"),
    STATUS ("412 No"),
    NULL,
  };
  static const S3Profile profile = { 0 };
  char buffer[9] = "";
  g_auto (RawScript) script = { 0 };
  g_autoptr (ObjectStore) store = store_for (raw_script_start (&script, answers), &profile);
  g_autoptr (GError) error = NULL;
  g_autoptr (Reader) reader = object_store_open_head (NULL, store, "t/x", 4, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (reader->size_bytes, ==, 8);
  fixture_assert_ok (reader_read_at (NULL, reader, 0, buffer, 8, &error), error);
  g_assert_cmpstr (buffer, ==, "abcdefgh");
  g_assert_nonnull (strstr (raw_script_request (&script, 0), "range: bytes=0-3\r\n"));
  g_assert_nonnull (strstr (raw_script_request (&script, 1), "if-match: \"one\"\r\n"));
  g_assert_nonnull (strstr (raw_script_request (&script, 1), "range: bytes=4-7\r\n"));
  g_assert_false (reader_read_at (NULL, reader, 0, buffer, 4, &error));
  fixture_assert_error (&error, AM_ERROR_ABORTED, NULL);
}

/* Pages are put together, and what no key of the port can name is left out. */
static void
test_flat_listing (void)
{
  static const char *const answers[] = {
    LIST (KEY ("p/a-marker") KEY ("p/.probe/x") MORE ("t=1")),
    LIST (KEY ("p/a/b") KEY ("p/a//c") KEY ("p/a/d/") MORE ("t2")),
    LIST (KEY ("p/a/e") KEY ("p/b/f")),
    NULL,
  };
  static const S3Profile profile = { .byte_order = TRUE };
  g_auto (RawScript) script = { 0 };
  g_autoptr (ObjectStore) store = store_for (raw_script_start (&script, answers), &profile);
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) page = object_store_list (NULL, store, "", "a", 3, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (page->len, ==, 3);
  static const char *const wanted[] = { "a/b", "a/e", "b/f" };
  for (guint i = 0; i < 3; i++)
    g_assert_cmpstr (((ObjectInfo *) g_ptr_array_index (page, i))->key, ==, wanted[i]);
  g_assert_nonnull (strstr (raw_script_request (&script, 0), "start-after=p%2Fa "));
  g_assert_nonnull (strstr (raw_script_request (&script, 1), "continuation-token=t%3D1&"));
}

static void
test_foreign_listing (void)
{
  static const char *const answers[] = { LIST (KEY ("other/a/b")), NULL };
  static const S3Profile profiles[] = { { .byte_order = TRUE }, { .byte_order = FALSE } };
  for (gsize i = 0; i < G_N_ELEMENTS (profiles); i++)
    {
      g_auto (RawScript) script = { 0 };
      g_autoptr (ObjectStore) store = store_for (raw_script_start (&script, answers), &profiles[i]);
      g_autoptr (GError) error = NULL;
      g_assert_null (object_store_list (NULL, store, "", NULL, 10, &error));
      fixture_assert_error (&error, AM_ERROR_DATA_LOSS, NULL);
    }
}

/* A conditional write whose answer got lost and that finds an object of another: it is not ours. */
static void
test_lost_answer (void)
{
  static const char *const answers[] = {
    "",
    STATUS ("412 No"),
    "HTTP/1.1 200 OK\r\nx-amz-meta-writer: somebody\r\nContent-Length: 0\r\n" CLOSE "\r\n",
    NULL,
  };
  static const S3Profile profile = { .if_none_match = TRUE };
  g_auto (RawScript) script = { 0 };
  g_autoptr (ObjectStore) store = store_for (raw_script_start (&script, answers), &profile);
  g_autoptr (GError) error = NULL;
  g_assert_false (object_store_put (NULL, store, "t/x", "1", 1, OBJECT_COMMIT_IF_ABSENT, &error));
  fixture_assert_error (&error, AM_ERROR_ALREADY_EXISTS, NULL);
  g_assert_cmpuint (raw_server_n_connections (script.server), ==, 3);
  g_assert_nonnull (strstr (raw_script_request (&script, 0), "if-none-match: *\r\n"));
}

/* What a batch leaves is removed one by one. */
static void
test_removal (void)
{
  static const char *const answers[] = {
    WHOLE ("92", "<DeleteResult><Error><Key>p/t/x&amp;y</Key><Code>InternalError</Code></Error></DeleteResult>"),
    STATUS ("204 No Content"),
    NULL,
  };
  static const char *const listed[] = { WHOLE ("15", "<DeleteResult/>"), NULL };
  static const S3Profile profile = { .batch_delete = TRUE };
  const char *const keys[] = { "t/x&y" };
  for (gsize i = 0; i < 2; i++)
    {
      g_auto (RawScript) script = { 0 };
      g_autoptr (ObjectStore) store = store_for (raw_script_start (&script, i == 0 ? answers : listed), &profile);
      g_autoptr (GError) error = NULL;
      fixture_assert_ok (store->klass->remove_many (NULL, store, keys, 1, &error), error);
      g_assert_cmpuint (raw_server_n_connections (script.server), ==, i == 0 ? 2 : 1);
      g_assert_nonnull (strstr (raw_script_request (&script, 0), "POST /bucket?delete= HTTP/1.1"));
      if (i == 0)
        g_assert_nonnull (strstr (raw_script_request (&script, 1), "DELETE /bucket/p/t/x%26y HTTP/1.1"));
    }
}

static void
test_limits (void)
{
  static const char *const answers[] = { STATUS ("500 No"), NULL };
  static const S3Profile profile = { 0 };
  g_autofree guint8 *bytes = g_malloc0 (32u << 20);
  g_auto (RawScript) script = { 0 };
  g_autoptr (ObjectStore) store = store_for (raw_script_start (&script, answers), &profile);
  g_autoptr (GError) error = NULL;
  g_autoptr (ObjectWriter) writer = object_store_create (NULL, store, &error);
  for (guint i = 0; i < 2; i++)
    fixture_assert_ok (object_writer_append (NULL, writer, bytes, 32u << 20, &error), error);
  g_assert_false (object_writer_append (NULL, writer, bytes, 1, &error));
  fixture_assert_error (&error, AM_ERROR_RESOURCE_EXHAUSTED, NULL);
  g_assert_false (object_writer_patch (NULL, writer, (64u << 20) - 1, bytes, 2, &error));
  fixture_assert_error (&error, AM_ERROR_OUT_OF_RANGE, NULL);
  g_assert_null (object_store_lock (NULL, store, OBJECT_LOCK_ALONE, &error));
  fixture_assert_error (&error, AM_ERROR_UNIMPLEMENTED, "LocksUnsupported");
  g_assert_cmpuint (raw_server_n_connections (script.server), ==, 0);
}

/* Grows, within what stores take, to what every writer is promised to reach. */
static void
test_part_sizes (void)
{
  guint64 sum = 0;
  for (guint i = 0; i < S3_MAX_PARTS; i++)
    {
      g_assert_cmpuint (s3_part_bytes (i), >=, OBJECT_PART_MIN_BYTES);
      g_assert_cmpuint (s3_part_bytes (i), >=, i > 0 ? s3_part_bytes (i - 1) : 0);
      sum += s3_part_bytes (i);
    }
  g_assert_cmpuint (sum, ==, OBJECT_WRITER_MAX_BYTES);
}

#define LIST_PARTS(inner) "HTTP/1.1 200 OK\r\n" CLOSE "\r\n<ListPartsResult>" inner "</ListPartsResult>"
#define LISTED(number, etag, second)                                                \
  "<Part><PartNumber>" number "</PartNumber><LastModified>2026-11-30T09:30:" second \
  "Z</LastModified><ETag>&quot;" etag "&quot;</ETag><Size>5</Size></Part>"

/* What others send in parts: each request, and the link that lets them. */
static void
test_parts (void)
{
  static const char *const answers[] = {
    "HTTP/1.1 200 OK\r\n" CLOSE
    "\r\n<InitiateMultipartUploadResult><UploadId>a+b</UploadId></InitiateMultipartUploadResult>",
    LIST_PARTS (
      LISTED ("1", "x", "00") "<IsTruncated>true</IsTruncated><NextPartNumberMarker>1</NextPartNumberMarker>"),
    LIST_PARTS (LISTED ("3", "z", "00") LISTED ("2", "new", "02") LISTED ("2", "old", "01")),
    WHOLE ("32", "<CompleteMultipartUploadResult/>"),
    STATUS ("404 Gone"),
    NULL,
  };
  static const S3Profile profile = { .takes_checksum = TRUE };
  g_auto (RawScript) script = { 0 };
  g_autoptr (ObjectStore) store = store_for (raw_script_start (&script, answers), &profile);
  g_autoptr (GError) error = NULL;
  g_autofree char *id = object_parts_begin (NULL, store, "u/f", &error);
  g_assert_cmpstr (id, ==, "a+b");
  g_autofree char *link = object_parts_link (NULL, store, "u/f", id, 10000, 900, &error);
  g_assert_nonnull (strstr (link, "/bucket/p/u/f?X-Amz-Algorithm=AWS4-HMAC-SHA256&"));
  g_assert_nonnull (strstr (link, "&X-Amz-Expires=900&"));
  g_assert_nonnull (strstr (link, "&partNumber=10000&uploadId=a%2Bb&X-Amz-Signature="));
  g_assert_null (object_parts_link (NULL, store, "u/f", id, 10001, 900, &error));
  fixture_assert_error (&error, AM_ERROR_INVALID_ARGUMENT, NULL);
  g_autoptr (GPtrArray) parts = object_parts_list (NULL, store, "u/f", id, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (parts->len, ==, 4);
  g_assert_cmpstr (((ObjectPart *) g_ptr_array_index (parts, 1))->etag, ==, "old");
  g_assert_cmpstr (((ObjectPart *) g_ptr_array_index (parts, 2))->etag, ==, "new");
  fixture_assert_ok (object_parts_complete (NULL, store, "u/f", id, parts, &error), error);
  fixture_assert_ok (object_parts_abort (NULL, store, "u/f", id, &error), error);
  g_assert_nonnull (strstr (raw_script_request (&script, 0), "POST /bucket/p/u/f?uploads= "));
  g_assert_null (strstr (raw_script_request (&script, 0), "checksum-algorithm"));
  g_assert_nonnull (strstr (raw_script_request (&script, 2), "part-number-marker=1&"));
  g_assert_nonnull (strstr (raw_script_request (&script, 3), "POST /bucket/p/u/f?uploadId=a%2Bb "));
  g_assert_nonnull (strstr (raw_script_request (&script, 4), "DELETE /bucket/p/u/f?uploadId=a%2Bb "));
}

#define UPLOAD_OF(key, id) \
  "<Upload><Key>" key "</Key><UploadId>" id "</UploadId><Initiated>2026-11-30T09:30:00Z</Initiated></Upload>"

static void
test_abort_below (void)
{
  static const char *const answers[] = {
    "HTTP/1.1 200 OK\r\n" CLOSE "\r\n<ListMultipartUploadsResult>" UPLOAD_OF ("p/u/f", "1") UPLOAD_OF ("p/v/f", "2")
      UPLOAD_OF ("p/u/g", "3") "</ListMultipartUploadsResult>",
    STATUS ("204 No Content"),
    STATUS ("204 No Content"),
    NULL,
  };
  static const S3Profile profile = { 0 };
  g_auto (RawScript) script = { 0 };
  g_autoptr (ObjectStore) store = store_for (raw_script_start (&script, answers), &profile);
  g_autoptr (GError) error = NULL;
  fixture_assert_ok (object_parts_abort_below (NULL, store, "u/", &error), error);
  g_assert_cmpuint (raw_server_n_connections (script.server), ==, 3);
  g_assert_nonnull (strstr (raw_script_request (&script, 0), "GET /bucket?prefix=p%2Fu%2F&uploads= "));
  g_assert_nonnull (strstr (raw_script_request (&script, 1), "DELETE /bucket/p/u/f?uploadId=1 "));
  g_assert_nonnull (strstr (raw_script_request (&script, 2), "DELETE /bucket/p/u/g?uploadId=3 "));
}

/* A list whose pages lead back is none. */
static void
test_endless_parts (void)
{
  static const char *const answers[] = {
    LIST_PARTS ("<IsTruncated>true</IsTruncated><NextPartNumberMarker>2</NextPartNumberMarker>"),
    NULL,
  };
  static const S3Profile profile = { 0 };
  g_auto (RawScript) script = { 0 };
  g_autoptr (ObjectStore) store = store_for (raw_script_start (&script, answers), &profile);
  g_autoptr (GError) error = NULL;
  g_assert_null (object_parts_list (NULL, store, "u/f", "id", &error));
  fixture_assert_error (&error, AM_ERROR_DATA_LOSS, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/object-store-s3/reads", test_reads);
  g_test_add_func ("/object-store-s3/replaced", test_replaced);
  g_test_add_func ("/object-store-s3/flat-listing", test_flat_listing);
  g_test_add_func ("/object-store-s3/foreign-listing", test_foreign_listing);
  g_test_add_func ("/object-store-s3/lost-answer", test_lost_answer);
  g_test_add_func ("/object-store-s3/removal", test_removal);
  g_test_add_func ("/object-store-s3/limits", test_limits);
  g_test_add_func ("/object-store-s3/part-sizes", test_part_sizes);
  g_test_add_func ("/object-store-s3/parts", test_parts);
  g_test_add_func ("/object-store-s3/abort-below", test_abort_below);
  g_test_add_func ("/object-store-s3/endless-parts", test_endless_parts);
  return g_test_run ();
}
