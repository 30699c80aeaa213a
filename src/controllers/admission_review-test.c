#include "controllers/admission_review.h"

#include <string.h>

#define HEAD "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":"
#define KIND "\"kind\":{\"group\":\"apps\",\"version\":\"v1\",\"kind\":\"Deployment\"}"
#define REQUEST \
  "\"uid\":\"u-1\"," KIND ",\"namespace\":\"team\",\"name\":\"web\",\"userInfo\":{\"username\":\"system:admin\"}"
#define CREATE REQUEST ",\"operation\":\"CREATE\",\"object\":{\"metadata\":{}}"

static gboolean
parse (const char *text, AdmissionRequest *out, GError **error)
{
  return admission_request_parse (text, strlen (text), out, error);
}

static void
test_create (void)
{
  g_auto (AdmissionRequest) request = { 0 };
  g_assert_true (parse (HEAD "{" CREATE ",\"oldObject\":null,\"dryRun\":true}}", &request, NULL));
  g_assert_cmpstr (request.uid, ==, "u-1");
  g_assert_cmpstr (request.group, ==, "apps");
  g_assert_cmpstr (request.version, ==, "v1");
  g_assert_cmpstr (request.kind, ==, "Deployment");
  g_assert_cmpstr (request.namespace, ==, "team");
  g_assert_cmpstr (request.name, ==, "web");
  g_assert_cmpstr (request.subresource, ==, "");
  g_assert_cmpstr (request.user, ==, "system:admin");
  g_assert_cmpint (request.operation, ==, ADMISSION_CREATE);
  g_assert_true (request.is_dry_run);
  g_assert_nonnull (request.object);
  g_assert_null (request.old_object);
}

static void
test_others (void)
{
  static const struct {
    const char *text;
    AdmissionOperation operation;
    gboolean has_object, has_old_object;
  } rows[] = {
    { HEAD "{" REQUEST ",\"operation\":\"UPDATE\",\"subResource\":\"scale\",\"object\":{},\"oldObject\":{}}}",
      ADMISSION_UPDATE, TRUE, TRUE },
    { HEAD "{" REQUEST ",\"operation\":\"DELETE\",\"object\":null,\"oldObject\":{}}}", ADMISSION_DELETE, FALSE,
      TRUE },
    { HEAD "{" REQUEST ",\"operation\":\"CONNECT\",\"dryRun\":false}}", ADMISSION_CONNECT, FALSE, FALSE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (AdmissionRequest) request = { 0 };
      g_assert_true (parse (rows[i].text, &request, NULL));
      g_assert_cmpint (request.operation, ==, rows[i].operation);
      g_assert_cmpint (request.object != NULL, ==, rows[i].has_object);
      g_assert_cmpint (request.old_object != NULL, ==, rows[i].has_old_object);
      g_assert_false (request.is_dry_run);
    }
}

static void
test_bad_reviews (void)
{
  static const struct {
    const char *text, *what;
  } rows[] = {
    { "", "empty" },
    { "[]", "apiVersion" },
    { "{\"apiVersion\":\"admission.k8s.io/v1beta1\",\"kind\":\"AdmissionReview\",\"request\":{" CREATE "}}",
      "apiVersion" },
    { "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"Review\",\"request\":{" CREATE "}}", "kind" },
    { "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}", "request" },
    { HEAD "{" KIND ",\"operation\":\"CREATE\",\"object\":{}}}", "uid" },
    { HEAD "{\"uid\":7," KIND ",\"operation\":\"CREATE\",\"object\":{}}}", "uid" },
    { HEAD "{\"uid\":\"u\\u0000\"," KIND ",\"operation\":\"CREATE\",\"object\":{}}}", "uid" },
    { HEAD "{\"uid\":\"u\",\"operation\":\"CREATE\",\"object\":{}}}", "version" },
    { HEAD "{" REQUEST ",\"object\":{}}}", "operation" },
    { HEAD "{" REQUEST ",\"operation\":\"PATCH\",\"object\":{}}}", "operation" },
    { HEAD "{" REQUEST ",\"operation\":\"CREATE\"}}", "object" },
    { HEAD "{" REQUEST ",\"operation\":\"CREATE\",\"object\":[]}}", "object" },
    { HEAD "{" REQUEST ",\"operation\":\"UPDATE\",\"object\":{}}}", "oldObject" },
    { HEAD "{" REQUEST ",\"operation\":\"DELETE\",\"oldObject\":\"x\"}}", "oldObject" },
    { HEAD "{" CREATE ",\"dryRun\":\"yes\"}}", "dryRun" },
    { HEAD "{" CREATE ",\"namespace\":{}}}", NULL }, /* the first of two counts */
    { HEAD "{" CREATE ",\"subResource\":1}}", "subResource" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (AdmissionRequest) request = { 0 };
      g_autoptr (GError) error = NULL;
      g_assert_cmpint (parse (rows[i].text, &request, &error), ==, rows[i].what == NULL);
      if (rows[i].what == NULL)
        continue;
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
      g_assert_nonnull (strstr (error->message, rows[i].what));
    }
}

static void
test_limits (void)
{
  g_autofree char *long_uid = g_strnfill (200, 'u');
  g_autofree char *text = g_strdup_printf (HEAD "{\"uid\":\"%s\"," KIND ",\"operation\":\"CONNECT\"}}", long_uid);
  g_autofree char *much = g_strnfill (ADMISSION_REVIEW_MAX_BYTES + 1, ' ');
  AdmissionRequest request = { 0 };
  g_autoptr (GError) error = NULL, size_error = NULL;
  g_assert_false (parse (text, &request, &error));
  g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
  g_assert_false (parse (much, &request, &size_error));
  g_assert_true (am_error_is (size_error, AM_ERROR_RESOURCE_EXHAUSTED));
  g_assert_null (request.document);
}

/* A CREATE whose object has a list of `n` times `item`. */
static char *
with_items (guint n, const char *item)
{
  GString *text = g_string_new (HEAD "{" REQUEST ",\"operation\":\"CREATE\",\"object\":{\"metadata\":{},\"args\":[");
  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%s%s", i > 0 ? "," : "", item);
  g_string_append (text, "]}}}");
  return g_string_free (text, FALSE);
}

static void
test_many_values (void)
{
  static const struct {
    const char *item;
    guint n;
    gboolean is_taken;
  } rows[] = {
    { "\"\"", ADMISSION_REVIEW_MAX_VALUES - 100, TRUE },
    { "\"\"", ADMISSION_REVIEW_MAX_VALUES, FALSE },
    { "0", ADMISSION_REVIEW_MAX_VALUES, FALSE },
    { "[]", ADMISSION_REVIEW_MAX_VALUES / 2, FALSE },
    { "{\"a\":0}", ADMISSION_REVIEW_MAX_VALUES / 3, FALSE },
    { "\",{[:\\\",,\\\\\"", 100000, TRUE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *text = with_items (rows[i].n, rows[i].item);
      g_auto (AdmissionRequest) request = { 0 };
      g_autoptr (GError) error = NULL;
      g_assert_cmpuint (strlen (text), <=, ADMISSION_REVIEW_MAX_BYTES);
      g_assert_cmpint (parse (text, &request, &error), ==, rows[i].is_taken);
      if (rows[i].is_taken)
        continue;
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
      g_assert_nonnull (strstr (error->message, "more than 250000 values"));
    }
}

static void
test_answers (void)
{
  static const char *patch_text = "[{\"op\":\"remove\",\"path\":\"/a\"}]"; /* W3sib3Ai... */
  g_auto (AdmissionRequest) request = { 0 };
  g_assert_true (parse (HEAD "{" CREATE "}}", &request, NULL));
  g_autoptr (yyjson_doc) patch = json_parse (patch_text, strlen (patch_text), 100, JSON_STRICT, NULL);
  g_autoptr (yyjson_mut_doc) copy = yyjson_doc_mut_copy (patch, NULL);
  g_autofree char *plain = admission_allow (&request, NULL);
  g_autofree char *patched = admission_allow (&request, copy);
  g_autofree char *denied = admission_deny (&request, "\"x\" is no name");
  g_autofree char *encoded = g_base64_encode ((const guint8 *) patch_text, strlen (patch_text));
  g_autofree char *wanted = g_strdup_printf (
    "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":\"u-1\","
    "\"allowed\":true,\"patchType\":\"JSONPatch\",\"patch\":\"%s\"}}",
    encoded);
  g_assert_cmpstr (plain, ==,
                   "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":"
                   "\"u-1\",\"allowed\":true}}");
  g_assert_cmpstr (patched, ==, wanted);
  g_assert_cmpstr (denied, ==,
                   "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":"
                   "\"u-1\",\"allowed\":false,\"status\":{\"status\":\"Failure\",\"reason\":\"Invalid\",\"code\":422,"
                   "\"message\":\"\\\"x\\\" is no name\"}}}");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/admission-review/create", test_create);
  g_test_add_func ("/admission-review/others", test_others);
  g_test_add_func ("/admission-review/bad-reviews", test_bad_reviews);
  g_test_add_func ("/admission-review/limits", test_limits);
  g_test_add_func ("/admission-review/many-values", test_many_values);
  g_test_add_func ("/admission-review/answers", test_answers);
  return g_test_run ();
}
