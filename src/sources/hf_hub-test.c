#include "sources/hf_hub.h"

#include <string.h>

#include "net/net_fixture.h"

#define HEX40 "0123456789abcdef0123456789abcdef01234567"
#define OTHER40 "1123456789abcdef0123456789abcdef01234567"
#define HEX64 "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
#define INFO \
  "{\"id\":\"owner/name\",\"sha\":\"" HEX40 "\",\"siblings\":[{\"rfilename\":\"a\"},{\"rfilename\":\"b\"}]}"
#define ENTRY(path) "{\"type\":\"file\",\"path\":\"" path "\",\"size\":7,\"oid\":\"" HEX40 "\"}"

static HfHub *
hub_at (RawServer *server, const char *token)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *endpoint = fixture_url (server, "/hf/");
  HfHubConfig config = { .endpoint = endpoint, .token = token, .retry_base_ms = 1, .no_progress_timeout_ms = 2000 };
  HfHub *hub = hf_hub_new (&config, &error);
  g_assert_no_error (error);
  return hub;
}

/* Plays `answers` and asks for `path` of the hub. */
static HfInfo *
find (RawScript *script, const char *const *answers, const char *token, const char *path, GError **error)
{
  RawServer *server = raw_script_start (script, answers);
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (HfHub) hub = hub_at (server, token);
  g_autofree char *endpoint = fixture_url (server, "/hf"), *text = g_strconcat (endpoint, path, NULL);
  g_auto (HfUrl) url = { 0 };
  g_assert_true (hf_url_parse (text, endpoint, &url, NULL));
  return hf_hub_find (ctx, hub, &url, error);
}

static gboolean
asked (RawScript *script, guint n, const char *text)
{
  return strstr (raw_script_request (script, n), text) != NULL;
}

/* Pitfalls A1 A2: every page is asked for. */
static void
test_pages (void)
{
  const char *const answers[] = {
    raw_answer ("200 OK", "", INFO),
    raw_answer ("200 OK", "Link: </hf/api/next?cursor=x>; rel=\"next\"\r\n", "[" ENTRY ("a") "]"),
    raw_answer ("200 OK", "Link: <" HF_ENDPOINT "/api/third>; rel=\"next\"\r\n", "[" ENTRY ("b") "]"),
    raw_answer ("200 OK", "", "[" ENTRY ("c") "]"),
    NULL,
  };
  g_auto (RawScript) script = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (HfInfo) info = find (&script, answers, "hf_token", "/owner/name?revision=a%2Fb", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (info->files->len, ==, 3);
  g_assert_cmpuint (g_array_index (info->files, HfFile, 2).size_bytes, ==, 7);
  g_assert_true (asked (&script, 0, "GET /hf/api/models/owner/name/revision/a%2Fb HTTP"));
  g_assert_true (asked (&script, 0, "Authorization: Bearer hf_token\r\n"));
  g_assert_true (asked (&script, 1, "GET /hf/api/models/owner/name/tree/" HEX40 "?recursive=true HTTP"));
  g_assert_true (asked (&script, 2, "GET /hf/api/next?cursor=x HTTP"));
  g_assert_true (asked (&script, 3, "GET /hf/api/third HTTP"));
}

/* Pitfalls A4. */
static void
test_branch_with_a_slash (void)
{
  const char *const answers[] = {
    raw_answer ("404 x", "X-Error-Code: RevisionNotFound\r\n", "{\"error\":\"Invalid rev id: a\"}"),
    raw_answer ("200 OK", "", "{\"id\":\"owner/name\",\"sha\":\"" HEX40 "\"}"),
    raw_answer ("200 OK", "", "[" ENTRY ("c/d") "]"),
    NULL,
  };
  g_auto (RawScript) script = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (HfInfo) info = find (&script, answers, NULL, "/owner/name/tree/a/b/c", &error);
  g_assert_no_error (error);
  g_assert_true (asked (&script, 0, "/revision/a HTTP"));
  g_assert_true (asked (&script, 1, "/revision/a%2Fb HTTP"));
}

/* Pitfalls A28. */
static void
test_mirror_without_tree (void)
{
  const char *const answers[] = {
    raw_answer ("200 OK", "", INFO),
    raw_answer ("404 x", "", "not here"),
    raw_answer ("200 OK", "",
                "{\"id\":\"owner/name\",\"sha\":\"" HEX40 "\",\"siblings\":[{\"rfilename\":\"a\",\"size\":7},"
                "{\"rfilename\":\"b\",\"size\":9}]}"),
    NULL,
  };
  g_auto (RawScript) script = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (HfInfo) info = find (&script, answers, NULL, "/owner/name", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_array_index (info->files, HfFile, 1).size_bytes, ==, 9);
  g_assert_true (asked (&script, 2, "/revision/" HEX40 "?blobs=true HTTP"));
}

/* Pitfalls A1: a list that lacks what the card names is not taken. */
static const struct {
  const char *link, *body, *reason;
} bad_trees[] = {
  { "", "[" ENTRY ("a") "]", "HubIncomplete" },
  { "Link: <https://elsewhere.example/x>; rel=\"next\"\r\n", "[" ENTRY ("a") "]", "HubAnswer" },
  { "Link: </same>; rel=\"next\"\r\n", "[]", "HubAnswer" },
  { "", "[{\"type\":\"file\",\"path\":\"a\"},{\"type\":\"file\",\"path\":\"b\",\"size\":1}]", "HubIncomplete" },
  { "", "{}", "HubAnswer" },
};

static void
test_bad_trees (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (bad_trees); i++)
    {
      const char *const answers[] = { raw_answer ("200 OK", "", INFO),
                                      raw_answer ("200 OK", bad_trees[i].link, bad_trees[i].body), NULL };
      g_auto (RawScript) script = { 0 };
      g_autoptr (GError) error = NULL;
      g_autoptr (HfInfo) info = find (&script, answers, NULL, "/owner/name", &error);
      g_assert_null (info);
      g_assert_cmpstr (am_error_reason (error), ==, bad_trees[i].reason);
    }
}

/* Pitfalls A30 among them. */
static const struct {
  const char *status, *headers, *body, *token;
  AmErrorCode code;
  const char *reason, *says;
} refusals[] = {
  { "401 x", "X-Error-Code: GatedRepo\r\n", "", NULL, AM_ERROR_UNAUTHENTICATED, "HubGated", "accept its terms" },
  { "403 x", "X-Error-Code: GatedRepo\r\n", "", "t", AM_ERROR_PERMISSION_DENIED, "HubGated", "no access yet" },
  { "403 x", "X-Error-Code: GatedRepo\r\n", "", NULL, AM_ERROR_PERMISSION_DENIED, "HubGated", "HF_TOKEN" },
  { "401 x", "X-Error-Code: RepoNotFound\r\n", "", NULL, AM_ERROR_UNAUTHENTICATED, "HubUnauthorized", "HF_TOKEN" },
  { "401 x", "", "", "t", AM_ERROR_UNAUTHENTICATED, "HubUnauthorized", "rights of the token" },
  { "401 x", "", "{\"error\":\"Invalid credentials in Authorization header\"}", "t", AM_ERROR_UNAUTHENTICATED,
    "HubUnauthorized", "does not accept the token" },
  { "403 x", "X-Error-Message: Access to this resource is disabled.\r\n", "", NULL, AM_ERROR_PERMISSION_DENIED,
    "HubForbidden", "disabled by the hub" },
  { "403 x", "", "{\"errors\":[{\"message\":\"no way to /x?token=SECRET\"}]}", "t", AM_ERROR_PERMISSION_DENIED,
    "HubForbidden", "no way to /x?" },
  { "404 x", "X-Error-Code: RevisionNotFound\r\n", "", NULL, AM_ERROR_NOT_FOUND, "HubRevisionNotFound",
    "no such branch" },
  { "404 x", "X-Error-Code: RepoNotFound\r\n", "", "t", AM_ERROR_NOT_FOUND, "HubNotFound", "check the name" },
  { "429 x", "", "", NULL, AM_ERROR_UNAVAILABLE, "HubRateLimited", "give a token" },
  { "429 x", "", "", "t", AM_ERROR_UNAVAILABLE, "HubRateLimited", "wait" },
  { "500 x", "", "", NULL, AM_ERROR_UNAVAILABLE, "HubTrouble", "trouble" },
  { "503 x", "", "<html>", NULL, AM_ERROR_UNAVAILABLE, "HubTrouble", "trouble" },
  { "200 OK", "", "<html>", NULL, AM_ERROR_INVALID_ARGUMENT, "HubAnswer", "web page" },
  { "200 OK", "", "{\"id\":", NULL, AM_ERROR_INVALID_ARGUMENT, "HubAnswer", "not understood" },
  { "302 x", "Location: http://127.0.0.1:1/\r\n", "", NULL, AM_ERROR_UNAVAILABLE, "HostUnreachable", "HF_ENDPOINT" },
};

static void
test_refusals (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      const char *const answers[] = { raw_answer (refusals[i].status, refusals[i].headers, refusals[i].body), NULL };
      g_auto (RawScript) script = { 0 };
      g_autoptr (GError) error = NULL;
      g_autoptr (HfInfo) info = find (&script, answers, refusals[i].token, "/owner/name", &error);
      g_test_message ("%s", error->message);
      g_assert_null (info);
      g_assert_error (error, AM_ERROR, (int) refusals[i].code);
      g_assert_cmpstr (am_error_reason (error), ==, refusals[i].reason);
      g_assert_nonnull (strstr (error->message, refusals[i].says));
      g_assert_nonnull (strstr (error->message, "owner/name"));
      g_assert_null (strstr (error->message, "SECRET"));
    }
}

static void
test_bad_config (void)
{
  static const HfHubConfig configs[] = {
    { .endpoint = "ftp://mirror" },
    { .endpoint = "https://user:secret@mirror" },
    { .endpoint = "mirror" },
    { .endpoint = "https://mirror/?a" },
    { .token = "" },
    { .token = "a b" },
    { .token = "a\r\nX: y" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (configs); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (HfHub) hub = hf_hub_new (&configs[i], &error);
      g_assert_null (hub);
      g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
      g_assert_null (strstr (error->message, "secret"));
    }
}

/* A file of the hub whose bytes are "0123456789...", read through `hub` and `cdn` as they are scripted. */
typedef struct {
  RawScript hub_script, cdn_script;
  RawServer *hub_server, *cdn_server;
} Pair;

static void
pair_clear (Pair *self)
{
  raw_script_clear (&self->hub_script);
  if (self->cdn_server != NULL)
    raw_script_clear (&self->cdn_script);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Pair, pair_clear)

#define CONTENT "0123456789"
#define CONTENT_BLOB_ID "ad471007bd7f5983d273b9584e5629230150fd54"

static char *
moved (Pair *pair, const char *headers)
{
  g_autofree char *url = fixture_url (pair->cdn_server, "/file?signature=secret");
  g_autofree char *all = g_strdup_printf ("Location: %s\r\n%s", url, headers);
  return raw_answer ("302 Found", all, "Found. Redirecting to a place whose address is this text's length");
}

static gboolean
read_file (Pair *pair, const char *const *hub_answers, const HfFile *file, guint64 offset, gsize size, char *buffer,
           GError **error)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  pair->hub_server = raw_script_start (&pair->hub_script, hub_answers);
  g_autoptr (HfHub) hub = hub_at (pair->hub_server, "hf_token");
  HfInfo info = { .id = (char *) "owner/name", .commit = (char *) HEX40 };
  g_autoptr (Reader) reader = hf_hub_open (hub, &info, file, NULL);
  return reader_read_at (ctx, reader, offset, buffer, size, error);
}

static const HfFile large = { (char *) "d/a b.gguf", 10, (char *) HEX64, NULL };
static const HfFile small = { (char *) "config.json", 10, NULL, (char *) CONTENT_BLOB_ID };

#define PART(range, body) raw_answer ("206 Partial Content", "Content-Range: bytes " range "\r\n", body)
#define CUT "HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\nContent-Range: bytes 0-9/10\r\n\r\n0123"
#define LINKED "X-Linked-Size: 10\r\nX-Linked-ETag: \"" HEX64 "\"\r\nX-Repo-Commit: " HEX40 "\r\n"

/* Pitfalls A6 A7 A8 A9 A12 A14 A17 A19 A20: what the hub says counts, a redirect's body and the second host's headers do
 * not; parts must be those that were asked for; an address that is refused is asked for once more. */
static void
test_large_file (void)
{
  struct {
    const char *hub_headers;
    const char *cdn_answers[4];
    guint n_hub, n_cdn; /* requests */
    const char *reason; /* of the error; NULL: none */
  } rows[] = {
    { LINKED, { PART ("0-9/10", CONTENT) }, 1, 1, NULL },
    { LINKED, { raw_answer ("200 OK", "", CONTENT) }, 1, 1, NULL },
    { LINKED, { "HTTP/1.1 200 OK\r\n\r\n" CONTENT }, 1, 1, NULL },
    { "", { PART ("0-9/10", CONTENT) }, 1, 1, NULL },
    { LINKED, { CUT, PART ("4-9/10", "456789") }, 1, 2, NULL },
    { LINKED, { CUT, raw_answer ("200 OK", "", CONTENT) }, 1, 2, NULL },
    { LINKED, { CUT, PART ("0-9/10", CONTENT), PART ("4-9/10", "456789") }, 1, 3, NULL },
    { LINKED, { raw_answer ("503 x", "", ""), PART ("0-9/10", CONTENT) }, 1, 2, NULL },
    { LINKED, { raw_answer ("429 x", "", ""), PART ("0-9/10", CONTENT) }, 1, 2, NULL },
    { LINKED, { raw_answer ("403 x", "", "expired"), PART ("0-9/10", CONTENT) }, 2, 2, NULL },
    { LINKED, { raw_answer ("403 x", "Content-Type: text/plain\r\n", "no entry") }, 2, 2, "HubForbidden" },
    { LINKED, { PART ("0-9/11", CONTENT) }, 1, 1, "SourceCorrupt" },
    { LINKED, { raw_answer ("200 OK", "", "version https://git-lfs") }, 1, 1, "SourceCorrupt" },
    { LINKED, { raw_answer ("200 OK", "Content-Encoding: gzip\r\n", CONTENT) }, 1, 1, "HubAnswer" },
    { LINKED,
      { raw_answer ("206 x", "Content-Range: bytes 0-9/10\r\nContent-Encoding: gzip\r\n", CONTENT) },
      1,
      1,
      "HubAnswer" },
    { LINKED, { raw_answer ("416 x", "", "") }, 1, 1, "SourceChanged" },
    { LINKED, { PART ("1-9/10", "123456789") }, 1, 6, "WrongRange" },
    { "X-Linked-Size: 11\r\n", { "" }, 1, 0, "SourceChanged" },
    { "X-Repo-Commit: " OTHER40 "\r\n", { "" }, 1, 0, "SourceChanged" },
    { "X-Linked-ETag: W/\"" HEX40 "aaaaaaaaaaaaaaaaaaaaaaaa\"\r\n", { "" }, 1, 0, "SourceChanged" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (Pair) pair = { 0 };
      g_autoptr (GError) error = NULL;
      char buffer[11] = "";
      pair.cdn_server = raw_script_start (&pair.cdn_script, rows[i].cdn_answers);
      const char *const hub_answers[] = { moved (&pair, rows[i].hub_headers), NULL };
      gboolean done = read_file (&pair, hub_answers, &large, 0, 10, buffer, &error);
      g_test_message ("row %u: %s", i, done ? "done" : error->message);
      g_assert_cmpint (done, ==, rows[i].reason == NULL);
      g_assert_cmpuint (raw_server_n_connections (pair.hub_server), ==, rows[i].n_hub);
      g_assert_cmpuint (raw_server_n_connections (pair.cdn_server), ==, rows[i].n_cdn);
      g_assert_nonnull (
        strstr (raw_script_request (&pair.hub_script, 0), "HEAD /hf/owner/name/resolve/" HEX40 "/d/a%20b.gguf HTTP"));
      for (guint n = 0; n < rows[i].n_cdn; n++)
        g_assert_null (strstr (raw_script_request (&pair.cdn_script, n), "hf_token"));
      if (done)
        g_assert_cmpstr (buffer, ==, CONTENT);
      else
        {
          g_assert_cmpstr (am_error_reason (error), ==, rows[i].reason);
          g_assert_null (strstr (error->message, "secret"));
        }
    }
}

/* Pitfalls A14: what has arrived is kept, and patience is for failures without a byte between them. */
static void
test_many_cuts (void)
{
  static const char *const cdn_answers[] = {
#define ONE(n) "HTTP/1.1 206 x\r\nContent-Length: 10\r\nContent-Range: bytes " n "-9/10\r\n\r\n" n
    ONE ("0"), ONE ("1"), ONE ("2"), ONE ("3"), ONE ("4"), ONE ("5"),
    ONE ("6"), ONE ("7"), ONE ("8"), ONE ("9"), NULL,
  };
  g_auto (Pair) pair = { 0 };
  g_autoptr (GError) error = NULL;
  char buffer[11] = "";
  pair.cdn_server = raw_script_start (&pair.cdn_script, cdn_answers);
  const char *const hub_answers[] = { moved (&pair, LINKED), NULL };
  read_file (&pair, hub_answers, &large, 0, 10, buffer, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (buffer, ==, CONTENT);
  g_assert_cmpuint (raw_server_n_connections (pair.cdn_server), ==, 10);
  g_assert_nonnull (strstr (raw_script_request (&pair.cdn_script, 9), "Range: bytes=9-9\r\n"));
}

/* A hub that rests while a file is read is waited for. */
static void
test_hub_rests (void)
{
  g_auto (Pair) pair = { 0 };
  g_autoptr (GError) error = NULL;
  char buffer[11] = "";
  const char *const cdn_answers[] = { PART ("0-9/10", CONTENT), NULL };
  char *busy = raw_answer ("503 x", "", "");
  pair.cdn_server = raw_script_start (&pair.cdn_script, cdn_answers);
  const char *const hub_answers[] = { busy, busy, busy, busy, busy, busy, moved (&pair, LINKED), NULL };
  g_assert_true (read_file (&pair, hub_answers, &large, 0, 10, buffer, &error));
  g_assert_cmpstr (buffer, ==, CONTENT);
}

/* Pitfalls A8: the hub's own redirects are relative, and followed. */
static void
test_small_file (void)
{
  static const char *const good[] = {
    "HTTP/1.1 307 x\r\nLocation: /cache/config.json?etag=x\r\nX-Repo-Commit: " HEX40 "\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nETag: \"" CONTENT_BLOB_ID "\"\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" CONTENT,
    NULL,
  };
  static const char *const damaged[] = { "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
                                         "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n9123456789", NULL };
  static const char *const no_head[] = { "HTTP/1.1 405 x\r\nContent-Length: 0\r\n\r\n",
                                         "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" CONTENT,
                                         "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" CONTENT, NULL };
  char buffer[4] = "";
  g_autoptr (GError) error = NULL;
  {
    g_auto (Pair) pair = { 0 };
    g_assert_true (read_file (&pair, good, &small, 3, 3, buffer, &error));
    g_assert_cmpstr (buffer, ==, "345");
    g_assert_nonnull (strstr (raw_script_request (&pair.hub_script, 1), "HEAD /cache/config.json?etag=x HTTP"));
    g_assert_nonnull (strstr (raw_script_request (&pair.hub_script, 2), "hf_token"));
  }
  {
    g_auto (Pair) pair = { 0 };
    g_assert_true (read_file (&pair, no_head, &small, 3, 3, buffer, &error));
    g_assert_cmpstr (buffer, ==, "345");
  }
  g_auto (Pair) pair = { 0 };
  g_assert_false (read_file (&pair, damaged, &small, 3, 3, buffer, &error));
  g_assert_cmpstr (am_error_reason (error), ==, "SourceCorrupt");
}

/* Pitfalls A28. */
static void
test_no_hash (void)
{
  static const HfFile file = { (char *) "config.json", 10, NULL, NULL };
  static const char *const answers[] = { "", NULL };
  g_auto (Pair) pair = { 0 };
  g_autoptr (GError) error = NULL;
  char byte;
  g_assert_false (read_file (&pair, answers, &file, 0, 1, &byte, &error));
  g_assert_cmpstr (am_error_reason (error), ==, "HubIncomplete");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hf_hub/pages", test_pages);
  g_test_add_func ("/hf_hub/branch-with-a-slash", test_branch_with_a_slash);
  g_test_add_func ("/hf_hub/mirror-without-tree", test_mirror_without_tree);
  g_test_add_func ("/hf_hub/bad-trees", test_bad_trees);
  g_test_add_func ("/hf_hub/refusals", test_refusals);
  g_test_add_func ("/hf_hub/bad-config", test_bad_config);
  g_test_add_func ("/hf_hub/large-file", test_large_file);
  g_test_add_func ("/hf_hub/many-cuts", test_many_cuts);
  g_test_add_func ("/hf_hub/hub-rests", test_hub_rests);
  g_test_add_func ("/hf_hub/small-file", test_small_file);
  g_test_add_func ("/hf_hub/no-hash", test_no_hash);
  return g_test_run ();
}
