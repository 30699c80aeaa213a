#include "cluster/model_upload.h"

#include <string.h>

#define NOW_MS 1796000000000ll

static const ModelOwner owner = { "Model", "m", "team", "ABC_1" };

static ModelUpload *
reread (const ModelUpload *self)
{
  g_autoptr (yyjson_mut_doc) doc = model_upload_document (self, &owner);
  g_autoptr (GError) error = NULL;
  gsize size = 0;
  g_autofree char *text = json_write (doc, &size);
  g_autoptr (KubeObject) secret = kube_object_parse (text, size, 1 << 20, &error);
  g_assert_no_error (error);
  ModelUpload *again = model_upload_parse (secret, &error);
  g_assert_no_error (error);
  return again;
}

static ModelUpload *
new_upload (void)
{
  char token[MODEL_UPLOAD_TOKEN_SIZE];
  return model_upload_new (&owner, 3, 0, NOW_MS, token);
}

static void
test_new (void)
{
  char token[MODEL_UPLOAD_TOKEN_SIZE], other[MODEL_UPLOAD_TOKEN_SIZE];
  g_autoptr (ModelUpload) made = model_upload_new (&owner, 3, 77, NOW_MS, token);
  g_autoptr (ModelUpload) second = model_upload_new (&owner, 3, 77, NOW_MS, other);
  g_autoptr (ModelUpload) upload = reread (made);
  g_autoptr (yyjson_mut_doc) doc = model_upload_document (made, &owner);
  g_autofree char *text = json_write (doc, NULL), *key = model_upload_key (upload, "a.gguf");
  ModelOwner read;
  g_assert_cmpuint (strlen (token), ==, 48);
  g_assert_cmpstr (token, !=, other);
  g_assert_null (strstr (text, token));
  g_assert_cmpstr (upload->id, ==, "ai-model-upload-auth-abc-1");
  g_assert_cmpint (upload->phase, ==, UPLOAD_ISSUED);
  g_assert_cmpuint (upload->expected_bytes, ==, 77);
  g_assert_cmpint (upload->owner_generation, ==, 3);
  g_assert_cmpint (upload->expires_ms, ==, NOW_MS + 30 * 60 * 1000);
  g_assert_cmpstr (key, ==, "abc-1/a.gguf");
  g_assert_true (model_owner_read (upload->stored, &read));
  g_assert_cmpstr (read.uid, ==, "ABC_1");
  g_assert_true (model_upload_admits (upload, token));
  g_assert_false (model_upload_admits (upload, other));
  g_assert_false (model_upload_admits (upload, ""));
}

/* Which call each phase allows: put, probe, init, parts, complete, abort. */
static void
test_phases (void)
{
  static const struct {
    UploadPhase phase;
    const char *name, *calls;
    ModelUploadState state;
  } rows[] = {
    { UPLOAD_ISSUED, "issued", "yyy--y", MODEL_UPLOAD_OPEN },
    { UPLOAD_PROBING, "probing", "yyy--y", MODEL_UPLOAD_OPEN },
    { UPLOAD_UPLOADING, "uploading", "--yyyy", MODEL_UPLOAD_OPEN },
    { UPLOAD_UPLOADED, "uploaded", "------", MODEL_UPLOAD_STAGED },
    { UPLOAD_PUBLISHING, "publishing", "------", MODEL_UPLOAD_STAGED },
    { UPLOAD_COMPLETED, "completed", "------", MODEL_UPLOAD_STAGED },
    { UPLOAD_FAILED, "failed", "------", MODEL_UPLOAD_OVER },
    { UPLOAD_ABORTED, "aborted", "------", MODEL_UPLOAD_OVER },
    { UPLOAD_EXPIRED, "expired", "------", MODEL_UPLOAD_OVER },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (ModelUpload) upload = new_upload ();
      model_upload_set_staged (upload, "f", 1);
      upload->phase = rows[i].phase;
      g_autoptr (ModelUpload) again = reread (upload);
      g_assert_cmpint (again->phase, ==, rows[i].phase);
      g_assert_cmpstr (upload_phase_name (rows[i].phase), ==, rows[i].name);
      g_assert_cmpint (model_upload_state (again, NOW_MS), ==, rows[i].state);
      g_assert_true (upload_phase_is_open (rows[i].phase) == (rows[i].state == MODEL_UPLOAD_OPEN));
      for (guint call = UPLOAD_CALL_PUT; call <= UPLOAD_CALL_ABORT; call++)
        g_assert_true (upload_phase_allows (rows[i].phase, (UploadCall) call) == (rows[i].calls[call] == 'y'));
    }
  g_assert_cmpint (model_upload_state (NULL, NOW_MS), ==, MODEL_UPLOAD_NONE);
}

/* What time does to a session: seconds after issue. */
static void
test_settle (void)
{
  static const struct {
    UploadPhase phase;
    gint64 held_s, now_s; /* when the hold was renewed last; negative: nobody holds it */
    gboolean in_parts;
    UploadPhase wanted;
    gboolean is_held;
  } rows[] = {
    { UPLOAD_ISSUED, -1, 1799, FALSE, UPLOAD_ISSUED, FALSE },
    { UPLOAD_ISSUED, -1, 1800, FALSE, UPLOAD_EXPIRED, FALSE },
    { UPLOAD_PROBING, -1, 1799, FALSE, UPLOAD_PROBING, FALSE },
    { UPLOAD_PROBING, -1, 1800, FALSE, UPLOAD_EXPIRED, FALSE },
    { UPLOAD_UPLOADING, 100, 129, FALSE, UPLOAD_UPLOADING, TRUE },
    { UPLOAD_UPLOADING, 100, 130, FALSE, UPLOAD_ISSUED, FALSE },
    { UPLOAD_UPLOADING, 1790, 1810, FALSE, UPLOAD_UPLOADING, TRUE },
    { UPLOAD_UPLOADING, 1790, 1830, FALSE, UPLOAD_EXPIRED, FALSE },
    { UPLOAD_UPLOADING, -1, 1, FALSE, UPLOAD_ISSUED, FALSE },
    { UPLOAD_UPLOADING, -1, 1799, TRUE, UPLOAD_UPLOADING, FALSE },
    { UPLOAD_UPLOADING, -1, 1800, TRUE, UPLOAD_EXPIRED, FALSE },
    { UPLOAD_UPLOADED, -1, 99999, FALSE, UPLOAD_UPLOADED, FALSE },
    { UPLOAD_PUBLISHING, -1, 99999, FALSE, UPLOAD_PUBLISHING, FALSE },
    { UPLOAD_ABORTED, -1, 99999, FALSE, UPLOAD_ABORTED, FALSE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (ModelUpload) made = new_upload ();
      gint64 now_ms = NOW_MS + rows[i].now_s * 1000;
      model_upload_set_staged (made, "f", 1);
      made->phase = rows[i].phase;
      made->holder = rows[i].held_s >= 0 ? g_strdup ("h") : NULL;
      made->holder_renewed_ms = rows[i].held_s >= 0 ? NOW_MS + rows[i].held_s * 1000 : 0;
      made->multipart_id = rows[i].in_parts ? g_strdup ("id") : NULL;
      made->multipart_file = rows[i].in_parts ? g_strdup ("f") : NULL;
      g_autoptr (ModelUpload) upload = reread (made);
      ModelUploadState before = model_upload_state (upload, now_ms);
      g_assert_true (model_upload_is_held (upload, now_ms) == rows[i].is_held);
      g_assert_true (model_upload_settle (upload, now_ms) == (rows[i].phase != rows[i].wanted));
      g_assert_cmpint (upload->phase, ==, rows[i].wanted);
      g_assert_cmpint (model_upload_state (upload, now_ms), ==, before);
      g_assert_false (model_upload_settle (upload, now_ms));
      g_assert_true (upload->phase != UPLOAD_EXPIRED || (upload->failure != NULL && upload->multipart_id == NULL));
    }
}

static void
test_extend (void)
{
  g_autoptr (ModelUpload) upload = new_upload ();
  model_upload_extend (upload, NOW_MS - 60000);
  g_assert_cmpint (upload->expires_ms, ==, NOW_MS + MODEL_UPLOAD_TTL_MS);
  model_upload_extend (upload, NOW_MS + 60000);
  g_assert_cmpint (upload->expires_ms, ==, NOW_MS + 60000 + MODEL_UPLOAD_TTL_MS);
  upload->issued_ms = NOW_MS;
  model_upload_extend (upload, NOW_MS + MODEL_UPLOAD_MAX_MS - 1000);
  g_assert_cmpint (upload->expires_ms, ==, NOW_MS + MODEL_UPLOAD_MAX_MS);
}

static void
test_round_trip (void)
{
  g_autoptr (ModelUpload) made = new_upload ();
  made->phase = UPLOAD_UPLOADING;
  made->multipart_id = g_strdup ("id/+=");
  made->multipart_file = g_strdup ("модель.gguf");
  made->probe_file = g_strdup ("модель.gguf");
  made->probe_format = g_strdup ("GGUF");
  made->probe_bytes = MODEL_UPLOAD_MAX_BYTES;
  made->uploaded_bytes = 5;
  g_autoptr (ModelUpload) upload = reread (made);
  g_assert_cmpstr (upload->multipart_id, ==, "id/+=");
  g_assert_cmpstr (upload->multipart_file, ==, "модель.gguf");
  g_assert_cmpstr (upload->probe_format, ==, "GGUF");
  g_assert_cmpuint (upload->probe_bytes, ==, MODEL_UPLOAD_MAX_BYTES);
  g_assert_cmpuint (upload->uploaded_bytes, ==, 5);
  model_upload_set_staged (upload, upload->multipart_file, 9);
  g_autoptr (ModelUpload) staged = reread (upload);
  g_assert_cmpint (staged->phase, ==, UPLOAD_UPLOADED);
  g_assert_cmpstr (staged->staged_file, ==, "модель.gguf");
  g_assert_cmpuint (staged->staged_bytes, ==, 9);
  g_assert_null (staged->multipart_id);
  g_assert_null (staged->probe_file);
  model_upload_set_staged (staged, "attempt/модель.gguf", 9);
  g_autoptr (ModelUpload) apart = reread (staged);
  g_autofree char *key = model_upload_key (apart, apart->staged_file);
  g_assert_cmpstr (apart->staged_file, ==, "attempt/модель.gguf");
  g_assert_cmpstr (key, ==, "abc-1/attempt/модель.gguf");
  model_upload_end (staged, UPLOAD_FAILED, "too short");
  g_autoptr (ModelUpload) failed = reread (staged);
  g_assert_cmpstr (failed->failure, ==, "too short");
  g_assert_null (failed->staged_file);
}

/* Members of others stay, and the version it was read at is sent back. */
static void
test_foreign_members (void)
{
  static const char text[]
    = "{\"metadata\":{\"name\":\"n\",\"resourceVersion\":\"7\",\"creationTimestamp\":"
      "\"2026-11-30T00:00:00Z\",\"managedFields\":[1],\"labels\":{\"x\":\"y\"},\"annotations\":"
      "{\"ai.deckhouse.io/upload-expires-at\":\"2026-11-30T00:30:00Z\"}},\"data\":{"
      "\"phase\":\"aXNzdWVk\",\"tokenHash\":\"YQ==\",\"stagingKeyPrefix\":\"dQ==\","
      "\"other\":\"eA==\"}}";
  g_autoptr (KubeObject) secret = kube_object_parse (text, strlen (text), 1 << 20, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (ModelUpload) upload = model_upload_parse (secret, &error);
  g_assert_no_error (error);
  g_assert_cmpint (upload->expires_ms - upload->issued_ms, ==, MODEL_UPLOAD_TTL_MS);
  upload->phase = UPLOAD_PROBING;
  g_autoptr (yyjson_mut_doc) doc = model_upload_document (upload, NULL);
  g_autofree char *written = json_write (doc, NULL);
  g_assert_nonnull (strstr (written, "\"resourceVersion\":\"7\""));
  g_assert_nonnull (strstr (written, "\"other\":\"eA==\""));
  g_assert_nonnull (strstr (written, "\"phase\":\"cHJvYmluZw==\""));
  g_assert_nonnull (strstr (written, "\"x\":\"y\""));
  g_assert_null (strstr (written, "managedFields"));
  g_assert_false (model_upload_admits (upload, "a")); /* whose hash is none */
}

static void
test_refused (void)
{
  static const struct {
    const char *key, *value; /* in place of a good one; value NULL: it is missing */
    const char *words;
  } rows[] = {
    { "phase", NULL, "no phase" },
    { "phase", "done", "no phase" },
    { "phase", "uploaded", "without a stagedHandle" },
    { "tokenHash", NULL, "tokenHash" },
    { "stagingKeyPrefix", NULL, "stagingKeyPrefix" },
    { "stagingKeyPrefix", "../x", "stagingKeyPrefix" },
    { "expectedSizeBytes", "-1", "expectedSizeBytes is no size" },
    { "multipartUploadID", "x", "upload in parts" },
    { "multipartFileName", "x", "upload in parts" },
    { "probeFileName", "a/b", "probeFileName" },
    { "stagedHandle", "{", "bad JSON" },
    { "stagedHandle", "{\"key\":\"k\",\"fileName\":\"../a\",\"sizeBytes\":1}", "names no file" },
    { "stagedHandle", "{\"key\":\"k\",\"fileName\":\"a\",\"sizeBytes\":-1}", "sizeBytes" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (ModelUpload) made = new_upload ();
      g_autoptr (yyjson_mut_doc) doc = model_upload_document (made, &owner);
      yyjson_mut_val *data = yyjson_mut_obj_get (yyjson_mut_doc_get_root (doc), "data");
      yyjson_mut_obj_remove_key (data, rows[i].key);
      g_autofree char *coded = rows[i].value != NULL
                                 ? g_base64_encode ((const guchar *) rows[i].value, strlen (rows[i].value))
                                 : NULL;
      if (coded != NULL)
        yyjson_mut_obj_add_strcpy (doc, data, rows[i].key, coded);
      gsize size = 0;
      g_autofree char *text = json_write (doc, &size);
      g_autoptr (KubeObject) secret = kube_object_parse (text, size, 1 << 20, NULL);
      g_autoptr (GError) error = NULL;
      g_assert_null (model_upload_parse (secret, &error));
      g_assert_error (error, AM_ERROR, AM_ERROR_INVALID_ARGUMENT);
      g_assert_nonnull (strstr (error->message, rows[i].words));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model-upload/new", test_new);
  g_test_add_func ("/model-upload/phases", test_phases);
  g_test_add_func ("/model-upload/settle", test_settle);
  g_test_add_func ("/model-upload/extend", test_extend);
  g_test_add_func ("/model-upload/round-trip", test_round_trip);
  g_test_add_func ("/model-upload/foreign-members", test_foreign_members);
  g_test_add_func ("/model-upload/refused", test_refused);
  return g_test_run ();
}
