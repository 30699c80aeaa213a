#include "domain/publication_failure.h"

#define AGAIN PUBLICATION_TRY_AGAIN
#define SOME PUBLICATION_TRY_SOME_MORE
#define STOP PUBLICATION_GIVE_UP

static const struct {
  AmErrorCode code;
  const char *reason;
  PublicationAction source, module;
  const char *told;
} rows[] = {
  { AM_ERROR_CANCELLED, NULL, PUBLICATION_END_FOR_NOW, PUBLICATION_END_FOR_NOW, "PublicationFailed" },
  { AM_ERROR_UNAVAILABLE, NULL, AGAIN, AGAIN, "PublicationFailed" },
  { AM_ERROR_UNAVAILABLE, "HostUnreachable", AGAIN, AGAIN, "PublicationFailed" },
  { AM_ERROR_UNAVAILABLE, "HubTrouble", AGAIN, AGAIN, "PublicationFailed" },
  { AM_ERROR_UNAVAILABLE, "HubRateLimited", SOME, SOME, "PublicationFailed" },
  { AM_ERROR_UNAVAILABLE, "StorageUsageUnknown", AGAIN, AGAIN, "PublicationFailed" },
  { AM_ERROR_DEADLINE_EXCEEDED, NULL, AGAIN, AGAIN, "PublicationFailed" },
  { AM_ERROR_ABORTED, "Conflict", AGAIN, AGAIN, "PublicationFailed" },
  { AM_ERROR_INVALID_ARGUMENT, "HubAnswer", SOME, SOME, "PublicationFailed" },
  { AM_ERROR_UNAUTHENTICATED, "HubGated", STOP, STOP, "PublicationFailed" },
  { AM_ERROR_UNAUTHENTICATED, "HubUnauthorized", STOP, STOP, "PublicationFailed" },
  { AM_ERROR_PERMISSION_DENIED, "HubForbidden", STOP, STOP, "PublicationFailed" },
  { AM_ERROR_NOT_FOUND, "HubNotFound", STOP, STOP, "PublicationFailed" },
  { AM_ERROR_FAILED_PRECONDITION, "SourceChanged", STOP, STOP, "PublicationFailed" },
  { AM_ERROR_DATA_LOSS, "SourceCorrupt", STOP, STOP, "PublicationFailed" },
  { AM_ERROR_FAILED_PRECONDITION, "CertificateNotTrusted", STOP, AGAIN, "PublicationFailed" },
  { AM_ERROR_UNAUTHENTICATED, "UNAUTHORIZED", STOP, AGAIN, "PublicationFailed" },
  { AM_ERROR_PERMISSION_DENIED, "DENIED", STOP, AGAIN, "PublicationFailed" },
  { AM_ERROR_INTERNAL, NULL, STOP, AGAIN, "PublicationFailed" },
  { AM_ERROR_NOT_FOUND, NULL, STOP, SOME, "PublicationFailed" },
  { AM_ERROR_DATA_LOSS, NULL, STOP, SOME, "PublicationFailed" },
  { AM_ERROR_INVALID_ARGUMENT, "MANIFEST_BLOB_UNKNOWN", SOME, SOME, "PublicationFailed" },
  { AM_ERROR_INVALID_ARGUMENT, "AmbiguousFormat", STOP, STOP, "PublicationFailed" },
  { AM_ERROR_INVALID_ARGUMENT, "FormatInvalid", STOP, STOP, "PublicationFailed" },
  { AM_ERROR_INVALID_ARGUMENT, "UnsupportedSource", STOP, STOP, "UnsupportedSource" },
  { AM_ERROR_INVALID_ARGUMENT, "InvalidUrl", STOP, STOP, "UnsupportedSource" },
  { AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage", STOP, STOP, "InsufficientStorage" },
  { AM_ERROR_RESOURCE_EXHAUSTED, "FormatLimitExceeded", STOP, STOP, "PublicationFailed" },
};

static void
test_judge (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      am_fail (&error, rows[i].code, rows[i].reason, "x");
      g_test_message ("%s %s", am_error_info_of (error)->name, rows[i].reason);
      g_assert_cmpint (publication_judge (error, PUBLICATION_SOURCE).action, ==, rows[i].source);
      g_assert_cmpint (publication_judge (error, PUBLICATION_MODULE).action, ==, rows[i].module);
      g_assert_cmpstr (publication_judge (error, PUBLICATION_SOURCE).reason, ==, rows[i].told);
    }
}

/* A server that says when to come back is believed, whatever it answers. */
static void
test_rationed (void)
{
  g_autoptr (GError) error = NULL;
  am_fail (&error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "x");
  g_assert_cmpint (publication_judge (error, PUBLICATION_SOURCE).action, ==, STOP);
  am_error_set_retry_after_ms (error, 5);
  g_assert_cmpint (publication_judge (error, PUBLICATION_SOURCE).action, ==, AGAIN);
}

static void
test_pause (void)
{
  static const struct {
    guint n_failures;
    gint64 asked_ms, pause_ms;
  } pauses[] = {
    { 0, 0, 1000 },    { 1, 0, 1000 },           { 2, 0, 2000 },      { 5, 0, 16000 },     { 9, 0, 256000 },
    { 10, 0, 300000 }, { G_MAXUINT, 0, 300000 }, { 1, 40000, 40000 }, { 7, 40000, 64000 }, { 1, G_MAXINT64, 300000 },
    { 1, -1, 1000 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (pauses); i++)
    {
      gint64 ours_ms = MIN (pauses[i].pause_ms, MAX (30000, MIN (pauses[i].asked_ms, 300000)));
      g_assert_cmpint (publication_pause_ms (PUBLICATION_SOURCE, pauses[i].n_failures, pauses[i].asked_ms), ==,
                       pauses[i].pause_ms);
      g_assert_cmpint (publication_pause_ms (PUBLICATION_MODULE, pauses[i].n_failures, pauses[i].asked_ms), ==,
                       ours_ms);
    }
}

static void
test_words (void)
{
  static const PublicationVeil veils[] = {
    { "dmcr.d8-ai-models.svc", "the module's registry" },
    { "ai-models/catalog/", "the model's repository" },
    { NULL, "nothing" },
    { "", "nothing" },
  };
  static const struct {
    const char *said, *heard;
  } texts[] = {
    { "", "" },
    { "a  b", "a  b" },
    { "PUT https://dmcr.d8-ai-models.svc:443/v2/ai-models/catalog/cluster/a/b/blobs/uploads/1?x: refused",
      "PUT the module's registry: refused" },
    { "dmcr.d8-ai-models.svc/x: (\"ai-models/catalog/cluster/a\").",
      "the module's registry: the model's repository\")." },
    { "https://h/a/b is gated: accept its terms on its page, then give a token of that account with --token-file or "
      "HF_TOKEN (status 401)",
      "https://h/a/b is gated: accept its terms on its page, then name a Secret with a token of that account in "
      "spec.source.authSecretRef (status 401)" },
    { "status 403; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
      "status 403; the module's bucket does not accept the module's keys" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autofree char *words = publication_words (texts[i].said, veils, G_N_ELEMENTS (veils));
      g_assert_cmpstr (words, ==, texts[i].heard);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/publication-failure/judge", test_judge);
  g_test_add_func ("/publication-failure/rationed", test_rationed);
  g_test_add_func ("/publication-failure/pause", test_pause);
  g_test_add_func ("/publication-failure/words", test_words);
  return g_test_run ();
}
