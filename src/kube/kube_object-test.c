#include "kube/kube_object.h"

#include <string.h>

#include "kube/kube_error.h"
#include "kube/kube_kind.h"

static const char pod[]
  = "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"n\",\"namespace\":\"s\",\"uid\":\"u\",\"resourceVersion\":\"7\","
    "\"generation\":3,\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",\"finalizers\":[\"a/b\",\"c\"],"
    "\"labels\":{\"l\":\"1\"},\"annotations\":{\"kubectl.kubernetes.io/last-applied-configuration\":\"{}\",\"x\":\"y\"},"
    "\"managedFields\":[{\"manager\":\"m\"}],\"unknown\":1},\"spec\":{\"p\":{}},\"other\":[1]}";

static KubeObject *
parse (const char *text)
{
  g_autoptr (GError) error = NULL;
  KubeObject *object = kube_object_parse (text, strlen (text), 1 << 20, &error);
  g_assert_no_error (error);
  return object;
}

static void
test_members (void)
{
  g_autoptr (KubeObject) object = parse (pod), bare = parse ("{\"metadata\":{}}");
  g_autoptr (GError) error = NULL;
  g_assert_cmpstr (kube_object_name (object), ==, "n");
  g_assert_cmpstr (kube_object_namespace (object), ==, "s");
  g_assert_cmpstr (kube_object_uid (object), ==, "u");
  g_assert_cmpstr (kube_object_resource_version (object), ==, "7");
  g_assert_cmpint (kube_object_generation (object), ==, 3);
  g_assert_true (kube_object_is_deleting (object));
  g_assert_true (kube_object_has_finalizer (object, "c"));
  g_assert_false (kube_object_has_finalizer (object, "a"));
  g_assert_cmpstr (kube_object_label (object, "l"), ==, "1");
  g_assert_cmpstr (kube_object_annotation (object, "x"), ==, "y");
  g_assert_null (kube_object_annotation (object, "l"));
  g_assert_nonnull (kube_object_spec (object));
  g_assert_null (kube_object_status (object));
  g_assert_cmpstr (kube_object_name (bare), ==, "");
  g_assert_false (kube_object_is_deleting (bare));
  g_assert_null (kube_object_label (bare, "l"));
  g_assert_null (kube_object_parse ("{}", 2, 100, &error));
  g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
}

/* Members that nobody here knows survive, in a copy to edit and in the cache. */
static void
test_copies (void)
{
  g_autoptr (KubeObject) object = parse (pod);
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (object);
  g_autofree char *edited = json_write (doc, NULL);
  g_assert_cmpstr (edited, ==, pod);
  gsize size = 0;
  g_autofree char *trimmed = NULL;
  g_autoptr (KubeObject) small = kube_object_trimmed (object, NULL, &trimmed, &size);
  g_assert_cmpstr (kube_object_name (small), ==, kube_object_name (object));
  g_assert_cmpuint (size, ==, strlen (trimmed));
  g_assert_null (strstr (trimmed, "managedFields"));
  g_assert_null (strstr (trimmed, "last-applied"));
  g_assert_nonnull (strstr (trimmed, "\"unknown\":1"));
  g_assert_nonnull (strstr (trimmed, "\"other\":[1]"));
}

static void
test_paths (void)
{
  static const KubeKind pods = { "", "v1", "pods", "Pod", TRUE };
  static const KubeKind models = { "ai.deckhouse.io", "v1alpha1", "clustermodels", "ClusterModel", FALSE };
  const struct {
    const KubeKind *kind;
    const char *namespace, *name, *subresource, *path, *api_version;
  } rows[] = {
    { &pods, "ns", "a", "status", "/api/v1/namespaces/ns/pods/a/status", "v1" },
    { &pods, "ns", NULL, "status", "/api/v1/namespaces/ns/pods", "v1" },
    { &pods, NULL, NULL, NULL, "/api/v1/pods", "v1" },
    { &pods, "../x", "a/b?c", NULL, "/api/v1/namespaces/..%2Fx/pods/a%2Fb%3Fc", "v1" },
    { &models, "ns", "m", NULL, "/apis/ai.deckhouse.io/v1alpha1/clustermodels/m", "ai.deckhouse.io/v1alpha1" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *path = kube_kind_path (rows[i].kind, rows[i].namespace, rows[i].name, rows[i].subresource);
      g_autofree char *version = kube_kind_api_version (rows[i].kind);
      g_assert_cmpstr (path, ==, rows[i].path);
      g_assert_cmpstr (version, ==, rows[i].api_version);
    }
}

#define STATUS(reason) "{\"kind\":\"Status\",\"reason\":\"" reason "\",\"message\":\"m\"}"

static void
test_errors (void)
{
  static const struct {
    guint status;
    const char *body;
    AmErrorCode code;
    const char *reason, *message;
  } rows[] = {
    { 404, STATUS ("NotFound"), AM_ERROR_NOT_FOUND, "NotFound", "get Pod: m" },
    { 409, STATUS ("AlreadyExists"), AM_ERROR_ALREADY_EXISTS, "AlreadyExists", "get Pod: m" },
    { 409, STATUS ("Conflict"), AM_ERROR_ABORTED, "Conflict", "get Pod: m" },
    { 410, STATUS ("Gone"), AM_ERROR_OUT_OF_RANGE, "Expired", "get Pod: m" },
    { 422, STATUS ("Invalid"), AM_ERROR_INVALID_ARGUMENT, "Invalid", "get Pod: m" },
    { 403, STATUS ("Forbidden"), AM_ERROR_PERMISSION_DENIED, "Forbidden", "get Pod: m" },
    { 500, STATUS ("InternalError"), AM_ERROR_UNAVAILABLE, "InternalError", "get Pod: m" },
    { 504, STATUS ("Timeout"), AM_ERROR_UNAVAILABLE, "Timeout", "get Pod: m" },
    { 409, STATUS ("SomethingNew"), AM_ERROR_ABORTED, "Conflict", "get Pod: m" },
    { 401, "not json", AM_ERROR_UNAUTHENTICATED, "Unauthorized", "get Pod: status 401" },
    { 503, "", AM_ERROR_UNAVAILABLE, NULL, "get Pod: status 503" },
    { 404, "{\"kind\":\"Other\",\"reason\":\"Conflict\"}", AM_ERROR_NOT_FOUND, "NotFound", "get Pod: status 404" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_false (kube_fail ("get Pod", rows[i].status, rows[i].body, strlen (rows[i].body), &error));
      g_assert_cmpint (error->code, ==, rows[i].code);
      g_assert_cmpstr (am_error_reason (error), ==, rows[i].reason);
      g_assert_cmpstr (error->message, ==, rows[i].message);
    }
  static const char busy[]
    = "{\"kind\":\"Status\",\"reason\":\"TooManyRequests\",\"details\":{\"retryAfterSeconds\":7}}";
  g_autoptr (GError) error = NULL;
  g_assert_false (kube_fail ("x", 429, busy, strlen (busy), &error));
  g_assert_cmpint (am_error_retry_after_ms (error), ==, 7000);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/kube-object/members", test_members);
  g_test_add_func ("/kube-object/copies", test_copies);
  g_test_add_func ("/kube-object/paths", test_paths);
  g_test_add_func ("/kube-object/errors", test_errors);
  return g_test_run ();
}
