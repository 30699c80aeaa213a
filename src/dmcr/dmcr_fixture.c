#include "dmcr/dmcr_fixture.h"

#include <string.h>

#include "base/file.h"
#include "storage/object_store_fs.h"

void
dmcr_fixture_set_up (DmcrFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  DmcrConfig config = { .listen_address = "127.0.0.1:0", .anonymous_read = TRUE, .anonymous_write = TRUE };
  HttpClientConfig client = { .max_attempts = 1, .proxy = "" };
  self->root = g_dir_make_tmp ("dmcr-XXXXXX", &error);
  self->ctx = ctx_new ();
  self->objects = object_store_fs_new (self->root, TRUE, &error);
  self->blobs = blob_store_new (self->objects);
  self->dmcr = dmcr_start (self->ctx, &config, self->blobs, &error);
  g_assert_no_error (error);
  self->client = http_client_new (&client, &error);
  self->base = g_strdup_printf ("http://127.0.0.1:%u", dmcr_port (self->dmcr));
}

void
dmcr_fixture_tear_down (DmcrFixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  http_client_free (self->client);
  dmcr_free (self->dmcr);
  blob_store_free (self->blobs);
  object_store_free (self->objects);
  g_assert_true (file_remove_tree (self->root, &error));
  ctx_unref (self->ctx);
  g_free (self->base);
  g_free (self->root);
}

guint
dmcr_fixture_call (DmcrFixture *self, const char *method, const char *path, const char *header, gconstpointer body,
                   gsize size, HttpReply *reply)
{
  g_autoptr (GError) error = NULL;
  const char *headers[] = { header, NULL };
  g_autofree char *url = g_strconcat (path[0] == '/' ? self->base : "", path, NULL);
  g_autoptr (GBytes) bytes = body != NULL ? g_bytes_new (body, size) : NULL;
  HttpCall http = { .method = method, .url = url, .headers = headers, .body = bytes, .no_redirects = TRUE };
  http_reply_clear (reply);
  memset (reply, 0, sizeof *reply);
  if (!http_client_call (self->ctx, self->client, &http, reply, &error) && reply->status == 0)
    g_test_message ("%s %s: %s", method, path, error->message);
  return reply->status;
}
