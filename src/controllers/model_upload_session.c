#include <string.h>

#include "base/log.h"
#include "controllers/model_work.h"
#include "storage/object_parts.h"

#define MAX_URL_BYTES 2048

char *
model_upload_secret_name (const ModelOwner *owner)
{
  return model_object_name (UPLOAD_TOKEN_PREFIX, owner->uid);
}

/* Where its Secret and Role lie: with the model, or with the module for one of the whole cluster. */
static const char *
upload_namespace (ModelController *self, const ModelOwner *owner)
{
  return owner->namespace != NULL ? owner->namespace : self->settings->namespace;
}

/* Goes with its model even where nobody cleans up. */
static yyjson_mut_doc *
owned_document (const ModelOwner *owner, const char *name)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_val *metadata = yyjson_mut_obj_add_obj (doc, root, "metadata");
  yyjson_mut_obj_add_strcpy (doc, metadata, "name", name);
  model_owner_mark (doc, metadata, owner, UPLOAD_TOKEN_APP);
  g_autofree char *version = kube_kind_api_version (&model_kind);
  yyjson_mut_val *reference = yyjson_mut_arr_add_obj (doc, yyjson_mut_obj_add_arr (doc, metadata, "ownerReferences"));
  yyjson_mut_obj_add_strcpy (doc, reference, "apiVersion", version);
  yyjson_mut_obj_add_strcpy (doc, reference, "kind", owner->kind);
  yyjson_mut_obj_add_strcpy (doc, reference, "name", owner->name);
  yyjson_mut_obj_add_strcpy (doc, reference, "uid", owner->uid);
  return doc;
}

static void
add_encoded (yyjson_mut_doc *doc, const char *key, const char *text)
{
  g_autofree char *encoded = g_base64_encode ((const guchar *) text, strlen (text));
  yyjson_mut_val *data = metadata_map (doc, yyjson_mut_doc_get_root (doc), "data");
  yyjson_mut_obj_add_strcpy (doc, data, key, encoded);
}

/* The user's Secret. One that is there belongs to a session that was never made, or to one that is lost: it gets the new
 * token. */
static gboolean
put_token_secret (ModelWork *work, const char *url, const char *token, GError **error)
{
  ModelController *self = work->controller;
  gboolean existed = FALSE;
  const char *namespace = upload_namespace (self, &work->owner);
  g_autofree char *name = model_upload_secret_name (&work->owner);
  g_autoptr (yyjson_mut_doc) doc = owned_document (&work->owner, name);
  add_encoded (doc, "url", url);
  add_encoded (doc, "token", token);
  if (!model_create (work->ctx, self, &secret_kind, namespace, doc, &existed, error))
    return FALSE;
  if (!existed)
    return TRUE;
  KubeTarget target = { .kind = &secret_kind, .namespace = namespace, .name = name };
  g_autoptr (KubeObject) stored = kube_client_patch (work->ctx, self->client, &target, KUBE_PATCH_MERGE, NULL, doc,
                                                     error);
  return stored != NULL;
}

/* Lets whom an administrator binds to it read that one Secret. */
static gboolean
put_reader_role (ModelWork *work, GError **error)
{
  g_autofree char *name = model_upload_reader_name (work->owner.name);
  g_autofree char *secret = model_upload_secret_name (&work->owner);
  g_autoptr (yyjson_mut_doc) doc = owned_document (&work->owner, name);
  yyjson_mut_val *rules = yyjson_mut_obj_add_arr (doc, yyjson_mut_doc_get_root (doc), "rules");
  yyjson_mut_val *rule = yyjson_mut_arr_add_obj (doc, rules);
  yyjson_mut_arr_add_str (doc, yyjson_mut_obj_add_arr (doc, rule, "apiGroups"), "");
  yyjson_mut_arr_add_str (doc, yyjson_mut_obj_add_arr (doc, rule, "resources"), "secrets");
  yyjson_mut_arr_add_str (doc, yyjson_mut_obj_add_arr (doc, rule, "resourceNames"), secret);
  yyjson_mut_arr_add_str (doc, yyjson_mut_obj_add_arr (doc, rule, "verbs"), "get");
  return model_create (work->ctx, work->controller, &role_kind, upload_namespace (work->controller, &work->owner),
                       doc, NULL, error);
}

gboolean
model_issue_upload (ModelWork *work, GError **error)
{
  ModelController *self = work->controller;
  gboolean existed = FALSE;
  char token[MODEL_UPLOAD_TOKEN_SIZE];
  g_autofree char *session_name = model_object_name (UPLOAD_SESSION_PREFIX, work->owner.uid);
  KubeTarget target = { .kind = &secret_kind, .namespace = self->settings->namespace, .name = session_name };
  /* A session that the cache does not know yet keeps its token. */
  g_autoptr (KubeObject) known = NULL;
  if (!kube_client_find (work->ctx, self->client, &target, &known, error))
    return FALSE;
  if (known != NULL)
    return TRUE;
  g_autoptr (ModelUpload) upload = model_upload_new (&work->owner, kube_object_generation (work->object), 0,
                                                     g_get_real_time () / 1000, token);
  g_autofree char *url = g_strdup_printf ("%s/v1/upload/%s", self->settings->upload_url, upload->id);
  g_autoptr (yyjson_mut_doc) session = model_upload_document (upload, &work->owner);
  gboolean done = put_token_secret (work, url, token, error) && put_reader_role (work, error)
                  && model_create (work->ctx, self, &secret_kind, self->settings->namespace, session, &existed,
                                   error);
  memset (token, 0, sizeof token);
  if (!done)
    return FALSE;
  if (existed)
    return am_fail (error, AM_ERROR_ABORTED, NULL, "somebody else made the upload session");
  g_autofree char *secret = model_upload_secret_name (&work->owner);
  model_say (work, EVENT_NORMAL, "UploadSessionIssued", "Secret %s has the address and the token for the upload",
             secret);
  return TRUE;
}

gboolean
model_start_upload (ModelWork *work, GError **error)
{
  ModelController *self = work->controller;
  g_autofree char *session = model_object_name (UPLOAD_SESSION_PREFIX, work->owner.uid);
  KubeTarget target = { .kind = &secret_kind, .namespace = self->settings->namespace, .name = session };
  if (work->upload->phase == UPLOAD_PUBLISHING)
    return TRUE;
  guint64 bytes = work->upload->staged_bytes;
  work->upload->phase = UPLOAD_PUBLISHING;
  g_autoptr (yyjson_mut_doc) doc = model_upload_document (work->upload, &work->owner);
  g_autoptr (KubeObject) stored = kube_client_update (work->ctx, self->client, &target, doc, error);
  if (stored == NULL)
    return FALSE;
  model_say (work, EVENT_NORMAL, "RawStaged", "%" G_GUINT64_FORMAT " bytes were uploaded", bytes);
  return TRUE;
}

/* All files below the owner's key, whole or in parts. */
static gboolean
remove_staged (Ctx *ctx, ModelController *self, const ModelOwner *owner, GError **error)
{
  g_autoptr (GError) problem = NULL;
  const ControllerSettings *settings = self->settings;
  if (settings->staging_store == NULL)
    return TRUE;
  g_autoptr (ObjectStore) store = settings->open_staging (settings->staging_store, &problem);
  g_autofree char *uid = model_object_name ("", owner->uid), *prefix = g_strconcat (uid, "/", NULL);
  if (store == NULL && am_error_is (problem, AM_ERROR_NOT_FOUND))
    return TRUE; /* nothing was ever put there */
  if (store != NULL && object_parts_abort_below (ctx, store, prefix, &problem)
      && object_store_remove_prefix (ctx, store, prefix, &problem))
    return TRUE;
  am_log_warning (ctx, "an uploaded file cannot be removed", "err", am_error_info_of (problem)->name, NULL);
  return am_fail (error, am_error_info_of (problem)->code, am_error_reason (problem),
                  "the uploaded file cannot be removed from the bucket");
}

gboolean
model_remove_upload (Ctx *ctx, ModelController *self, const ModelOwner *owner, GError **error)
{
  const char *namespace = upload_namespace (self, owner);
  g_autofree char *session = model_object_name (UPLOAD_SESSION_PREFIX, owner->uid);
  g_autofree char *role_name = model_upload_reader_name (owner->name);
  KubeTarget role = { .kind = &role_kind, .namespace = namespace, .name = role_name };
  /* The session goes last: it shows that there is something to remove. */
  return remove_staged (ctx, self, owner, error)
         && model_delete (ctx, self, &secret_kind, namespace, UPLOAD_TOKEN_PREFIX, owner->uid, error)
         && kube_client_delete (ctx, self->client, &role, NULL, error)
         && (!self->settings->has_accounting || ledger_store_release (ctx, self->ledger_store, session, error))
         && model_delete (ctx, self, &secret_kind, self->settings->namespace, UPLOAD_SESSION_PREFIX, owner->uid,
                          error);
}
