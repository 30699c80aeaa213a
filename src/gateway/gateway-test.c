/* The gateway between a small API server and a store that fails as the test wants. The protocol against the real ones is in
 * tests/kube/test_upload_gateway.py. */
#include "gateway/gateway.h"

#include <glib/gstdio.h>
#include <string.h>

#include "cluster/model_upload.h"
#include "net/net_fixture.h"
#include "storage/object_store_fault.h"
#include "storage/storage_fixture.h"

#define NAMESPACE "modules"

/* Secrets by name, kept apart by versions as the real one does. */
typedef struct {
  GMutex lock;
  GHashTable *secrets; /* name -> text */
  guint version;
  guint n_conflicts; /* of the next updates, so many are refused */
  HttpServer *server;
} FakeApi;

static gboolean
answer_status (HttpResponse *res, guint code, const char *reason)
{
  g_autofree char *text = g_strdup_printf (
    "{\"kind\":\"Status\",\"metadata\":{},\"status\":\"Failure\",\"reason\":\"%s\",\"code\":%u}", reason, code);
  http_response_status (res, code);
  http_response_text (res, "application/json", text);
  return TRUE;
}

static gboolean
get_secret (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  FakeApi *self = http_request_service (req);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  const char *text = g_hash_table_lookup (self->secrets, http_request_param (req, "name"));
  if (text == NULL)
    return answer_status (res, 404, "NotFound");
  http_response_text (res, "application/json", text);
  return TRUE;
}

/* Takes it under the next version. */
static void
store_locked (FakeApi *self, const char *name, yyjson_mut_doc *doc)
{
  yyjson_mut_val *metadata = yyjson_mut_obj_get (yyjson_mut_doc_get_root (doc), "metadata");
  g_autofree char *version = g_strdup_printf ("%u", ++self->version);
  yyjson_mut_obj_remove_key (metadata, "resourceVersion");
  yyjson_mut_obj_add_strcpy (doc, metadata, "resourceVersion", version);
  g_hash_table_insert (self->secrets, g_strdup (name), json_write (doc, NULL));
}

static KubeObject *
find_locked (FakeApi *self, const char *name)
{
  const char *text = g_hash_table_lookup (self->secrets, name);
  return kube_object_parse (text, strlen (text), 1 << 20, NULL);
}

static gboolean
put_secret (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  FakeApi *self = http_request_service (req);
  gsize size = 0;
  const char *body = g_bytes_get_data (http_request_body (req), &size), *name = http_request_param (req, "name");
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_autoptr (KubeObject) sent = kube_object_parse (body, size, 1 << 20, NULL), now = find_locked (self, name);
  gboolean is_newest = strcmp (kube_object_resource_version (sent), kube_object_resource_version (now)) == 0;
  if (!is_newest || self->n_conflicts > 0)
    {
      self->n_conflicts -= self->n_conflicts > 0;
      return answer_status (res, 409, "Conflict");
    }
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (sent);
  store_locked (self, name, doc);
  http_response_text (res, "application/json", g_hash_table_lookup (self->secrets, name));
  return TRUE;
}

typedef struct {
  StorageFixture storage;
  FakeApi api;
  Ctx *ctx;
  KubeClient *kube;
  Gateway *gateway;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  static const HttpRoute routes[] = {
    { "GET", "/api/v1/namespaces/" NAMESPACE "/secrets/{name}", get_secret, 0, FALSE },
    { "PUT", "/api/v1/namespaces/" NAMESPACE "/secrets/{name}", put_secret, 1 << 20, FALSE },
  };
  g_autoptr (GError) error = NULL;
  storage_fixture_set_up (&self->storage, NULL);
  self->ctx = ctx_new ();
  g_mutex_init (&self->api.lock);
  self->api.secrets = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  HttpServerConfig server = {
    .listen_address = "127.0.0.1:0", .routes = routes, .n_routes = G_N_ELEMENTS (routes), .service = &self->api
  };
  self->api.server = http_server_start (self->ctx, &server, &error);
  g_assert_no_error (error);
  g_autofree char *url = g_strdup_printf ("http://127.0.0.1:%u", http_server_port (self->api.server));
  KubeConfig where = { .server = url, .namespace = (char *) NAMESPACE };
  self->kube = kube_client_new (&where, &error);
  g_assert_no_error (error);
  GatewayConfig config = {
    .listen_address = "127.0.0.1:0", .namespace = NAMESPACE, .kube = self->kube, .staging = self->storage.objects
  };
  self->gateway = gateway_start (self->ctx, &config, &error);
  g_assert_no_error (error);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  gateway_free (self->gateway);
  kube_client_free (self->kube);
  http_server_free (self->api.server);
  g_hash_table_unref (self->api.secrets);
  g_mutex_clear (&self->api.lock);
  ctx_unref (self->ctx);
  storage_fixture_tear_down (&self->storage, NULL);
}

typedef struct {
  char *id, *uid;
  char token[MODEL_UPLOAD_TOKEN_SIZE];
} Session;

static void
session_clear (Session *self)
{
  g_free (self->id);
  g_free (self->uid);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Session, session_clear)

static void
session_init (Session *self, Fixture *fixture)
{
  static guint n_sessions;
  self->uid = g_strdup_printf ("u%u", ++n_sessions);
  ModelOwner owner = { "Model", "m", "team", self->uid };
  g_autoptr (ModelUpload) upload = model_upload_new (&owner, 1, 0, g_get_real_time () / 1000, self->token);
  g_autoptr (yyjson_mut_doc) doc = model_upload_document (upload, &owner);
  self->id = g_strdup (upload->id);
  g_mutex_lock (&fixture->api.lock);
  store_locked (&fixture->api, self->id, doc);
  g_mutex_unlock (&fixture->api.lock);
}

/* As it is stored now. */
static ModelUpload *
look_at (Fixture *fixture, const Session *session)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&fixture->api.lock);
  g_autoptr (KubeObject) secret = find_locked (&fixture->api, session->id);
  ModelUpload *upload = model_upload_parse (secret, NULL);
  g_assert_nonnull (upload);
  return upload;
}

/* Of the one file that there is. */
static char *
staged_content (Fixture *fixture, const Session *session)
{
  g_autoptr (ModelUpload) upload = look_at (fixture, session);
  g_autofree char *key = model_upload_key (upload, upload->staged_file),
                  *prefix = g_strconcat (session->uid, "/", NULL);
  g_assert_cmpuint (fixture_count (fixture->storage.fs, prefix), ==, 1);
  return fixture_get (fixture->storage.fs, key);
}

/* Status of a PUT of this file. */
static guint
put (Fixture *fixture, const Session *session, const char *content, char **out_answer)
{
  g_auto (RawReply) reply = { 0 };
  int fd = raw_connect (gateway_port (fixture->gateway));
  g_autofree char *request = g_strdup_printf (
    "PUT /v1/upload/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: %zu\r\n\r\n%s",
    session->id, session->token, strlen (content), content);
  raw_ask (fd, request, &reply);
  g_close (fd, NULL);
  if (out_answer != NULL)
    *out_answer = g_strdup (reply.body->str);
  return reply.status;
}

/* Whatever fails once: the file is there whole, or nothing of it is and it can be sent again. */
static void
strike (Fixture *fixture, ObjectFault kind, gboolean late)
{
  guint n_failed = 0;
  object_store_fault_set_kind (fixture->storage.objects, kind);
  object_store_fault_set_late (fixture->storage.objects, late);
  for (guint64 n = 1;; n++)
    {
      g_auto (Session) session = { 0 };
      g_autofree char *text = NULL;
      session_init (&session, fixture);
      object_store_fault_set (fixture->storage.objects, n, FALSE);
      guint status = put (fixture, &session, "GGUF content", &text);
      gboolean is_past = object_store_fault_count (fixture->storage.objects) < n;
      object_store_fault_set (fixture->storage.objects, 0, FALSE);
      g_autoptr (ModelUpload) upload = look_at (fixture, &session);
      g_assert_true (status == 201 || status == (kind == OBJECT_FAULT_NO_SPACE ? 507 : 500));
      g_assert_null (strstr (text, session.uid));
      g_assert_cmpint (upload->phase, ==, status == 201 ? UPLOAD_UPLOADED : UPLOAD_ISSUED);
      g_assert_null (upload->holder);
      if (status != 201)
        g_assert_cmpuint (put (fixture, &session, "GGUF content", NULL), ==, 201);
      g_autofree char *content = staged_content (fixture, &session);
      g_assert_cmpstr (content, ==, "GGUF content");
      n_failed += status != 201;
      if (is_past)
        break;
    }
  g_assert_cmpuint (n_failed, >=, 2);
}

static void
test_store_fails (Fixture *fixture, gconstpointer data)
{
  strike (fixture, OBJECT_FAULT_DOWN, FALSE);
  strike (fixture, OBJECT_FAULT_DOWN, TRUE);
  strike (fixture, OBJECT_FAULT_NO_SPACE, FALSE);
}

static void
test_conflicts (Fixture *fixture, gconstpointer data)
{
  g_auto (Session) session = { 0 };
  session_init (&session, fixture);
  fixture->api.n_conflicts = 10;
  g_assert_cmpuint (put (fixture, &session, "GGUF", NULL), ==, 201);
  g_assert_cmpuint (fixture->api.n_conflicts, ==, 0);
}

typedef struct {
  Fixture *fixture;
  const Session *session;
  char content[64];
  guint status;
} Sender;

static gpointer
send_one (gpointer data)
{
  Sender *self = data;
  self->status = put (self->fixture, self->session, self->content, NULL);
  return NULL;
}

static void
test_many_at_once (Fixture *fixture, gconstpointer data)
{
  for (guint round = 0; round < 5; round++)
    {
      g_auto (Session) session = { 0 };
      Sender senders[6];
      GThread *threads[G_N_ELEMENTS (senders)];
      guint winner = 0, n_taken = 0;
      session_init (&session, fixture);
      for (guint i = 0; i < G_N_ELEMENTS (senders); i++)
        {
          senders[i] = (Sender){ fixture, &session };
          g_snprintf (senders[i].content, sizeof senders[i].content, "GGUF of sender %u", i);
          threads[i] = g_thread_new ("sender", send_one, &senders[i]);
        }
      for (guint i = 0; i < G_N_ELEMENTS (senders); i++)
        {
          g_thread_join (threads[i]);
          g_assert_true (senders[i].status == 201 || senders[i].status == 409);
          n_taken += senders[i].status == 201;
          winner = senders[i].status == 201 ? i : winner;
        }
      g_autofree char *content = staged_content (fixture, &session);
      g_assert_cmpuint (n_taken, ==, 1);
      g_assert_cmpstr (content, ==, senders[winner].content);
    }
}

/* A server that is stopped under a running upload lets the session go. */
static void
test_stopped (Fixture *fixture, gconstpointer data)
{
  g_auto (Session) session = { 0 };
  session_init (&session, fixture);
  int fd = raw_connect (gateway_port (fixture->gateway));
  g_autofree char *padding = g_strnfill (100 * 1024, 'x');
  g_autofree char *head = g_strdup_printf ("PUT /v1/upload/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                                           "Content-Length: 200000\r\n\r\nGGUF%s",
                                           session.id, session.token, padding);
  raw_send (fd, head);
  gboolean is_held = FALSE;
  for (guint i = 0; !is_held && i < 1000; i++)
    {
      g_autoptr (ModelUpload) upload = look_at (fixture, &session);
      is_held = upload->holder != NULL;
      g_usleep (10000);
    }
  g_assert_true (is_held);
  gateway_free (g_steal_pointer (&fixture->gateway));
  g_close (fd, NULL);
  g_autoptr (ModelUpload) upload = look_at (fixture, &session);
  g_assert_cmpint (upload->phase, ==, UPLOAD_ISSUED);
  g_assert_null (upload->holder);
}

#define GATEWAY_TEST(name, func) g_test_add (name, Fixture, NULL, set_up, func, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  GATEWAY_TEST ("/gateway/store-fails", test_store_fails);
  GATEWAY_TEST ("/gateway/conflicts", test_conflicts);
  GATEWAY_TEST ("/gateway/many-at-once", test_many_at_once);
  GATEWAY_TEST ("/gateway/stopped", test_stopped);
  return g_test_run ();
}
