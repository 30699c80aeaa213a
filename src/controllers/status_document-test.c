#include "controllers/status_document.h"

#include "controllers/controllers_fixture.h"

#define NOW "2026-02-02T00:00:00Z"
#define THEN "2026-01-01T00:00:00Z"
#define DIGEST "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const char fresh[] = "{'metadata':{'name':'m','generation':3},'spec':{}}";

static KubeObject *
write_status (const KubeObject *model, const StatusWish *wish)
{
  g_autoptr (yyjson_mut_doc) doc = status_document (model, wish, NOW);
  return doc != NULL ? object_of_doc (doc) : NULL;
}

static const char *
text_of (const KubeObject *model, const char *name)
{
  return json_get_string (kube_object_status (model), name);
}

/* Written once, nothing is left to write; whatever the situation. */
static void
test_settles (void)
{
  for (int situation = MODEL_AT_PREPARING_UPLOAD; situation <= MODEL_AT_DELETION_STUCK; situation++)
    {
      StatusWish wish = { .situation = (ModelSituation) situation,
                          .source_type = "HuggingFace",
                          .upload_secret = "s",
                          .upload_expires = NOW };
      g_autoptr (KubeObject) model = object_of (fresh);
      g_autoptr (KubeObject) written = write_status (model, &wish);
      g_assert_nonnull (written);
      g_assert_null (write_status (written, &wish));
      g_assert_cmpint (yyjson_get_int (yyjson_obj_get (kube_object_status (written), "observedGeneration")), ==, 3);
    }
}

static WorkerResult
some_result (void)
{
  return (WorkerResult){ .end = WORKER_HAS_RESULT,
                         .digest = (char *) DIGEST,
                         .media_type = (char *) "m/t",
                         .size_bytes = 5,
                         .source_type = (char *) "HuggingFace",
                         .source_revision = (char *) "c0ffee",
                         .resolved = { .format = (char *) "GGUF" },
                         .metadata_complete = TRUE };
}

static void
test_result (void)
{
  WorkerResult result = some_result ();
  StatusWish wish = { .situation = MODEL_AT_READY, .result = &result }, again = { .situation = MODEL_AT_READY };
  g_autoptr (KubeObject) model = object_of (fresh);
  g_assert_false (status_shows_artifact (model, DIGEST));
  g_autoptr (KubeObject) ready = write_status (model, &wish);
  g_assert_cmpstr (text_of (ready, "phase"), ==, "Ready");
  g_assert_cmpstr (text_of (ready, "progress"), ==, "100%");
  g_assert_true (status_shows_artifact (ready, DIGEST));
  g_assert_false (status_shows_artifact (ready, "sha256:b"));
  g_assert_cmpstr (json_get_string (status_condition (ready, "MetadataResolved"), "reason"), ==,
                   "ModelMetadataCalculated");
  g_assert_null (write_status (ready, &again)); /* nothing of the result is needed to keep it */
  StatusWish failed = { .situation = MODEL_AT_FAILED, .message = "why" };
  g_autoptr (KubeObject) lost = write_status (ready, &failed);
  g_assert_null (json_get_object (kube_object_status (lost), "artifact"));
  g_assert_null (json_get_object (kube_object_status (lost), "resolved"));
  g_assert_null (text_of (lost, "progress"));
  g_assert_cmpstr (json_get_string (json_get_object (kube_object_status (lost), "source"), "resolvedRevision"), ==,
                   "c0ffee");
  g_assert_cmpstr (json_get_string (status_condition (lost, "ArtifactResolved"), "message"), ==, "why");
}

/* The time of a condition changes with its status alone; what others wrote stays. */
static void
test_conditions (void)
{
  g_autoptr (KubeObject) model = object_of (
    "{'metadata':{'generation':1},'status':{'other':7,'conditions':[{'type':'Theirs','status':'True','reason':'R',"
    "'message':'','lastTransitionTime':'" THEN "'},{'type':'Ready','status':'False','reason':'Pending','message':'x',"
    "'lastTransitionTime':'" THEN "','extra':1}]}}");
  StatusWish running = { .situation = MODEL_AT_RUNNING };
  WorkerResult result = some_result ();
  StatusWish ready = { .situation = MODEL_AT_READY, .result = &result };
  g_autoptr (KubeObject) first = write_status (model, &running);
  g_autoptr (KubeObject) second = write_status (first, &ready);
  yyjson_val *condition = status_condition (first, "Ready");
  g_assert_cmpstr (json_get_string (condition, "reason"), ==, "Publishing");
  g_assert_cmpstr (json_get_string (condition, "lastTransitionTime"), ==, THEN);
  g_assert_cmpint (yyjson_get_int (yyjson_obj_get (condition, "extra")), ==, 1);
  g_assert_cmpstr (json_get_string (status_condition (second, "Ready"), "lastTransitionTime"), ==, NOW);
  g_assert_cmpstr (json_get_string (status_condition (second, "Theirs"), "lastTransitionTime"), ==, THEN);
  g_assert_cmpint (yyjson_get_int (yyjson_obj_get (kube_object_status (second), "other")), ==, 7);
}

static void
test_long_message (void)
{
  g_autofree char *words = g_strnfill (5000, 'w');
  StatusWish wish = { .situation = MODEL_AT_FAILED, .message = words };
  g_autoptr (KubeObject) model = object_of (fresh);
  g_autoptr (KubeObject) failed = write_status (model, &wish);
  const char *message = json_get_string (status_condition (failed, "Ready"), "message");
  g_assert_cmpint (g_utf8_strlen (message, -1), ==, 1024);
}

static void
test_upload (void)
{
  StatusWish waiting = { .situation = MODEL_AT_WAITING_UPLOAD, .upload_secret = "s", .progress = "5%" };
  StatusWish running = { .situation = MODEL_AT_RUNNING, .upload_secret = "s" };
  g_autoptr (KubeObject) model = object_of (fresh);
  g_autoptr (KubeObject) awaited = write_status (model, &waiting);
  g_autoptr (KubeObject) staged = write_status (awaited, &running);
  g_assert_cmpstr (json_get_string (json_get_object (kube_object_status (awaited), "upload"), "secretName"), ==, "s");
  g_assert_cmpstr (text_of (awaited, "progress"), ==, "5%");
  g_assert_null (json_get_object (kube_object_status (staged), "upload"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/status-document/settles", test_settles);
  g_test_add_func ("/status-document/result", test_result);
  g_test_add_func ("/status-document/conditions", test_conditions);
  g_test_add_func ("/status-document/long-message", test_long_message);
  g_test_add_func ("/status-document/upload", test_upload);
  return g_test_run ();
}
