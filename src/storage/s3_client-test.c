/* How requests fare with stores that answer as stores do when things are bad. */
#include "storage/s3_client.h"

#include <string.h>

#include "net/net_fixture.h"
#include "storage/s3_listing.h"
#include "storage/storage_fixture.h"

#define CLOSE "Connection: close\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" CLOSE "\r\n"
#define XML(status, headers, size, text) \
  "HTTP/1.1 " status "\r\n" headers "Content-Type: application/xml\r\nContent-Length: " size "\r\n" CLOSE "\r\n" text
#define SECRET "very-secret-key"

static S3Client *
client_for (RawServer *server)
{
  g_autofree char *endpoint = g_strdup_printf ("http://127.0.0.1:%u", raw_server_port (server));
  g_autoptr (GError) error = NULL;
  S3Config config = { .endpoint = endpoint,
                      .region = (char *) "here",
                      .bucket = (char *) "bucket",
                      .prefix = (char *) "p/",
                      .path_style = TRUE,
                      .access_key_id = (char *) "key",
                      .secret_access_key = (char *) SECRET };
  S3Client *client = s3_client_new (&config, &error);
  g_assert_no_error (error);
  return client;
}

typedef struct {
  const char *const answers[4];
  const char *root;
  int code; /* 0: succeeds */
  const char *reason, *part;
  guint n_requests;
} Row;

static const Row rows[] = {
  { { OK }, NULL, 0, NULL, NULL, 1 },
  { { XML ("503 Slow Down", "", "39", "<Error><Code>SlowDown</Code></Error>   "), OK }, NULL, 0, NULL, NULL, 2 },
  { { "HTTP/1.1 500 No\r\nContent-Length: 0\r\n" CLOSE "\r\n",
      "HTTP/1.1 502 No\r\nContent-Length: 0\r\n" CLOSE "\r\n", OK },
    NULL,
    0,
    NULL,
    NULL,
    3 },
  { { "", OK }, NULL, 0, NULL, NULL, 2 }, /* closed without a word */
  { { XML ("409 Conflict", "", "54", "<Error><Code>ConditionalRequestConflict</Code></Error>"), OK },
    NULL,
    0,
    NULL,
    NULL,
    2 },
  { { XML ("400 Bad Request", "", "42", "<Error><Code>RequestTimeout</Code></Error>"), OK }, NULL, 0, NULL, NULL, 2 },
  /* Success that is none. */
  { { XML ("200 OK", "", "41", "<Error><Code>InternalError</Code></Error>"),
      XML ("200 OK", "", "15", "<DeleteResult/>") },
    "DeleteResult",
    0,
    NULL,
    NULL,
    2 },
  { { XML ("200 OK", "", "14", "<DeleteResult>"), XML ("200 OK", "", "15", "<DeleteResult/>") },
    "DeleteResult",
    0,
    NULL,
    NULL,
    2 },
  { { XML ("200 OK", "", "100", "<DeleteResult>"), XML ("200 OK", "", "15", "<DeleteResult/>") },
    "DeleteResult",
    0,
    NULL,
    NULL,
    2 },
  { { XML ("200 OK", "", "40", "<Error><Code>AccessDenied</Code></Error>") },
    "DeleteResult",
    AM_ERROR_PERMISSION_DENIED,
    "StorageDenied",
    "policy",
    1 },
  /* What trying again does not mend. */
  { { XML ("404 Not Found", "", "37", "<Error><Code>NoSuchKey</Code></Error>") },
    NULL,
    AM_ERROR_NOT_FOUND,
    NULL,
    "object k",
    1 },
  { { XML ("404 Not Found", "", "40", "<Error><Code>NoSuchBucket</Code></Error>") },
    NULL,
    AM_ERROR_FAILED_PRECONDITION,
    "BucketMissing",
    "create the bucket",
    1 },
  { { XML ("403 Forbidden", "", "49", "<Error><Code>SignatureDoesNotMatch</Code></Error>") },
    NULL,
    AM_ERROR_PERMISSION_DENIED,
    "StorageDenied",
    "AWS_SECRET_ACCESS_KEY",
    1 },
  { { XML ("400 Bad Request", "", "42", "<Error><Code>IncompleteBody</Code></Error>"), OK }, NULL, 0, NULL, NULL, 2 },
  { { XML ("400 Bad Request", "", "37", "<Error><Code>BadDigest</Code></Error>"), OK }, NULL, 0, NULL, NULL, 2 },
  { { XML ("403 Forbidden", "", "40", "<Error><Code>ExpiredToken</Code></Error>") },
    NULL,
    AM_ERROR_PERMISSION_DENIED,
    "StorageDenied",
    "AWS_SESSION_TOKEN",
    1 },
  { { XML ("501 Not Implemented", "", "42", "<Error><Code>NotImplemented</Code></Error>") },
    NULL,
    AM_ERROR_UNIMPLEMENTED,
    NULL,
    NULL,
    1 },
  { { XML ("412 Precondition Failed", "", "46", "<Error><Code>PreconditionFailed</Code></Error>") },
    NULL,
    AM_ERROR_ALREADY_EXISTS,
    NULL,
    NULL,
    1 },
  { { "HTTP/1.1 304 Not Modified\r\n" CLOSE "\r\n" }, NULL, AM_ERROR_ALREADY_EXISTS, NULL, NULL, 1 },
  { { "HTTP/1.1 507 Full\r\nContent-Length: 0\r\n" CLOSE "\r\n" },
    NULL,
    AM_ERROR_RESOURCE_EXHAUSTED,
    "InsufficientStorage",
    NULL,
    1 },
  { { "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n" CLOSE "\r\n" },
    NULL,
    AM_ERROR_FAILED_PRECONDITION,
    "WrongRegion",
    "endpoint",
    1 },
};

static void
test_answers (gconstpointer data)
{
  const Row *row = data;
  g_auto (RawScript) script = { 0 };
  g_autoptr (S3Client) client = client_for (raw_script_start (&script, row->answers));
  g_autoptr (GError) error = NULL;
  S3Call call = { .method = "PUT", .key = "k", .body = "x", .body_size = 1, .answer_root = row->root };
  gboolean done = s3_client_call (NULL, client, &call, NULL, &error);
  g_assert_cmpint (done, ==, row->code == 0);
  g_assert_cmpuint (raw_server_n_connections (script.server), ==, row->n_requests);
  g_assert_nonnull (strstr (raw_script_request (&script, 0), "PUT /bucket/p/k HTTP/1.1"));
  g_assert_null (strstr (raw_script_request (&script, 0), SECRET));
  if (done)
    return;
  g_assert_null (strstr (error->message, "AWS4"));
  g_assert_null (strstr (error->message, SECRET));
  if (row->part != NULL)
    g_assert_nonnull (strstr (error->message, row->part));
  fixture_assert_error (&error, (AmErrorCode) row->code, row->reason);
}

/* It is 1994 there: the second attempt is signed for that, and so is every later request. */
static void
test_clock (void)
{
  static const char *const answers[] = {
    XML ("403 Forbidden", "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "48",
         "<Error><Code>RequestTimeTooSkewed</Code></Error>"),
    OK,
    NULL,
  };
  g_auto (RawScript) script = { 0 };
  g_autoptr (S3Client) client = client_for (raw_script_start (&script, answers));
  g_autoptr (GError) error = NULL;
  S3Call call = { .method = "DELETE", .key = "k" };
  for (guint i = 0; i < 2; i++)
    fixture_assert_ok (s3_client_call (NULL, client, &call, NULL, &error), error);
  g_assert_cmpuint (raw_server_n_connections (script.server), ==, 3);
  g_assert_null (strstr (raw_script_request (&script, 0), "x-amz-date: 19941106T"));
  for (guint i = 1; i < 3; i++)
    {
      g_assert_nonnull (strstr (raw_script_request (&script, i), "x-amz-date: 19941106T0849"));
      g_assert_nonnull (strstr (raw_script_request (&script, i), "Credential=key/19941106/here/s3/"));
    }
}

static void
test_region (void)
{
  static const char *const by_document[] = {
    XML ("400 Bad Request", "", "80",
         "<Error><Code>AuthorizationHeaderMalformed</Code><Region>there</Region></Error>  "),
    OK,
    NULL,
  };
  static const char *const by_header[] = {
    "HTTP/1.1 301 Moved\r\nx-amz-bucket-region: there\r\nContent-Length: 0\r\n" CLOSE "\r\n",
    OK,
    NULL,
  };
  static const char *const by_redirect[] = {
    XML ("307 Temporary Redirect", "x-amz-bucket-region: there\r\nLocation: http://127.0.0.1:1/\r\n", "45",
         "<Error><Code>TemporaryRedirect</Code></Error>"),
    OK,
    NULL,
  };
  static const char *const *const all[] = { by_document, by_header, by_redirect };
  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    {
      g_auto (RawScript) script = { 0 };
      g_autoptr (S3Client) client = client_for (raw_script_start (&script, all[i]));
      g_autoptr (GError) error = NULL;
      S3Call call = { .method = i == 0 ? "PUT" : "HEAD", .key = "k" };
      fixture_assert_ok (s3_client_call (NULL, client, &call, NULL, &error), error);
      g_assert_nonnull (strstr (raw_script_request (&script, 0), "/here/s3/"));
      g_assert_nonnull (strstr (raw_script_request (&script, 1), "/there/s3/"));
    }
}

static void
test_once_and_deadline (void)
{
  static const char *const busy[] = { "HTTP/1.1 503 No\r\nRetry-After: 20\r\nContent-Length: 0\r\n" CLOSE "\r\n",
                                      NULL };
  g_auto (RawScript) script = { 0 };
  g_autoptr (S3Client) client = client_for (raw_script_start (&script, busy));
  g_autoptr (GError) error = NULL;
  S3Call once = { .method = "PUT", .key = "k", .once = TRUE }, call = { .method = "PUT", .key = "k" };
  g_assert_false (s3_client_call (NULL, client, &once, NULL, &error));
  fixture_assert_error (&error, AM_ERROR_UNAVAILABLE, NULL);
  g_assert_cmpuint (raw_server_n_connections (script.server), ==, 1);
  g_autoptr (Ctx) hurried = ctx_new_child (NULL, 3000);
  g_assert_false (s3_client_call (hurried, client, &call, NULL, &error));
  fixture_assert_error (&error, AM_ERROR_UNAVAILABLE, NULL); /* the reason, not the deadline */
  g_assert_cmpuint (raw_server_n_connections (script.server), ==, 2);
}

static void
test_request (void)
{
  static const char *const answers[] = { XML ("200 OK", "", "19", "<ListBucketResult/>"), OK, NULL };
  static const S3Pair headers[] = { { "if-none-match", "*" } };
  g_auto (RawScript) script = { 0 };
  g_autoptr (S3Client) client = client_for (raw_script_start (&script, answers));
  g_auto (S3Listing) page = { 0 };
  g_autoptr (GError) error = NULL;
  S3ListCall list = { .prefix = "a b/", .after = "a b/\xd0\xba", .limit = 7 };
  S3Call put = { .method = "PUT",
                 .key = "a=b:c*d",
                 .headers = headers,
                 .n_headers = 1,
                 .body = "right",
                 .body_size = 5,
                 .sends_checksum = TRUE };
  fixture_assert_ok (s3_list_page (NULL, client, &list, &page, &error), error);
  fixture_assert_ok (s3_client_call (NULL, client, &put, NULL, &error), error);
  g_assert_nonnull (strstr (raw_script_request (&script, 0),
                            "GET /bucket?encoding-type=url&list-type=2&max-keys=7&prefix=p%2Fa%20b%2F&start-after="
                            "p%2Fa%20b%2F%D0%BA HTTP/1.1"));
  const char *head = raw_script_request (&script, 1);
  g_assert_nonnull (strstr (head, "PUT /bucket/p/a%3Db%3Ac%2Ad HTTP/1.1"));
  g_assert_nonnull (strstr (head, "x-amz-checksum-sha256: JwQvTm7KfQsqfuQCbfLs+lHTM55tEiqgmRGOzYVjutk="));
  g_assert_nonnull (strstr (head, "if-none-match: *"));
  g_assert_nonnull (
    strstr (head, "SignedHeaders=host;if-none-match;x-amz-checksum-sha256;x-amz-content-sha256;x-amz-date,"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *name = g_strdup_printf ("/s3-client/answers/%" G_GSIZE_FORMAT, i);
      g_test_add_data_func (name, &rows[i], test_answers);
    }
  g_test_add_func ("/s3-client/clock", test_clock);
  g_test_add_func ("/s3-client/region", test_region);
  g_test_add_func ("/s3-client/once-and-deadline", test_once_and_deadline);
  g_test_add_func ("/s3-client/request", test_request);
  return g_test_run ();
}
