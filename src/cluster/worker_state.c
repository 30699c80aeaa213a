#include "cluster/worker_state.h"

#include <string.h>

#include "base/json.h"
#include "cluster/module_objects.h"

#define STATE_KEY "state.json"
#define RESUME_KEY "resume"
#define MAX_STATE_BYTES (64u * 1024)
#define MAX_TEXT_BYTES 4096u
#define MAX_CONFLICTS 8u

static const char *const phase_names[] = {
  [WORKER_IDLE] = "Idle",
  [WORKER_RUNNING] = "Running",
  [WORKER_COMPLETED] = "Completed",
  [WORKER_FAILED] = "Failed",
};
static const char *const stage_names[] = {
  [WORKER_STAGE_IDLE] = "Idle",       [WORKER_STAGE_STARTING] = "Starting", [WORKER_STAGE_UPLOADING] = "Uploading",
  [WORKER_STAGE_RESUMED] = "Resumed", [WORKER_STAGE_SEALING] = "Sealing",   [WORKER_STAGE_COMMITTED] = "Committed",
};

static const JsonField fields[] = {
  JSON_FIELD (WorkerState, planned_layers, "plannedLayerCount", JSON_UINT64, FALSE),
  JSON_FIELD (WorkerState, planned_size_bytes, "plannedSizeBytes", JSON_UINT64, FALSE),
  JSON_FIELD (WorkerState, uploaded_size_bytes, "uploadedSizeBytes", JSON_UINT64, FALSE),
  JSON_FIELD (WorkerState, owner_generation, "ownerGeneration", JSON_INT64, FALSE),
  JSON_FIELD (WorkerState, resolved_revision, "resolvedRevision", JSON_STRING, FALSE),
  JSON_FIELD (WorkerState, trouble, "trouble", JSON_STRING, FALSE),
};

const char *
worker_phase_name (WorkerPhase phase)
{
  return phase_names[phase];
}

const char *
worker_stage_name (WorkerStage stage)
{
  return stage_names[stage];
}

void
worker_state_clear (WorkerState *self)
{
  json_clear (fields, G_N_ELEMENTS (fields), self);
  memset (self, 0, sizeof *self);
}

/* The decoded value of a key; NULL with an error, or without one when the Secret has no such key. Ends with a NUL. */
static char *
secret_value (const KubeObject *secret, const char *key, gsize limit_bytes, gsize *out_size, GError **error)
{
  const char *encoded = json_get_string (json_get_object (kube_object_root (secret), "data"), key);
  gsize size = 0;
  if (encoded == NULL)
    return NULL;
  if (strlen (encoded) / 4 * 3 > limit_bytes)
    return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "%s of the state Secret is too large", key);
  g_autofree guchar *bytes = g_base64_decode (encoded, &size);
  *out_size = size;
  return g_strndup ((const char *) bytes, size);
}

/* The index of a word; 0 for one that is not there. */
static guint
find_name (const char *const *names, guint n_names, const char *name)
{
  for (guint i = 0; i < n_names; i++)
    if (g_strcmp0 (names[i], name) == 0)
      return i;
  return 0;
}

static void
tidy_text (char **text)
{
  if (*text != NULL && (**text == '\0' || strlen (*text) > MAX_TEXT_BYTES))
    g_clear_pointer (text, g_free);
}

static gboolean
parse_state (const char *text, gsize size, WorkerState *out_state, GError **error)
{
  g_auto (WorkerState) state = { 0 };
  g_autoptr (yyjson_doc) doc = json_parse (text, size, MAX_STATE_BYTES, JSON_STRICT, error);
  yyjson_val *root = yyjson_doc_get_root (doc);
  if (doc == NULL || !json_bind (root, fields, G_N_ELEMENTS (fields), &state, error))
    {
      g_prefix_error (error, "%s of the state Secret: ", STATE_KEY);
      return FALSE;
    }
  tidy_text (&state.resolved_revision);
  tidy_text (&state.trouble);
  state.phase = (WorkerPhase) find_name (phase_names, G_N_ELEMENTS (phase_names), json_get_string (root, "phase"));
  state.stage = (WorkerStage) find_name (stage_names, G_N_ELEMENTS (stage_names), json_get_string (root, "stage"));
  *out_state = state;
  state = (WorkerState){ 0 };
  return TRUE;
}

gboolean
worker_state_read (const KubeObject *secret, WorkerState *out_state, char **out_resume, GError **error)
{
  g_autoptr (GError) problem = NULL;
  gsize size = 0, resume_size = 0;
  g_autofree char *text = secret_value (secret, STATE_KEY, MAX_STATE_BYTES, &size, &problem);
  g_autofree char *resume = problem == NULL ? secret_value (secret, RESUME_KEY, WORKER_STATE_MAX_RESUME_BYTES,
                                                            &resume_size, &problem)
                                            : NULL;
  if (problem != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (text == NULL)
    *out_state = (WorkerState){ 0 };
  else if (!parse_state (text, size, out_state, error))
    return FALSE;
  if (out_resume != NULL)
    *out_resume = g_steal_pointer (&resume);
  return TRUE;
}

/* What was there before, with what `state` says in place of its own members. Caller frees. */
static char *
format_state (const WorkerState *state, const KubeObject *secret, gsize *out_size)
{
  gsize size = 0;
  g_autofree char *before = secret_value (secret, STATE_KEY, MAX_STATE_BYTES, &size, NULL);
  g_autoptr (yyjson_doc) read = before != NULL ? json_parse (before, size, MAX_STATE_BYTES, JSON_STRICT, NULL) : NULL;
  g_autoptr (yyjson_mut_doc) doc = yyjson_is_obj (yyjson_doc_get_root (read)) ? yyjson_doc_mut_copy (read, NULL)
                                                                              : yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_doc_get_root (doc);
  if (root == NULL)
    yyjson_mut_doc_set_root (doc, root = yyjson_mut_obj (doc));
  yyjson_mut_obj_remove_key (root, "phase");
  yyjson_mut_obj_remove_key (root, "stage");
  for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
    yyjson_mut_obj_remove_key (root, fields[i].name);
  yyjson_mut_obj_add_str (doc, root, "phase", worker_phase_name (state->phase));
  yyjson_mut_obj_add_str (doc, root, "stage", worker_stage_name (state->stage));
  json_unbind (doc, root, fields, G_N_ELEMENTS (fields), state);
  return json_write (doc, out_size);
}

static void
set_value (yyjson_mut_doc *doc, yyjson_mut_val *data, const char *key, const char *bytes, gsize size)
{
  g_autofree char *encoded = g_base64_encode ((const guchar *) bytes, size);
  yyjson_mut_obj_remove_key (data, key);
  yyjson_mut_obj_add_val (doc, data, key, yyjson_mut_strcpy (doc, encoded));
}

static yyjson_mut_doc *
edit (const KubeObject *secret, const WorkerState *state, const char *resume)
{
  yyjson_mut_doc *doc = kube_object_edit (secret);
  yyjson_mut_val *root = yyjson_mut_doc_get_root (doc), *data = yyjson_mut_obj_get (root, "data");
  gsize size = 0;
  g_autofree char *text = format_state (state, secret, &size);
  if (!yyjson_mut_is_obj (data))
    {
      yyjson_mut_obj_remove_key (root, "data");
      data = yyjson_mut_obj_add_obj (doc, root, "data");
    }
  set_value (doc, data, STATE_KEY, text, size);
  if (resume != NULL)
    set_value (doc, data, RESUME_KEY, resume, strlen (resume));
  else
    yyjson_mut_obj_remove_key (data, RESUME_KEY);
  return doc;
}

/* NULL without an error when somebody else was first. */
static KubeObject *
store_once (Ctx *ctx, KubeClient *client, const KubeTarget *target, const KubeObject *secret,
            const WorkerState *state, const char *resume, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (yyjson_mut_doc) doc = edit (secret, state, resume);
  KubeObject *stored = kube_client_update (ctx, client, target, doc, &problem);
  if (stored == NULL && !am_error_is (problem, AM_ERROR_ABORTED))
    g_propagate_error (error, g_steal_pointer (&problem));
  return stored;
}

KubeObject *
worker_state_store (Ctx *ctx, KubeClient *client, const char *namespace, const char *name, const KubeObject *seen,
                    const WorkerState *state, const char *resume, GError **error)
{
  KubeTarget target = { .kind = &secret_kind, .namespace = namespace, .name = name };
  for (guint i = 0; i < MAX_CONFLICTS; i++)
    {
      g_autoptr (GError) problem = NULL;
      g_autoptr (KubeObject) fresh = i > 0 || seen == NULL ? kube_client_get (ctx, client, &target, error) : NULL;
      const KubeObject *secret = fresh != NULL ? fresh : seen;
      if (fresh == NULL && (i > 0 || seen == NULL))
        return NULL;
      KubeObject *stored = store_once (ctx, client, &target, secret, state, resume, &problem);
      if (stored != NULL)
        return stored;
      if (problem != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&problem));
          return NULL;
        }
    }
  return am_fail_null (error, AM_ERROR_UNAVAILABLE, NULL,
                       "the state Secret %s is written by somebody else all the time", name);
}
